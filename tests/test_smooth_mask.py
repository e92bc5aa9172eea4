"""The search for a smooth mask once more, one picture and area at a time, from the formulas of 32_smooth_mask alone.

32_smooth_mask tests its parts; TorchRay, where it is installed, the defaults. Here every option is changed by itself.
"""
import math

import pytest, torch

from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.images import sample_images
from shearletx_nb.smooth_mask import SmoothMaskOptions, optimise_smooth_mask

MODEL, SHAPE, TARGET = SmoothClassifier(), (24, 18), 3


def plain_masks(m_bar, spacing, sigma, temperature=1/20):
    "The mask on the picture and on the plane, which reaches sigma beyond the outer nodes; off the grid are zeros."
    far, reach = math.ceil(sigma), 1+math.ceil(sigma/spacing)
    sides = [torch.arange(-far, max(spacing*(n-1)+far, size-1)+1) for n, size in zip(m_bar.shape, SHAPE)]
    nodes = [torch.arange(-2*reach-1, n+2*reach+1) for n in m_bar.shape]
    padded = torch.nn.functional.pad(m_bar, [2*reach+1]*4)
    (y, x), (v, u) = sides, nodes
    dy, dx = (y[:, None]-spacing*v).double()[:, None, :, None], (x[:, None]-spacing*u).double()[None, :, None, :]
    f = padded*torch.exp(-2*((dy**2+dx**2).sqrt()/sigma-.5).clamp(min=0)**2)
    near = [((s.div(spacing, rounding_mode="floor")[:, None]-n).abs() <= reach) for s, n in zip(sides, nodes)]
    weight = (f/temperature).exp()*(near[0][:, None, :, None] & near[1][None, :, None, :])
    plane = (weight*f).sum(dim=(2, 3))/weight.sum(dim=(2, 3))
    return plane[far:far+SHAPE[0], far:far+SHAPE[1]], plane


def plain_blur(x, sigma, border):
    "A Gaussian, cut off at 4 sigma, as a matrix along each side."
    def matrix(n):
        d = torch.arange(n)[:, None]-torch.arange(n)
        g = torch.where(d.abs() <= math.ceil(4*sigma), torch.exp(-d.double()**2/(2*sigma**2)), 0.)
        k = torch.arange(-math.ceil(4*sigma), math.ceil(4*sigma)+1).double()
        return g/g.sum(dim=1, keepdim=True) if border == "normalised" else g/torch.exp(-k**2/(2*sigma**2)).sum()
    return matrix(x.shape[-2]) @ x @ matrix(x.shape[-1]).T if sigma else x


def plain_penalty(values, area):
    "Mean squared distance of the values from their ideal: 1 for the largest, 0 for the others; equals share."
    v = values.detach().flatten()
    n, above = len(v), (v[None] > v[:, None]+1e-9).sum(dim=1)
    equal = ((v[None]-v[:, None]).abs() <= 1e-9).sum(dim=1)
    ones = n-int(n*(1-area)+1e-9)
    ideal = ((ones-above)/equal).clamp(0, 1).double()
    return (values.flatten()-ideal).square().mean()


def plain_search(x, area, o):
    "The masks before each step."
    m_bar = torch.ones([-(-n//o.spacing) for n in SHAPE], dtype=torch.float64, requires_grad=True)
    copies = [plain_blur(x, o.max_blur*(1-k/(o.levels-1)), o.border) for k in range(o.levels)]
    ramp = 1.0035**max(800/o.steps, 1) if o.ramp is None else o.ramp
    velocity, found = None, []
    for t in range(o.steps):
        m, plane = plain_masks(m_bar, o.spacing, o.sigma)
        found.append(m.detach())
        sharp = m if o.variant == "preserve" else 1-m
        z = copies[0] + sum(((o.levels-1)*sharp-k).clamp(0, 1)*(copies[k+1]-copies[k]) for k in range(o.levels-1))
        logits = MODEL((z.flip(-1) if o.jitter == "alternate" and t % 2 == 0 else z)[None])[0]
        others = torch.cat([logits[:TARGET], logits[TARGET+1:]])
        lead = logits[TARGET] if o.reward == "simple" else logits[TARGET]-others.max()
        penalty = o.weight*ramp**t*plain_penalty(plane if o.frame == "margin" else m, area)
        slope, = torch.autograd.grad(penalty-lead if o.variant == "preserve" else penalty+lead, m_bar)
        velocity = slope if velocity is None else o.momentum*velocity + (1-o.momentum)*slope
        m_bar = (m_bar.detach()-o.lr*velocity).clamp(0, 1).requires_grad_()
    return torch.stack(found)


# an area that separates equal values would be decided by rounding: 0.25 and 0.4 do not, where 0.3 does
CHANGES = [{}, dict(spacing=5, area=.25), dict(sigma=6.5, area=.4), dict(levels=3), dict(max_blur=5.), dict(lr=.05),
           dict(momentum=.5), dict(weight=60.), dict(ramp=1.2), dict(reward="simple"), dict(variant="delete"),
           dict(jitter="none"), dict(border="normalised"), dict(frame="image")]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: "-".join(change))
def test_search(change):
    "Five steps in float64 with a smooth classifier: rounding only."
    change = dict(change)
    area = change.pop("area", .3)
    options = SmoothMaskOptions(**{**dict(steps=5, spacing=4, sigma=8., max_blur=3., lr=.02), **change})
    x, seen = sample_images(SHAPE, 1).images.double(), []
    keep = lambda t, m, scores: seen.append(m[0, 0].clone())
    optimise_smooth_mask(MODEL, x, TARGET, area, options, progress=False, callback=keep)
    torch.testing.assert_close(torch.stack(seen), plain_search(x[0], area, options), rtol=0, atol=1e-9)
    assert len(seen) == 5 and (seen[-1]-seen[0]).abs().max() > .01
