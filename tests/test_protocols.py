"""Every number and word that a name stands for, against the paper's text and the published script.

A protocol is only as good as its values, and no other test can notice that one of them is another: each is written here
once more, by hand, with the sentence that it comes from. A field that these tables do not know is an error.
"""
import inspect
from dataclasses import asdict, fields

import pytest, torch

from shearletx_nb.authors_scoring import AUTHORS_SCORING, PAPER_SCORING, Scoring
from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.curves import coefficient_curves, curves_of, missing_parts, pixel_curves
from shearletx_nb.edges import CannyDetector, EdgeDetector, SobelDetector
from shearletx_nb.mask_explainers import CartoonX, PixelMask, ShearletX, WaveletX
from shearletx_nb.metrics import hallucination_score
from shearletx_nb.objective import AUTHORS_CODE, FAST, FIRM, PAPER, SOUND, SWIFT, Protocol, protocol_named
from shearletx_nb.optimise import Plateau
from shearletx_nb.smooth_mask import MaskGrid, SmoothMask, SmoothMaskOptions, blur_pyramid, gaussian_blur
from shearletx_nb.statistics import bootstrap_mean, mean_band

PAPER_BETAS = (.9, .999)     # torch's: "for the other Adam parameters we use the PyTorch default setting"

# field: PAPER, AUTHORS_CODE, SOUND, FAST, FIRM, SWIFT; then what the text says | what the script does | ours, and why
PROTOCOLS = dict(
    fidelity=("probability", "squared", "probability", "probability", "probability", "extended",
              "max E[Φ_c(...)] | minimises the mean of (1 - Φ_c)² | as the text; SWIFT: a lost class finds back"),
    clamp=("none", "authors", "none", "none", "none", "none",
           "no clamp in the objective | shearlets: the mixed coefficients, others: the image, to [0,1] | as the text"),
    spatial=("l1", "grey", "l1", "l1", "l1", "l1",
             "‖DSH⁻¹(m⊙DSH(x))‖₁ | mean of the grey explanation, clamped to [0,1] | as the text"),
    statistics=("colour", "authors", "colour", "colour", "colour", "colour",
                "'mean of the image's shearlet coefficients' | shearlets: of the grey image's | as the text"),
    pooled=("scale and shear", "scale and shear", "scale and shear", "scale and shear", "scale and shear",
            "scale and shear",
            "'adapted to each scale and shearing parameter', wavelets: 'to each scale' | the same | the same"),
    noise=("uniform", "uniform", "uniform", "uniform", "uniform", "uniform",
           "'sampled uniformly from [μ-σ, μ+σ]' | the same | the same"),
    noise_channels=("shared", "authors", "shared", "shared", "shared", "shared",
                    "not said; one mask serves all channels | shearlets: one field, wavelets: one each | as PAPER"),
    antithetic=(True, False, True, True, True, True,
                "'a simple Monte Carlo average'; in a pair μ±v each is so distributed | independent | as PAPER"),
    waveletx_lambda1=(1., 2., 1., 1., 1., 1.,
                      "'λ₁=1 and λ₂=10 work well in practice' | 2 in the script of the scatter plots | as the text"),
    noise_free=(0., 0., .5, .5, .5, .5,
                "every sample has noise | every sample | half have none: the class must be there without it, too"),
    amplitude=("full", "full", "full", "full", "full", "full",
               "[μ-σ, μ+σ] | the same | the same"),
    canvas=("mean", "mean", "mean and zero", "mean or zero", "mean or zero", "mean or zero",
            "noise around μ | the same | without noise on black, too, where explanations are shown; FAST in turn"),
    steps=(300, 300, 300, 160, 160, 28,
           "'The mask is optimized for 300 steps' | 300 in the script | FAST: less work"),
    samples=(16, 16, 16, 4, 4, 4,
             "'a simple Monte Carlo average over 16 samples' | the same | FAST: 4, in 3 passes of the classifier"),
    lr=(.1, .1, .1, .1, .1, .2,
        "'learning rate 10⁻¹' | the same | the same; SWIFT: twice as much, the steps are few"),
    betas=(PAPER_BETAS, PAPER_BETAS, PAPER_BETAS, (.9, .8), (.9, .8), (.8, .8),
           "'the PyTorch default setting' | the same | FAST: a mask value soon forgets a large gradient"),
    growth=(1., 1., 1., .4, .4, .4,
            "Adam's whole step | the same | FAST: steps upwards are cut to 0.4, few samples make slips"),
    settle=(0., 0., .2, .2, .2, .15,
            "a constant rate | the same | the last fifth, of SWIFT less, from the best mask, the rate falls to zero"),
    prune=(0., 0., 0., .1, .2, .05,
           "nothing is pruned | nothing | FAST: what is below one step's length, 0.1; FIRM: below two; SWIFT: 0.05"),
    penalty=(1., 1., 1., 1., 3., 10.,
             "λ₁ and λ₂ as they are | the same | FIRM: three times, many samples withstand more; SWIFT: ten times"),
    necessity=(0., 0., 0., 0., 1., 1.,
               "nothing is taken out | nothing | FIRM: what is left must lose the class as surely as it must be kept"),
    removals=(2, 2, 2, 2, 2, 2,
              "no part | no part | FIRM: two transformations of what is left per step"),
    transformations=(0., 0., 0., 0., 1., 1.,
                     "none | none | FIRM: as strong as photographs bear without losing their class"),
    mask_grid=("coefficients", "coefficients", "coefficients", "coefficients", "neighbourhoods", "neighbourhoods",
               "a mask value per coefficient | the same | FIRM: single coefficients are what one draws with"),
    pursuit=(0, 0, 0, 0, 0, 0,
             "no head start | none | none: it is the adversary's (46_controls)"),
    start=("ones", "ones", "ones", "ones", "ones", "learned",
           "not said; the script's is ones | ones | SWIFT: what a network expects of FIRM's masks"),
    ascent=("Adam", "Adam", "Adam", "Adam", "Adam", "Adam",
            "'we optimize the shearlet mask with the Adam optimizer' | the same | the same"),
    precision=("full", "full", "full", "full", "full", "full",
               "not said; float32 | float32 | the same"),
)


def wrong(table:dict, column:int, found:dict)->dict:
    "Where what is found differs from a column of a table; a field that only one of them knows is a difference."
    missing = object()
    return {name: (found.get(name, missing), table.get(name, missing)) for name in table.keys() | found.keys()
            if name not in table or name not in found or found[name] != table[name][column]}


@pytest.mark.parametrize("column, name", [(0, "PAPER"), (1, "AUTHORS_CODE"), (2, "SOUND"), (3, "FAST"), (4, "FIRM"),
                                          (5, "SWIFT")])
def test_every_field_of_every_protocol(column, name):
    "What is imported by a name, and what is found by it."
    for protocol in ((PAPER, AUTHORS_CODE, SOUND, FAST, FIRM, SWIFT)[column], protocol_named(name)):
        assert not wrong(PROTOCOLS, column, {f.name: getattr(protocol, f.name) for f in fields(Protocol)})


def test_adams_other_parameters_are_torchs():
    adam = torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    assert adam.defaults["betas"] == PAPER_BETAS


def test_the_table_notices():
    "A changed value, a new field and a lost field."
    found = asdict(PAPER)
    assert not wrong(PROTOCOLS, 0, found)
    assert wrong(PROTOCOLS, 0, {**found, "samples": 8}).keys() == {"samples"}
    assert wrong(PROTOCOLS, 0, {**found, "colour": "red"}).keys() == {"colour"}
    assert wrong(PROTOCOLS, 0, {k: v for k, v in found.items() if k != "lr"}).keys() == {"lr"}


# field: PAPER_SCORING, AUTHORS_SCORING; then what the text says | what the script does
SCORINGS = dict(
    probability=("target", "largest", "'class probability after masking' | the maximum over all classes"),
    information=("extent", "entropy", "ratio of exp(H) | ratio of H, with log(p + 1e-7)"),
    smooth_product=("once", "twice", "mask ⊙ x | mask ⊙ x ⊙ x in the CP scores"),
    smooth_divisor=("own", "l1_pixel", "own representation | the image's pixel ℓ₁-norm, whatever the measure"),
    means=("own", "cp_l1_pixel", "mean of the plotted score | always that of CP-ℓ₁ Pixel"),
    divide=("nothing", "maximum", "the explanation as it is | divided by its maximum first"),
    levels=("clamp", "int8", "the image | grey image × 255 cast to signed 8 bit"),
    dilate=(1, 3, "a set difference | the image's edges are dilated 3×3 before it"),
    detector=(EdgeDetector(), EdgeDetector(side="pycoshrem"), "a shearlet edge detector | PyCoShREM's placement"),
    canvas=("zero", "zero", "'after masking', so on black | on black"),
)


@pytest.mark.parametrize("column, scoring", [(0, PAPER_SCORING), (1, AUTHORS_SCORING)], ids=["paper", "authors"])
def test_every_field_of_every_scoring(column, scoring):
    assert not wrong(SCORINGS, column, {f.name: getattr(scoring, f.name) for f in fields(Scoring)})


# TorchRay 1.0.0.2's defaults with the contrastive reward, which the published script asks for
SMOOTH = dict(
    steps=(800, "max_iter"), spacing=(7, "step"), sigma=(21., "sigma"), levels=(8, "num_levels"),
    max_blur=(20., "max_blur"), lr=(.01, "of its SGD"), momentum=(.9, "and dampening"), weight=(300., "regul_weight"),
    ramp=(None, "1.0035 at 800 steps"), reward=("contrastive", "the script's"), variant=("preserve", "its default"),
    jitter=("alternate", "every other step"), border=("zero", "beyond the border it sees zeros"),
    frame=("margin", "it counts the area on its padded plane"), pursuit=(0, "ours: none"),
    max_images_per_pass=(16, "ours: bounds the memory"))

# the published script's contrast and threshold, and PyCoShREM's defaults
EDGES = dict(
    contrast=(3/255, "contrast 3"), threshold=(.1, "edge > 0.1"), thin=(False, "nothing is thinned"),
    polarity=("both", "default"), side=("dark", "ours"), boundary=("periodic", "FFTs"), grey=("luma", "the text"),
    shear_level=(3, "default"), wavelet_support=(None, "default: a seventh"), octaves=(3.5, "default"),
    gaussian_support=(None, "default: a twentieth"), scales_per_octave=(2, "default"), alpha=(.8, "default"),
    offset=(1., "default: one octave"))

OTHERS = [(SmoothMaskOptions(), SMOOTH), (EdgeDetector(), EDGES), (SobelDetector(), dict(threshold=(.05,))),
          (CannyDetector(), dict(sigma=(1.,), low=(.1,), high=(.2,))),
          (Plateau(), dict(patience=(20,), tolerance=(1e-3,))),
          (MaskGrid((64, 48)), dict(shape=((64, 48),), spacing=(7,), sigma=(21.,), temperature=(1/20,)))]


@pytest.mark.parametrize("options, table", OTHERS, ids=lambda v: type(v).__name__)
def test_every_default(options, table):
    assert not wrong(table, 0, {f.name: getattr(options, f.name) for f in fields(options) if f.compare})


# explainer: λ₁, λ₂, and the coefficients of a 256×256 picture. "we found λ₁=1 and λ₂=2 to work well" (ShearletX),
# "λ₁=1 and λ₂=10" (WaveletX), "the same parameters and procedure as WaveletX but set λ₂=0" (CartoonX). A pixel mask
# has no spatial penalty, and its λ is not stated: 1, as for the others.
EXPLAINERS = [(ShearletX, 1., 2., (49, 256, 256)), (WaveletX, 1., 10., None), (CartoonX, 1., 0., None),
              (PixelMask, 1., 0., (1, 256, 256))]


@pytest.mark.parametrize("explainer, lambda1, lambda2, shape", EXPLAINERS, ids=lambda v: getattr(v, "__name__", None))
def test_explainers(explainer, lambda1, lambda2, shape):
    "The paper's choices for each of its four methods."
    explain, script = explainer(SmoothClassifier()), explainer(SmoothClassifier(), protocol="AUTHORS_CODE")
    assert explain.protocol == PAPER and (explain.lambda1, explain.lambda2) == (lambda1, lambda2)
    assert explain.plateau is None
    theirs = 2. if explainer in (WaveletX, CartoonX) else lambda1
    assert script.protocol == AUTHORS_CODE and (script.lambda1, script.lambda2) == (theirs, lambda2)
    T = explain.representation((256, 256))
    if shape: assert T.coefficient_shape == shape              # "returned as a 49×3×256×256 tensor"
    else: assert (T.wavelet, T.levels, T.mode) == ("db3", 5, "zero")


# function: its defaults, which its notebook states in words
DEFAULTS = [
    (blur_pyramid, dict(levels=8, max_blur=20., border="zero")), (gaussian_blur, dict(border="zero")),
    (SmoothMask.__init__, dict(areas=(.1,), steps=800)), (missing_parts, dict(replaced="blur", blur=None)),
    (coefficient_curves, dict(ties="magnitude", seed=0)), (mean_band, dict(seed=0, resamples=4000, level=.95)),
    (bootstrap_mean, dict(seed=0, resamples=4000, level=.95)),
    (curves_of, dict(shares=20, kinds=("insertion", "deletion"), batch=16, progress=None)),
    (hallucination_score, dict(image=None, detector=None, dilate=1)),
    (pixel_curves, dict(x=None, model=None, target=None, method="", by=None, seed=0, replaced="blur", blur=None))]


@pytest.mark.parametrize("function, defaults", DEFAULTS, ids=lambda v: getattr(v, "__qualname__", None))
def test_defaults_of_functions(function, defaults):
    said = {name: p.default for name, p in inspect.signature(function).parameters.items() if p.default is not p.empty}
    assert said == defaults
