"""What 30, 31 and 34 do not carry: canvases under masks that are not constant, and options that must arrive."""
from dataclasses import replace

import pytest, torch

from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.core import generator, test_near as near
from shearletx_nb.explanation import Explanation
from shearletx_nb.images import sample_images
from shearletx_nb.mask_explainers import PixelMask, ShearletX, WaveletX
from shearletx_nb.objective import FAST, PAPER
from shearletx_nb.representation import Pixels
from shearletx_nb.show import for_display, mask_profile
from shearletx_nb.wavelet import Wavelet

MODEL = SmoothClassifier()


def drawn(T, C=3):
    "Two photographs with random masks."
    x, target = sample_images(T.shape, 2).images[:, :C].double(), torch.tensor([3, 5])
    mask = torch.rand(2, *T.coefficient_shape, generator=generator(0), dtype=torch.float64)
    return Explanation(x, mask, target, MODEL(x).softmax(dim=-1)[[0, 1], [3, 5]], T, model=MODEL)


@pytest.mark.parametrize("C", [1, 3])
@pytest.mark.parametrize("T", [Pixels((40, 32)), Wavelet((40, 32), "db2", 2).double()], ids=lambda T: type(T).__name__)
def test_canvases(T, C):
    "Each by its formula, picture by picture."
    why = drawn(T, C)
    for i, (x, m) in enumerate(zip(why.x, why.mask)):
        c = T.analyse(x)
        kept = T.synthesise(m*c)
        bands = T.split(c)
        pools = [bands[:1], *(bands[k:k+3] for k in range(1, len(bands), 3))]         # the low-pass, and scale by scale
        means = [torch.cat([band.flatten() for band in pool]).mean() for pool in pools for _ in pool]
        mu = T.join([mean.expand(1, *band.shape) for mean, band in zip(means, T.bands)])
        colour = torch.tensor([.485, .456, .406] if C == 3 else [.458], dtype=torch.float64)[:, None, None].expand_as(x)
        canvases = dict(zero=kept, max=kept/kept.max(), mean=T.synthesise(m*c+(1-m)*mu),
                        dataset=T.synthesise(m*c+(1-m)*T.analyse(colour)))
        for name, expected in canvases.items():
            near(why.on(name)[i], expected, rtol=1e-12)
            p = MODEL(expected[None]).softmax(dim=-1)[0, why.target[i]]
            near(why.retained_probability(name)[i], p/MODEL(x[None]).softmax(dim=-1)[0, why.target[i]], rtol=1e-9)
    near(why.retained_probability(), why.retained_probability("zero"), rtol=0)


def test_options_arrive():
    "Steps, samples, rate, betas, precision and penalties that are given win over the protocol's."
    options = dict(steps=3, samples=4, lr=.2, betas=(.5, .6), precision="bfloat16")
    for explainer in (ShearletX, WaveletX, PixelMask):
        explain = explainer(MODEL, protocol="FAST", lambda1=.3, lambda2=.4, **options)
        assert explain.protocol == replace(FAST, **options) and (explain.lambda1, explain.lambda2) == (.3, .4)
        assert explainer(MODEL, lr=.2).protocol == replace(PAPER, lr=.2)
    x = sample_images(32, 1).images.double()
    why = PixelMask(MODEL, steps=3, samples=2, lambda1=0., lambda2=1e3)(x, target=4, seed=1, progress=False)
    assert why.mask.mean() < .8 and why.history["objective"].shape == (3, 1) and why.target.tolist() == [4]   # λ₂ rules
    assert why.settings["seed"] == 1
    assert not why.mask.equal(PixelMask(MODEL, steps=3, samples=2)(x, 4, progress=False).mask)
    one, two = (PixelMask(MODEL, steps=3, samples=2)(x, seed=seed, progress=False).mask for seed in (0, 1))
    assert not one.equal(two)


def test_profile_and_display():
    "Mean of the mask and kept share of the magnitude by hand; a display is mid-grey where the explanation is median."
    T = Wavelet((40, 32), "db2", 2).double()
    why = drawn(T)
    rows = mask_profile(why)
    assert len(rows) == 2*7
    for row in rows:
        b = [band.name for band in T.bands].index(row["band"])
        m, c = T.split(why.mask[row["image"]])[b], T.split(T.analyse(why.x[row["image"]]))[b]
        assert row["mean"] == pytest.approx(m.mean().item())
        assert row["kept"] == pytest.approx(((m*c.abs()).sum()/c.abs().sum()).item())
    e = torch.tensor([0., 0., 0., 1., -2.]).view(1, 1, 1, 5)
    near(for_display(e, 1.), torch.tensor([.5, .5, .5, .75, 0.]).view(1, 1, 1, 5))
