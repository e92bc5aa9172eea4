"""What 42_metrics and 44_authors_scoring do not carry: laws of the scores over many explanations, by hypothesis."""
import io, math
from dataclasses import replace

import numpy as np, pandas as pd, pytest, torch
from hypothesis import given, settings, strategies as st
from scipy.ndimage import binary_dilation
from torch import nn

from shearletx_nb.authors_scoring import (AUTHORS_SCORING, PAPER_SCORING, evaluate, mean_scores, rescore, row_scores,
                                          shifted_entropy)
from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.core import generator, test_near as near
from shearletx_nb.edges import CannyDetector, EdgeDetector, SobelDetector
from shearletx_nb.explanation import Explanation
from shearletx_nb.metrics import (cp_entropy, cp_l1, cp_l1_pixel, edge_sets, exponential_entropy, hallucination_score,
                                  l1_norm, retained_probability)
from shearletx_nb.representation import Pixels
from shearletx_nb.wavelet import Wavelet

CP = (cp_entropy, cp_l1, cp_l1_pixel)
seeds = st.integers(0, 2**31)
quick = settings(max_examples=25, deadline=None)


class Hue(nn.Module):
    "A classifier that sees colours and neither brightness nor places: scale and order of the pixels do not matter."
    def forward(self, x):
        share = x.abs().sum(dim=(-2, -1))
        return 3*share/share.sum(dim=1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def drawn(seed, B=2, shape=(24, 20), kept=.4, T=None, dtype=torch.float64, method=""):
    "Random pictures with random masks, some of whose values are exactly zero."
    T = T or Pixels(shape)
    r = lambda k, *size: torch.rand(*size, generator=generator(seed, k), dtype=torch.float64).to(dtype)
    x = r(0, B, 3, *shape)
    mask = r(1, B, *T.coefficient_shape)*(r(2, B, *T.coefficient_shape) < kept)
    target = torch.arange(B) % 3
    return Explanation(x, mask, target, Hue()(x).softmax(dim=-1)[torch.arange(B), target], T, method, model=Hue())


def by_hand(why, authors)->list[dict]:
    "The five scores in NumPy, from the definitions; only transform, classifier and edge detector are shared."
    rows, T, smooth = [], why.representation, why.method == "SmoothMask"
    answer = lambda v: np.exp(z := why.model(v[None])[0].double().numpy())/np.exp(z).sum()
    def entropy(v, shift):
        p = (v**2/(v**2).sum()).flatten()
        return -sum(q*math.log(q+shift) for q in p if q > 0)
    def edges(v):
        if not authors: return EdgeDetector()(v[None].clamp(0, 1)).edges[0].numpy()
        byte = (255*v.numpy().mean(axis=0)).astype(np.int64).astype(np.int8)             # over 127 they wrap round
        return EdgeDetector(side="pycoshrem")(torch.from_numpy((byte+128.)/255)[None, None]).edges[0].numpy()
    for x, m, c in zip(why.x, why.mask, why.target.tolist()):
        coefficients, pixels = T.analyse(x).numpy(), x.numpy()
        image = T.synthesise(m*T.analyse(x))
        kept = m.numpy()*coefficients*(coefficients if authors and smooth else 1)
        seen = T.synthesise(torch.from_numpy(kept))
        top = seen.max().item() if authors and not smooth else 1.
        p, q = answer(x), answer(seen/top)
        retained = q.max()/p.max() if authors else q[c]/p[c]
        whole = dict(entropy=entropy(coefficients, 1e-7) if authors else math.exp(entropy(coefficients, 0)),
                     l1=abs(coefficients).sum(), pixel=abs(pixels).sum())
        if authors and smooth: whole = dict.fromkeys(whole, abs(pixels).sum())
        part = dict(entropy=entropy(kept, 1e-7) if authors else math.exp(entropy(kept, 0)),
                    l1=abs(kept).sum()/(top if isinstance(T, Pixels) else 1), pixel=abs(seen.numpy()).sum()/top)
        old, new = edges(x), edges(image/(image.max() if authors and not smooth else 1))
        if authors: wide = binary_dilation(old, np.ones((3, 3)))
        rows.append(dict(retained_probability=retained, cp_entropy=retained/(part["entropy"]/whole["entropy"]),
                         cp_l1=retained/(part["l1"]/whole["l1"]), cp_l1_pixel=retained/(part["pixel"]/whole["pixel"]),
                         hallucination_score=(new & ~(wide if authors else old)).sum()/old.sum()))
    return rows


@pytest.mark.parametrize("method", ["PixelMask", "SmoothMask", "WaveletX"])
@pytest.mark.parametrize("scoring", [PAPER_SCORING, AUTHORS_SCORING], ids=["paper", "authors"])
def test_scores_by_hand(scoring, method):
    T = Wavelet((24, 20), "haar", 2).double() if method == "WaveletX" else None
    why = replace(drawn(4, T=T, method=method), model=SmoothClassifier())   # which sees the scale of a picture
    for row, expected in zip(evaluate(why, scoring), by_hand(why, scoring is AUTHORS_SCORING), strict=True):
        assert {k: row[k] for k in expected} == pytest.approx(expected, rel=1e-9)


@given(seeds, st.integers(2, 400), st.floats(.05, 1))
@quick
def test_information_ignores_the_order_of_coefficients(seed, n, kept):
    c = torch.randn(3, n, generator=generator(seed), dtype=torch.float64)
    c = c*(torch.rand(3, n, generator=generator(seed, 1)) < kept)
    signs = torch.where(torch.rand(n, generator=generator(seed, 3)) < .5, -1., 1.)
    shuffled = c[:, torch.randperm(n, generator=generator(seed, 2))]*signs
    for f in (exponential_entropy, l1_norm, shifted_entropy): near(f(shuffled), f(c), rtol=1e-12, atol=1e-300)


@given(seeds, st.integers(-300, 300))
@quick
def test_information_shares_ignore_the_scale(seed, exponent):
    c, m = torch.randn(2, 90, generator=generator(seed)), torch.rand(2, 90, generator=generator(seed, 1))
    c, m = c.double(), (m*(m > .5)).double()
    big = c*2.**exponent   # exact; squares of the largest of these leave the range of double precision
    share = exponential_entropy(m*c)/exponential_entropy(c)
    near(exponential_entropy(m*big)/exponential_entropy(big), share, rtol=1e-12)
    near(l1_norm(m*big)/l1_norm(big), l1_norm(m*c)/l1_norm(c), rtol=1e-12)


@given(seeds, st.integers(1, 64))
@quick
def test_half_of_equal_coefficients_is_half_the_information(seed, pairs):
    c = torch.where(torch.rand(1, 2*pairs, generator=generator(seed)) < .5, -.7, .7).double()
    m = torch.zeros(2*pairs, dtype=torch.float64)
    m[torch.randperm(2*pairs, generator=generator(seed, 1))[:pairs]] = 1
    near(exponential_entropy(m*c)/exponential_entropy(c), torch.tensor([.5], dtype=torch.float64), rtol=1e-12)
    near(l1_norm(m*c)/l1_norm(c), torch.tensor([.5], dtype=torch.float64), rtol=1e-12)


@given(seeds, st.integers(1, 300))
@quick
def test_exponential_entropy_is_a_number_of_coefficients(seed, n):
    c = torch.randn(1, n, generator=generator(seed))**3
    assert 1-1e-12 <= exponential_entropy(c).item() <= (c != 0).sum().item()*(1+1e-12)


@given(seeds)
@quick
def test_scores_ignore_the_order_of_pixels(seed):
    why = drawn(seed)
    order = torch.randperm(24*20, generator=generator(seed, 9))
    move = lambda v: v.flatten(-2)[..., order].view_as(v)
    moved = replace(why, x=move(why.x), mask=move(why.mask))
    for score in (retained_probability, *CP): near(score(moved), score(why), rtol=1e-12)


@given(seeds, st.floats(.01, 1))
@quick
def test_scores_ignore_the_scale_of_the_picture(seed, a):
    for T in (Pixels((24, 20)), Wavelet((24, 20), "haar", 2).double()):
        why = drawn(seed, T=T)
        # the wavelet transform's rounding
        for score in (retained_probability, *CP): near(score(replace(why, x=a*why.x)), score(why), rtol=1e-10)


@given(seeds, st.integers(1, 3))
@quick
def test_hallucination_ignores_the_scale_where_contrast_scales_along(seed, k):
    why, a = drawn(seed, shape=(32, 28)), .5**k   # a power of two scales without rounding
    def score(scale): return hallucination_score(scale*why.image, scale*why.x, EdgeDetector(contrast=scale*3/255))
    assert score(a).equal(score(1.))


@given(seeds, st.integers(1, 4), st.sampled_from([PAPER_SCORING, AUTHORS_SCORING]),
       st.sampled_from(["PixelMask", "SmoothMask"]))
@quick
def test_rows_ignore_the_batch_around_a_picture(seed, B, scoring, method):
    whole = drawn(seed, B+1, (24, 20), method=method)
    part = lambda i: Explanation(whole.x[i:i+1], whole.mask[i:i+1], whole.target[i:i+1], whole.probability[i:i+1],
                                 whole.representation, method, model=whole.model)
    words = lambda row: {k: v for k, v in row.items() if not isinstance(v, float)}
    for i, row in enumerate(evaluate(whole, scoring)):
        alone, = evaluate(part(i), scoring)
        assert words(row) == {**words(alone), "image": i}
        for k, v in row.items():
            if isinstance(v, float): assert math.isclose(v, alone[k], rel_tol=1e-12), k


@given(seeds, st.floats(0, 1), st.sampled_from([PAPER_SCORING, AUTHORS_SCORING]),
       st.sampled_from(["ShearletX", "SmoothMask"]), st.sampled_from([torch.float32, torch.float64]))
@quick
def test_rows_are_finite_and_recomputable(seed, kept, scoring, method, dtype):
    rows = evaluate(drawn(seed, 2, kept=kept, method=method, dtype=dtype), scoring)
    assert all(math.isfinite(v) for row in rows for v in row.values() if isinstance(v, float))
    names = ("retained_probability", "cp_entropy", "cp_l1", "cp_l1_pixel", "hallucination_score")
    bare = [{k: v for k, v in row.items() if k not in names} for row in rows]
    assert rescore(bare, scoring) == rows
    assert [row_scores(b, scoring) for b in bare] == [{k: row[k] for k in names} for row in rows]
    for free in (dict(probability="target"), dict(information="extent"), dict(smooth_divisor="own"), dict(means="own")):
        rescore(bare, replace(scoring, **free))
    assert all(math.isfinite(v) for m in mean_scores(rows, scoring) for k, v in m.items() if k != "method")


@pytest.mark.parametrize("scoring", [PAPER_SCORING, AUTHORS_SCORING], ids=["paper", "authors"])
def test_scores_come_back_from_a_csv_file(scoring):
    table = pd.DataFrame(evaluate(drawn(0, 3, method="SmoothMask"), scoring))
    read = pd.read_csv(io.StringIO(table.to_csv(index=False, float_format="%.6g")))
    again = pd.DataFrame(rescore(read.drop(columns=["cp_entropy", "cp_l1", "cp_l1_pixel"]).to_dict("records"), scoring))
    # six digits in the file
    for k in ("retained_probability", "cp_entropy", "cp_l1", "cp_l1_pixel", "hallucination_score"):
        near(again[k].tolist(), table[k].tolist(), rtol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scoring", [PAPER_SCORING, AUTHORS_SCORING], ids=["paper", "authors"])
def test_full_masks(scoring, dtype):
    "CP = 1 and HS = 0; divided by its maximum, the picture must have one of 1 for that."
    why = drawn(0, dtype=dtype)
    why.x[..., 0, 0] = 1.
    row, *_ = evaluate(replace(why, mask=torch.ones_like(why.mask)), scoring)
    assert row["hallucination_score"] == 0
    for k in ("retained_probability", "cp_entropy", "cp_l1", "cp_l1_pixel"):
        assert math.isclose(row[k], 1, rel_tol=1e-12)


@pytest.mark.parametrize("scoring", [PAPER_SCORING, AUTHORS_SCORING], ids=["paper", "authors"])
@pytest.mark.parametrize("method", ["PixelMask", "SmoothMask"])
@pytest.mark.parametrize("what", ["empty mask", "black picture", "flat picture", "one coefficient",
                                  "negative explanation"])
def test_degenerate_explanations_have_finite_rows(what, method, scoring):
    why = drawn(0, 1, method=method)
    if what == "empty mask": why = replace(why, mask=0*why.mask)
    if what == "black picture": why = replace(why, x=0*why.x)
    if what == "flat picture": why = replace(why, x=0*why.x+.5)
    if what == "one coefficient":
        why = replace(why, mask=why.mask*(why.mask == why.mask.max()),
                      x=why.x*torch.tensor([1., 0, 0], dtype=torch.float64)[:, None, None])
    if what == "negative explanation": why = replace(why, mask=-why.mask-.1)
    row, = evaluate(why, scoring)
    assert all(math.isfinite(v) for v in row.values() if isinstance(v, float))
    if what in ("empty mask", "black picture"): assert row["cp_entropy"] == row["cp_l1"] == row["cp_l1_pixel"] == 0
    if what in ("black picture", "flat picture"):
        assert row["edges_image"] == 0 and row["hallucination_score"] == row["edges_artificial"]


@pytest.mark.parametrize("detector", [EdgeDetector(), CannyDetector(), SobelDetector()], ids=lambda d: type(d).__name__)
def test_artificial_square_raises_the_score_by_its_edges(detector):
    x = torch.full((1, 1, 128, 128), .3, dtype=torch.float64)
    x[..., 20:50, 16:40] = .7
    squared = x.clone(); squared[..., 80:100, 84:110] = .6
    alone = torch.full_like(x, .3); alone[..., 80:100, 84:110] = .6
    count = lambda v: detector(v).edges.sum().item()
    assert hallucination_score(squared, x, detector).item() == count(alone)/count(x) > 0


@given(seeds, st.sampled_from([1, 3, 5]))
@quick
def test_edge_sets_are_sets(seed, dilate):
    why = drawn(seed, 2, (32, 28))
    found = edge_sets(why.image, why.x, dilate=dilate)
    assert not (found["artificial"] & ~found["explanation"]).any() and not (found["artificial"] & found["image"]).any()
    if dilate == 1: assert found["artificial"].equal(found["explanation"] & ~found["image"])
