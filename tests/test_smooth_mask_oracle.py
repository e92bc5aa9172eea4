"""Smooth masks against TorchRay 1.0.0.2, the library of the method's authors, run as a black box.

TorchRay (CC BY-NC) is no dependency: install it with `pip install --no-deps torchray==1.0.0.2`. Without it these tests
skip, and say so.
"""
import warnings

import numpy as np
import pytest
import torch
from oracles import load_torchray
from torch import nn

from shearletx_nb.classifiers import SmoothClassifier, load_classifier
from shearletx_nb.images import sample_images
from shearletx_nb.smooth_mask import MaskGrid, SmoothMaskOptions, blur_pyramid, optimise_smooth_mask, perturb, reward


@pytest.fixture(scope="module")
def oracle():
    "TorchRay's extremal_perturbation module."
    return load_torchray() or pytest.skip("the oracle is not installed: pip install --no-deps torchray==1.0.0.2")


@pytest.fixture(scope="module")
def small():
    "A random rectified network in float32; smooth pooling keeps its answers apart."
    draw = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 12, 7, 2), nn.ReLU(), nn.Conv2d(12, 16, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(16, 6))
    for p in net.parameters(): p.data = torch.randn(p.shape, generator=draw)*(2/max(1, p[0].numel()))**.5
    net[-1].weight.data *= 60
    return net.eval().requires_grad_(False)


def theirs(oracle, model, x, target, areas, steps, kind="contrastive", **options):
    "TorchRay's masks (A,1,H,W) and its history (A,2,steps)."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        masks, history = oracle.extremal_perturbation(model, x, int(target), areas=list(areas), max_iter=steps,
                                                      reward_func=getattr(oracle, f"{kind}_reward"), **options)
    return masks.detach(), history


def search(*args):
    "Our masks (A,B,1,H,W) and history."
    return optimise_smooth_mask(*args, progress=False)


def correlation(a, b): return np.corrcoef(a.flatten().numpy(), b.flatten().numpy())[0, 1]


@pytest.mark.parametrize("shape, spacing, sigma", [((64, 64), 7, 21), ((128, 96), 7, 21), ((65, 70), 7, 21),
                                                   ((64, 50), 4, 8), ((20, 31), 3, 9)])
def test_masks_of_the_same_parameters(oracle, shape, spacing, sigma):
    "The smooth maximum, on the picture and on the plane (theirs differs where sigma is no multiple of the spacing)."
    grid = MaskGrid(shape, spacing, float(sigma))
    m_bar = torch.rand(2, *grid.nodes, generator=torch.Generator().manual_seed(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crop, full = oracle.MaskGenerator(shape, spacing, sigma).generate(m_bar[:, None])
    plane = grid(m_bar)
    assert plane.shape == full[:, 0].shape
    # float32: exponentials up to e^20, summed in another order
    torch.testing.assert_close(plane, full[:, 0], rtol=0, atol=1e-5)
    torch.testing.assert_close(grid.crop(plane), crop[:, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("levels, max_blur", [(8, 20.), (4, 7.)])
def test_blur_pyramid_and_interpolation(oracle, levels, max_blur):
    x = sample_images((61, 80), 1).images
    theirs = oracle.Perturbation(x, num_levels=levels, max_blur=max_blur)
    y = blur_pyramid(x, levels, max_blur)
    torch.testing.assert_close(y[0].movedim(-1, 0), theirs.pyramid, rtol=0, atol=1e-5)      # float32
    m = torch.rand(3, 1, 61, 80, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(perturb(y, m)[0][:, 0], theirs.apply(m), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["simple", "contrastive"])
def test_rewards(oracle, kind):
    logits = torch.randn(1, 10, generator=torch.Generator().manual_seed(3))
    for c in range(10):
        torch.testing.assert_close(reward(logits, torch.tensor([c]), kind),
                                   getattr(oracle, f"{kind}_reward")(logits, c, "preserve").view(1))


@pytest.mark.parametrize("kind", ["simple", "contrastive"])
@pytest.mark.parametrize("variant", ["preserve", "delete"])
@pytest.mark.parametrize("area", [.05, .2])
def test_search_with_a_smooth_classifier(oracle, kind, variant, area):
    """100 steps with an infinitely differentiable classifier; ours in float64: for delete, simple, 5 %, float32
    rounding alone leads us to another optimum after 20 steps (correlation 0.84)."""
    x = sample_images(64, 1).images
    ours, _ = search(SmoothClassifier(), x.double(), 3, area,
                     SmoothMaskOptions(steps=100, ramp=1.0035, reward=kind, variant=variant))
    mask, _ = theirs(oracle, SmoothClassifier(dtype=torch.float32), x, 3, [area], 100, kind, variant=variant)
    assert correlation(ours, mask) >= .98
    assert abs(ours.mean() - mask.mean()) < .02


def test_all_800_steps(oracle):
    "The whole search at TorchRay's settings, final mask against final mask."
    model, x = SmoothClassifier(dtype=torch.float32), sample_images(64, 1).images
    ours, _ = search(model, x, 3, .1)
    mask, _ = theirs(oracle, model, x, 3, [.1], 800)
    assert correlation(ours, mask) >= .98


@pytest.mark.parametrize("jitter", [True, False])
def test_search_with_a_rectified_network(oracle, small, jitter):
    x = sample_images((96, 80), 2).images[1:]
    target = small(x).argmax().item()
    options = SmoothMaskOptions(steps=100, ramp=1.0035, jitter="alternate" if jitter else "none")
    ours, _ = search(small, x, target, .1, options)
    mask, _ = theirs(oracle, small, x, target, [.1], 100, jitter=jitter)
    assert correlation(ours, mask) >= .98


def test_scores_are_theirs(oracle, small):
    "Reward and penalty of every step, three areas in one pass."
    x, areas, steps = sample_images(64, 1).images, (.05, .1, .2), 60
    ours, history = search(small, x, 2, areas, SmoothMaskOptions(steps=steps, ramp=1.0035, reward="simple"))
    masks, scores = theirs(oracle, small, x, 2, areas, steps, "simple")
    for i in range(3): assert correlation(ours[i], masks[i]) >= .98
    weight = 300*1.0035**torch.arange(steps)
    # the start, before rounding and ties part the ways
    torch.testing.assert_close(history["reward"][:10, :, 0].T, scores[:, 0, :10], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close((weight[:, None]*history["penalty"][..., 0])[:10].T, -scores[:, 1, :10], rtol=1e-3,
                               atol=1e-3)


def test_search_with_efficientnet_lite0(oracle):
    """A real classifier and photograph at the paper's size and TorchRay's settings, for 60 steps.

    Over 800 steps a deep network makes the search chaotic: TorchRay's masks of x and of (1 - 1e-7) x then correlate
    with 0.96 only, and ours with TorchRay's with 0.975.
    """
    model, photos = load_classifier("efficientnet_lite0"), sample_images(256, 1)
    x, target = photos.images, photos.targets[0].item()
    ours, _ = search(model, x, target, .2, SmoothMaskOptions(steps=60, ramp=1.0035))
    mask, _ = theirs(oracle, model, x, target, [.2], 60)
    assert correlation(ours, mask) >= .98
