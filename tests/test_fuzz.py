"Any size, type and protocol: the laws hold, or one sentence says why not. The examples are the same at every run."
import math, random

import numpy as np, pytest, torch
from hypothesis import HealthCheck, event, given, settings, strategies as st

from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.core import generator, relative_error
from shearletx_nb.curves import check_shares, coefficient_curves
from shearletx_nb.edges import EdgeDetector
from shearletx_nb.mask_explainers import CartoonX, PixelMask, ShearletX, WaveletX
from shearletx_nb.objective import AUTHORS_CODE, FAST, PAPER, SOUND, Protocol
from shearletx_nb.representation import Pixels
from shearletx_nb.shearlet import Shearlet
from shearletx_nb.smooth_mask import SmoothMask
from shearletx_nb.wavelet import Wavelet, wavelet_modes


def fuzz(n:int):
    "A number of examples, the same ones every time, however long one takes."
    return settings(max_examples=n, derandomize=True, deadline=None, database=None,
                    suppress_health_check=list(HealthCheck))


pick = st.sampled_from
dtypes = pick([torch.float32, torch.float64])
channels = pick([1, 3])
# some thousand roundings of 1e-7 and 2e-16; the filters' gain is below a hundred
tolerance = {torch.float32: 2e-4, torch.float64: 1e-11}


def sides(least:int, most:int):
    "Square, odd and thin pictures."
    side = st.integers(least, most)
    return st.one_of(side.map(lambda n: (n, n)), st.tuples(side, side), side.map(lambda n: (least, n)),
                     side.map(lambda n: (n, least)))


def refused(error:ValueError)->None:
    "A refusal is one sentence."
    assert str(error) and "\n" not in str(error) and len(str(error)) < 500, repr(str(error))


def global_state()->tuple:
    "The states of all global generators."
    return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()  # noqa: NPY002


def a_picture(draw_from:int, batch:int, C:int, shape:tuple[int, int], dtype:torch.dtype)->torch.Tensor:
    "Smooth noise in [0,1]."
    coarse = torch.rand(batch, C, 6, 6, generator=generator(draw_from, *shape), dtype=torch.float64)
    return torch.nn.functional.interpolate(coarse, size=shape, mode="bilinear").clamp(0, 1).to(dtype)


levels = st.lists(st.integers(0, 2), min_size=1, max_size=4)
shearlets = st.one_of(st.builds(lambda n, full: dict(n_scales=n, full=full), st.integers(1, 4), st.booleans()),
                      st.builds(lambda k, full, wrong: dict(n_scales=len(k)+(wrong == 0), shear_levels=k, full=full),
                                levels, st.booleans(), st.integers(0, 9)))
wavelets = st.fixed_dictionaries(dict(
    wavelet=pick(["haar", "db3", "db8", "sym4", "coif2", "bior2.2", "rbio1.3"]), levels=st.integers(0, 5),
    mode=pick([*wavelet_modes()*3, "smooth"])))
kinds = st.one_of(st.tuples(st.just(Shearlet), shearlets), st.tuples(st.just(Wavelet), wavelets),
                  st.tuples(st.just(Pixels), st.just({})))


@fuzz(300)
@given(kind=kinds, shape=st.one_of(sides(47, 300), sides(47, 300), sides(1, 60)), C=channels, dtype=dtypes,
       batch=st.integers(1, 2))
def test_representations(kind, shape, C, dtype, batch):
    "synthesise(analyse(x)) is x, and <synthesise(c), y> is <c, adjoint(y)>."
    before = global_state()
    try: T = kind[0](shape, **kind[1]).to(dtype)
    except ValueError as error: event("refused"); return refused(error)
    event(f"{kind[0].__name__} done")
    draw = generator(1, *shape)
    x, y = (torch.rand(batch, C, *shape, generator=draw, dtype=dtype) for _ in range(2))
    kept, c = x.clone(), T.analyse(x)
    assert relative_error(T.synthesise(c), x) < tolerance[dtype]
    c = torch.randn(c.shape, generator=draw, dtype=dtype)
    s, a = T.synthesise(c), T.adjoint(y)
    assert s.dtype == a.dtype == dtype
    s, y, c, a = (t.double() for t in (s, y, c, a))
    assert abs((s*y).sum()-(c*a).sum()) < tolerance[dtype]*(s.norm()*y.norm()+c.norm()*a.norm())
    assert torch.equal(x, kept) and global_state() == before


choices = st.fixed_dictionaries(dict(
    fidelity=pick(["probability", "squared"]), clamp=pick(["none", "coefficients", "image", "authors"]),
    spatial=pick(["l1", "grey"]), statistics=pick(["colour", "grey", "authors"]),
    pooled=pick(["scale and shear", "band"]), noise=pick(["uniform", "gaussian", "zero"]),
    noise_channels=pick(["shared", "separate", "authors"]), antithetic=st.booleans(),
    noise_free=pick([0., .25, .5, 1.]), amplitude=pick(["full", "random"]), lr=pick([.01, .1, 1.]),
    canvas=pick(["mean", "mean and zero", "mean or zero", "random"]),
    betas=pick([(.9, .999), (.9, .8), (0., 0.)]), growth=pick([0., .4, 1.]), settle=pick([0., .2, .5, 1.]),
    prune=pick([0., .1, 1.])))
protocols = st.one_of(pick([PAPER, AUTHORS_CODE, SOUND, FAST]), choices.map(lambda c: Protocol(**c)))
options = {ShearletX: st.fixed_dictionaries(dict(n_scales=st.integers(1, 3))),
           WaveletX: st.fixed_dictionaries(dict(levels=st.integers(1, 6), mode=pick(wavelet_modes()))),
           CartoonX: st.fixed_dictionaries(dict(wavelet=pick(["haar", "db3"]), levels=st.integers(1, 4))),
           PixelMask: st.just({})}
explainers = pick(list(options)).flatmap(lambda E: st.tuples(st.just(E), options[E]))


@fuzz(200)
@given(explainer=explainers, protocol=protocols, shape=sides(47, 110), C=channels, dtype=dtypes,
       batch=st.integers(1, 2), steps=st.integers(0, 4),
       samples=pick([2, 4, 1, 3]), seed=st.integers(0, 2**40), per_pass=st.integers(1, 9))
def test_explainers(explainer, protocol, shape, C, dtype, batch, steps, samples, seed, per_pass):
    "Masks in [0,1], a finite history; model, picture and global generators untouched; the same seed, the same bits."
    model, x = SmoothClassifier(dtype=dtype), a_picture(2, batch, C, shape, dtype)
    before, kept, weights = global_state(), x.clone(), {k: v.clone() for k, v in model.state_dict().items()}
    try:
        explain = explainer[0](model, protocol=protocol, steps=steps, samples=samples, max_samples_per_pass=per_pass,
                               **explainer[1])
        why, again = (explain(x, seed=seed, progress=False) for _ in range(2))
    except ValueError as error: return refused(error)
    event(f"{explainer[0].__name__} done")
    assert why.mask.shape == (batch, *why.representation.coefficient_shape) and why.mask.dtype == dtype
    assert why.mask.min() >= 0 and why.mask.max() <= 1 and why.finished.all()
    assert all(h.shape == (steps, batch) and h.isfinite().all() for h in why.history.values())
    assert why.image.isfinite().all() and (0 < why.probability).all() and (why.probability <= 1).all()
    assert torch.equal(why.mask, again.mask) and all(torch.equal(h, again.history[k]) for k, h in why.history.items())
    assert torch.equal(x, kept) and x.grad is None and not x.requires_grad and global_state() == before
    assert model.training and all(torch.equal(v, weights[k]) for k, v in model.state_dict().items())


edge_options = st.fixed_dictionaries({}, optional=dict(
    thin=st.booleans(), polarity=pick(["both", "positive", "negative"]), boundary=pick(["periodic", "symmetric"]),
    shear_level=st.integers(2, 5), octaves=pick([.5, 3.5, 6.]), offset=pick([0., 1., 3.]), alpha=pick([0., .8, 1.]),
    scales_per_octave=st.integers(1, 3), wavelet_support=pick([None, .5, 12., 500.]), contrast=pick([0., 3/255]),
    threshold=pick([0., .1, .99])))


@fuzz(300)
@given(shape=st.one_of(sides(16, 90), sides(16, 90), sides(1, 20)), C=channels, dtype=dtypes, constant=st.booleans(),
       chosen=edge_options)
def test_edges(shape, C, dtype, constant, chosen):
    "A measure in [0,1] and an angle at every pixel; nothing but a constant picture's absence of edges is sure."
    x = torch.full((1, C, *shape), .5, dtype=dtype) if constant else a_picture(3, 1, C, shape, dtype)
    kept, before = x.clone(), global_state()
    try: found = EdgeDetector(**chosen)(x)
    except ValueError as error: return refused(error)
    event("edges done")
    assert found.measure.shape == found.edges.shape == found.orientation.shape == (1, *shape)
    assert found.measure.isfinite().all() and found.measure.min() >= 0 and found.measure.max() <= 1
    assert found.orientation.isfinite().all() and found.edges.dtype == torch.bool
    assert not (constant and found.edges.any() and chosen.get("contrast", 1) > 0)
    assert torch.equal(x, kept) and global_state() == before


@fuzz(150)
@given(shares=st.one_of(st.integers(-2, 50), st.lists(st.floats(allow_nan=True), max_size=6),
                        st.lists(st.floats(0, 1), max_size=6).map(lambda s: sorted({0., 1., *s}))),
       C=channels, dtype=dtypes, shape=sides(8, 24), batch=st.integers(0, 20))
def test_curves(shares, C, dtype, shape, batch):
    "Curves end where they must: everything is the picture itself, whatever the shares."
    try: s = check_shares(shares)
    except ValueError as error: return refused(error)
    assert s[0] == 0 and s[-1] == 1 and (s.diff() > 0).all()
    why = PixelMask(SmoothClassifier(dtype=dtype), steps=1, samples=2)(a_picture(4, 1, C, shape, dtype), progress=False)
    try: insertion, deletion = coefficient_curves(why, shares=shares, batch=batch, progress=False)
    except ValueError as error: return refused(error)
    event("curves done")
    assert insertion.retained.shape == (1, len(s))
    assert insertion.retained.isfinite().all() and (insertion.retained >= 0).all()
    near = pytest.approx(1, rel=1e-3 if dtype == torch.float32 else 1e-9)  # logits are in the hundreds: 200 times 1e-6
    assert insertion.retained[0, -1].item() == near and deletion.retained[0, 0].item() == near
    assert math.isclose(insertion.retained[0, 0].item(), deletion.retained[0, -1].item(), rel_tol=1e-3)


smooth_options = st.fixed_dictionaries({}, optional=dict(
    steps=st.integers(1, 3), spacing=st.integers(1, 12), sigma=pick([.5, 1., 5., 21.]), levels=st.integers(2, 8),
    max_blur=pick([.5, 20.]), variant=pick(["preserve", "delete"]), jitter=pick(["alternate", "random", "none"]),
    border=pick(["zero", "normalised"]), frame=pick(["margin", "image"]), max_images_per_pass=st.integers(1, 5)))


@fuzz(150)
@given(shape=st.one_of(sides(20, 90), sides(8, 20)), C=channels, dtype=dtypes, batch=st.integers(1, 2),
       areas=st.one_of(st.floats(-.1, 1.1), st.lists(st.floats(.001, .999), max_size=3)), seed=st.integers(0, 2**40),
       chosen=smooth_options)
def test_smooth_masks(shape, C, dtype, batch, areas, seed, chosen):
    "As for the other explainers, for every area."
    model, x = SmoothClassifier(dtype=dtype), a_picture(5, batch, C, shape, dtype)
    kept, before = x.clone(), global_state()
    try:
        explain = SmoothMask(model, areas, **{"steps": 2, **chosen})
        found, again = (explain.each(x, seed=seed, progress=False) for _ in range(2))
    except ValueError as error: return refused(error)
    event("smooth mask done")
    for why, twin in zip(found, again):
        assert why.mask.shape == (batch, 1,
                                  *shape) and why.mask.min() >= 0 and why.mask.max() <= 1 and torch.equal(why.mask,
                                                                                                          twin.mask)
        assert all(len(h) == chosen.get("steps", 2) and h.isfinite().all() for h in why.history.values())
    assert torch.equal(x, kept) and global_state() == before and model.training


@pytest.mark.parametrize("make", [
    lambda: EdgeDetector(polarity="none"), lambda: EdgeDetector(shear_level=1), lambda: EdgeDetector(octaves=0.),
                                  lambda: EdgeDetector(offset=7.),
    lambda: EdgeDetector(scales_per_octave=0), lambda: EdgeDetector(wavelet_support=0.),
                                  lambda: EdgeDetector(threshold=1.),
    lambda: SmoothMask(SmoothClassifier(), (.1,), steps=0), lambda: SmoothMask(SmoothClassifier(), (.1,), spacing=0),
                                  lambda: SmoothMask(SmoothClassifier(), ()),
    lambda: SmoothMask(SmoothClassifier(), (.1,), sigma=0.), lambda: SmoothMask(SmoothClassifier(), (.1,), levels=1),
                                  lambda: SmoothMask(SmoothClassifier(), 1.),
    lambda: SmoothMask(SmoothClassifier(), (.1,), max_images_per_pass=0), lambda: Protocol(steps=-1),
                                  lambda: Protocol(lr=0.), lambda: Protocol(prune=1.1),
    lambda: Protocol(canvas="grey"), lambda: Protocol(noise="pink"), lambda: Protocol(betas=(.9, 1.)),
                                  lambda: Protocol(betas=(.9,)), lambda: Protocol(lr=math.nan),
    lambda: Protocol(samples=2.5), lambda: Wavelet((64, 64), levels=2.5), lambda: Wavelet((64, 64), "no such"),
                                  lambda: Pixels((0, 4))])
def test_refusals(make):
    "Each wrong choice by itself, when it is made and not later."
    with pytest.raises(ValueError) as raised: make()
    refused(raised.value)
