"""What 42, 43, 50 and 53 do not carry: the numbers behind the figures, against what can be worked out by hand."""
from dataclasses import replace

import numpy as np, pandas as pd, pytest, torch
from torch import nn

from shearletx_nb.core import generator
from shearletx_nb.curves import mean_until
from shearletx_nb.explanation import Explanation
from shearletx_nb.metrics import probability_under_noise
from shearletx_nb.representation import Pixels
from shearletx_nb.statistics import Interval, bootstrap_mean, compare
from shearletx_nb.study import scores_and_traits, with_shares


@pytest.mark.parametrize("n, low, high", [(10, .2, .8), (40, .35, .65)])
def test_bootstrap_interval_of_coins(n, low, high):
    "Draws from as many zeros as ones are binomial: P(X ≤ 1) = 1.1 %, P(X ≤ 2) = 5.5 % of 10; 13, 14 of 40: 1.9, 4 %."
    assert tuple(bootstrap_mean([0., 1.]*(n//2))) == pytest.approx((.5, low, high), abs=1e-12)


def test_differences_are_paired():
    "A constant difference has no interval, however much the pictures differ; a picture with one method does not count."
    score = dict(A=.25, B=0.)
    rows = [dict(image=i, classifier=c, method=m, score=10.*i+score[m]) for i in range(9) for c in "ab" for m in score]
    rows = pd.DataFrame([*rows, dict(image=99, classifier="a", method="A", score=1e6)])
    for a, b, difference in (("A", "B", .25), ("B", "A", -.25)):
        found = compare(rows, "score", a, b)
        assert found.difference == Interval(difference, difference, difference) and found.n == 9
        assert found.outcome == ("higher" if difference > 0 else "lower")


@pytest.mark.parametrize("end", [.05, .3, .5, .77, 1.])
def test_mean_until(end):
    "Against the mean of a fine sampling of the broken line."
    shares = torch.tensor([0., .1, .25, .5, .8, 1.], dtype=torch.float64)
    curves = torch.rand(3, 6, generator=generator(0), dtype=torch.float64).numpy()
    fine = (np.arange(10**5)+.5)/10**5*end
    expected = [np.interp(fine, shares.numpy(), c).mean() for c in curves]
    assert mean_until(curves, shares, end) == pytest.approx(expected, abs=1e-8)    # midpoints: exact but for the kinks


class Variance(nn.Module):
    "A class whose probability is the variance of the picture."
    def forward(self, x):
        p = x.flatten(1).var(dim=1)
        return torch.stack([p, 1-p], dim=1).log()


def test_probability_under_noise_has_the_papers_noise():
    "With nothing kept, pixels are uniform on [μ-σ, μ+σ] and their variance is σ²/3; with everything kept it is σ²."
    x = torch.rand(1, 1, 96, 96, generator=generator(1), dtype=torch.float64)
    p = x.var()[None]
    why = Explanation(x, torch.ones_like(x), torch.tensor([0]), p, Pixels((96, 96)), model=Variance())
    assert probability_under_noise(why).item() == pytest.approx(p.item(), rel=1e-9)
    empty = replace(why, mask=0*why.mask)
    limit = 5*(.8/96**2/4)**.5    # five standard errors of a uniform's variance, four independent pairs
    assert probability_under_noise(empty).item() == pytest.approx(p.item()/3, rel=limit)
    assert probability_under_noise(empty, seed=1) != probability_under_noise(empty)


def test_facts_of_a_row():
    "Half of the mask: half of the norms, and a quarter of the variance."
    x = torch.rand(1, 1, 32, 32, generator=generator(2), dtype=torch.float64)
    half = torch.full_like(x, .5)
    why = Explanation(x, half, torch.tensor([0]), x.var()[None], Pixels((32, 32)), model=Variance())
    row = with_shares(pd.DataFrame(scores_and_traits(why))).iloc[0]
    assert (row.kept_l1, row.spatial_l1) == (pytest.approx(.5), pytest.approx(.5))
    assert row.retained_zero == row.capped_zero == pytest.approx(.25)
