"""What 43_curves does not carry: laws of insertion and deletion curves over many orders, shares and representations."""
import math

import numpy as np, pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn

from shearletx_nb.core import generator, test_near as near
from shearletx_nb.curves import (Curve, coefficient_curves, coefficient_order, curve_rows, curves_of, pixel_curves,
                                 pixel_order, ranking, show_curves)
from shearletx_nb.explanation import Explanation
from shearletx_nb.representation import Pixels
from shearletx_nb.statistics import mean_band
from shearletx_nb.wavelet import Wavelet

seeds = st.integers(0, 2**31)
quick = settings(max_examples=20, deadline=None)
words = dict(method="", space="", order="", replaced="")
transforms = [Pixels((12, 10)), Wavelet((12, 10), "haar", 2).double()]


class Curved(nn.Module):
    "A smooth classifier of four classes, with dropout that must be asleep."
    def __init__(self):
        super().__init__()
        self.A = nn.Parameter(torch.randn(4, 360, generator=generator(5), dtype=torch.float64)/10)
        self.drop = nn.Dropout(.5)
    def forward(self, x): return torch.tanh(self.drop(x).flatten(1)) @ self.A.T.to(x.dtype)


def drawn(seed, T, B=2, dtype=torch.float64):
    "A random explanation with many equal mask values."
    r = lambda k, *size: torch.rand(*size, generator=generator(seed, k), dtype=torch.float64).to(dtype)
    x, model, target = r(0, B, 3, 12, 10), Curved(), torch.arange(B) % 4
    mask = (3*r(1, B, *T.coefficient_shape)).floor()/2
    return Explanation(x, mask, target, model.eval()(x).softmax(dim=-1)[torch.arange(B), target].detach(), T, "Drawn",
                       model=model)


@pytest.mark.parametrize("T", transforms, ids=lambda T: type(T).__name__)
@given(seed=seeds, inner=st.lists(st.floats(.001, .999), unique=True, max_size=6),
       ties=st.sampled_from(["magnitude", "random"]))
@quick
def test_ends_and_reversal(T, seed, inner, ties):
    """All inserted or nothing deleted is the picture; nothing inserted or all deleted is black; the reversed deletion
    is the insertion read backwards."""
    why, shares = drawn(seed, T), [0, *sorted(inner), 1]
    n = T.n_coefficients
    shares = sorted({round(s*n)/n for s in shares})   # so that s and 1-s give whole numbers that add up to n
    insertion, deletion = coefficient_curves(why, ties, shares=shares, progress=False)
    one, zero = torch.ones(2, dtype=torch.float64), torch.zeros_like(why.x)
    black = why.model(zero).softmax(dim=-1)[[0, 1], [0, 1]].detach()/why.probability
    for value in (insertion.retained[:, -1], deletion.retained[:, 0]): near(value, one, rtol=1e-12)
    for value in (insertion.retained[:, 0], deletion.retained[:, -1]): near(value, black, rtol=1e-12)
    places = coefficient_order(why, ties).flip(1)
    back, = curves_of(T, why.model, why.x, zero, why.target, places, [1-s for s in reversed(shares)], ["deletion"],
                      progress=False, **words)
    near(back.retained.flip(1), insertion.retained, rtol=1e-12)


@given(seed=seeds, n=st.integers(1, 60))
@quick
def test_ranking_is_lexicographic(seed, n):
    r, s = ((4*torch.rand(2, n, generator=generator(seed, k))).floor() for k in (0, 1))
    for i, places in enumerate(ranking(r, s).tolist()):
        assert places == sorted(range(n), key=lambda j, i=i: (-r[i, j].item(), -s[i, j].item(), j))


@given(seed=seeds, batch=st.integers(1, 9))
@quick
def test_curves_ignore_batch_size_and_company(seed, batch):
    why = drawn(seed, transforms[1], 3)
    whole = coefficient_curves(why, "random", seed=seed % 97, shares=7, progress=False)
    first = Explanation(why.x[:1], why.mask[:1], why.target[:1], why.probability[:1], why.representation,
                        model=why.model)
    for a, b in zip(coefficient_curves(first, "random", seed=seed % 97, shares=7, batch=batch, progress=False), whole):
        near(a.retained, b.retained[:1], rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_call_leaves_everything_as_it_was(dtype):
    why = drawn(3, Wavelet((12, 10), "haar", 2).to(dtype), dtype=dtype)
    why.model.train()
    x, mask, state = why.x.clone(), why.mask.clone(), torch.random.get_rng_state()
    once, again = (coefficient_curves(why, "random", progress=False)+pixel_curves(why, progress=False)
                   for _ in range(2))
    assert all(a.retained.equal(b.retained) and a.retained.dtype == torch.float64 for a, b in zip(once, again))
    assert why.x.equal(x) and why.mask.equal(mask) and torch.random.get_rng_state().equal(state)
    assert why.model.training and why.model.A.requires_grad and why.model.A.grad is None


@given(seed=seeds, by=st.sampled_from(["magnitude", "value"]))
@quick
def test_pixel_order_is_a_permutation_in_order(seed, by):
    r = torch.randn(2, 3, 6, 5, generator=generator(seed)).round()
    key = (r.abs() if by == "magnitude" else r).sum(dim=1).flatten(1)
    places = pixel_order(r, by, seed=seed % 7)
    assert places.sort(dim=1).values.equal(torch.arange(30).expand(2, 30))
    assert (key.gather(1, places).diff(dim=1) <= 0).all()


@given(seed=seeds, B=st.integers(1, 12))
@quick
def test_band_holds_the_mean_of_constant_curves_and_lies_within_the_data(seed, B):
    v = np.random.default_rng(seed).random((B, 4))
    mean, low, high = mean_band(v, resamples=200)
    assert (low >= v.min(axis=0)-1e-12).all() and (high <= v.max(axis=0)+1e-12).all() and (low <= high).all()
    for end in mean_band(np.tile(v[:1], (B, 1)), resamples=50): near(end, v[0], rtol=1e-12)
    near(mean, v.mean(axis=0), rtol=1e-12)


def test_rows_and_figure():
    c = Curve("insertion", torch.tensor([0., .5, 1.]), torch.tensor([[0., .5, 1.], [0., 1., 1.]]).double(), "Drawn",
              "pixels", "value", "blur")
    rows = curve_rows([c])
    assert len(rows) == 6
    assert rows[4] == dict(image=1, method="Drawn", kind="insertion", space="pixels", order="value", replaced="blur",
                           area=.75, share=.5, retained=1.)
    figure = show_curves([c])
    assert len(figure.axes) == 1 and "value" in figure.axes[0].get_legend().get_texts()[0].get_text()
    assert not math.isnan(rows[0]["area"])
