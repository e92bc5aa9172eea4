"""What 41_edges does not carry: PyCoShREM's numbers, large sizes, properties over many shapes."""
from pathlib import Path

import numpy as np, pytest, torch
from hypothesis import given, settings, strategies as st
from skimage.feature import canny

from shearletx_nb.core import generator
from shearletx_nb.edges import CannyDetector, EdgeDetector, SobelDetector
from shearletx_nb.images import sample_images
from shearletx_nb.scenes import disc, half_plane

ORACLE = np.load(Path(__file__).parent/"data"/"edges_oracle.npz")


def near(edges): return torch.nn.functional.max_pool2d(edges[:, None].float(), 3, stride=1, padding=1)[:, 0].bool()


def degrees_apart(a, b): return ((a-b+torch.pi/2) % torch.pi - torch.pi/2).abs()*180/torch.pi


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ORACLE["names"])
def test_pycoshrem(name, dtype):
    picture, theirs = ORACLE[f"picture_{name}"], torch.from_numpy(ORACLE[f"measure_{name}"]).double()
    edges = torch.from_numpy(np.unpackbits(ORACLE[f"edges_{name}"])[:picture.size].reshape(picture.shape)).bool()[None]
    ours = EdgeDetector(side="pycoshrem")(torch.from_numpy(picture)[None, None].to(dtype)/255)
    wrong = (ours.measure[0].double()-theirs).abs() > 5e-4              # kept in half precision, 2**-11
    # in single precision a tie between directions may fall the other way
    assert wrong.double().mean() < (1e-9 if dtype == torch.float64 else 1e-2)
    assert torch.corrcoef(torch.stack([ours.measure.double().flatten(), theirs.flatten()]))[0, 1] >= .999
    for a, b in ((ours.edges, edges), (edges, ours.edges)): assert (a & near(b)).sum() >= .999*a.sum()


@pytest.mark.parametrize("name", ["half_plane", "stripes"])
def test_pycoshrem_angles(name):
    picture, theirs = ORACLE[f"picture_{name}"], torch.from_numpy(ORACLE[f"angle_{name}"]).double()
    ours = EdgeDetector(side="pycoshrem")(torch.from_numpy(picture)[None, None].double()/255)
    both = (ours.edges[0, ::2, ::2]) & (theirs >= 0)
    apart = degrees_apart(ours.orientation[0, ::2, ::2], -theirs*torch.pi/180)[both]   # theirs: degrees, y up
    assert apart.median() < 5   # both interpolate between directions 18 to 27 degrees apart, in different ways


@pytest.mark.parametrize("name", ORACLE["names"])
def test_placement_is_all_that_differs(name):
    x = torch.from_numpy(ORACLE[f"picture_{name}"])[None, None].double()/255
    right, left = EdgeDetector(polarity="negative"), EdgeDetector(polarity="negative", side="pycoshrem")
    assert torch.equal(right(x).measure, left(x).measure)   # edges that brighten leftwards and upwards are placed alike


@pytest.mark.parametrize("size", [128, 256, 512, 1024, (300, 201)])
@pytest.mark.parametrize("scene", [disc, half_plane, lambda n: half_plane(n, 0.), lambda n: half_plane(n, torch.pi/2),
                                   lambda n: half_plane(n, torch.pi/4), lambda n: half_plane(n, 2.)],
                         ids=["disc", "17deg", "upright", "flat", "diagonal", "115deg"])
def test_known_answers(scene, size):
    s = scene(size)
    found, b = EdgeDetector(boundary="symmetric", thin=True)(s.image.float()), min(s.image.shape[-2:])//7
    truth = (s.distance <= .71)[None]                                   # half a diagonal: the edge crosses the pixel
    inner = torch.zeros_like(truth); inner[:, b:-b, b:-b] = True        # mirroring bends slanted lines at the border
    assert not (found.edges & inner & ~near(truth)).any()
    assert not (truth & inner & ~near(found.edges)).any()
    assert degrees_apart(found.orientation, s.normal)[found.edges & inner].max() < 8


@settings(max_examples=25, deadline=None)
@given(h=st.integers(16, 50), w=st.integers(16, 50), channels=st.sampled_from([1, 3]),
       dtype=st.sampled_from([torch.float32, torch.float64]), seed=st.integers(0, 99),
       boundary=st.sampled_from(["periodic", "symmetric"]))
def test_any_shape(h, w, channels, dtype, seed, boundary):
    x = torch.rand(3, channels, h, w, generator=generator(seed), dtype=dtype)
    detector = EdgeDetector(boundary=boundary)
    found = detector(x)
    assert found.measure.shape == found.edges.shape == found.orientation.shape == (3, h, w)
    assert found.measure.dtype == dtype
    assert 0 <= found.measure.min() and found.measure.max() <= 1 and found.orientation.isfinite().all()
    assert 0 <= found.orientation.min() and found.orientation.max() <= torch.pi
    one = detector(x[1:2])
    assert torch.equal(one.measure[0], found.measure[1]) and torch.equal(one.edges[0], found.edges[1])
    assert torch.equal(one.orientation[0], found.orientation[1])
    assert torch.equal(detector(x.flip(0)).measure.flip(0), found.measure)


@settings(max_examples=15, deadline=None)
@given(scale=st.floats(.05, 1.), seed=st.integers(0, 99))
def test_contrast_does_not_matter(scale, seed):
    x = torch.rand(1, 1, 40, 31, generator=generator(seed), dtype=torch.float64)
    a, b = EdgeDetector(contrast=.01)(x).measure, EdgeDetector(contrast=.01*scale)(scale*x).measure
    assert (a-b).abs().max() < 1e-9


def luma(x): return .299*x[:, 0] + .587*x[:, 1] + .114*x[:, 2]


def test_sobel_and_canny_by_hand():
    "Sobel's kernels written out, thresholds that are not the defaults, and scikit-image's Canny on the luma picture."
    x = sample_images(48, 2).images.double()
    y = torch.nn.functional.pad(luma(x)[:, None], [1]*4, mode="reflect")
    kernel = torch.tensor([[1., 2, 1], [0, 0, 0], [-1, -2, -1]], dtype=torch.float64)/4
    gy, gx = (torch.nn.functional.conv2d(y, k[None, None])[:, 0, 1:-1, 1:-1] for k in (-kernel, -kernel.T))
    # √2: the longest gradient is 1
    length, inner = torch.hypot(gx, gy)/2**.5, (slice(None), slice(1, -1), slice(1, -1))
    for threshold in (.05, .1):
        found = SobelDetector(threshold)(x)
        torch.testing.assert_close(found.measure[inner], length, rtol=0, atol=1e-12)
        assert found.edges[inner].equal(length > threshold)
    strong = found.edges[inner]
    assert degrees_apart(found.orientation[inner], torch.atan2(gy, gx))[strong].max() < 1e-6
    for sigma, low, high in ((1., .1, .2), (2., .02, .05), (1., .1, .4)):
        theirs = [canny(p.numpy(), sigma=sigma, low_threshold=low, high_threshold=high) for p in luma(x)]
        assert CannyDetector(sigma, low, high)(x).edges.equal(torch.from_numpy(np.stack(theirs)))


def test_options_arrive():
    "Each option of the detector by itself moves the measure or the edges of a photograph."
    x = sample_images((40, 56), 1).images.double()
    plain = EdgeDetector()(x)
    changes = [dict(contrast=.1), dict(polarity="positive"), dict(polarity="negative"), dict(side="pycoshrem"),
               dict(boundary="symmetric"), dict(grey="int8"), dict(wavelet_support=9.), dict(gaussian_support=5.),
               dict(scales_per_octave=3), dict(octaves=2.5), dict(shear_level=2), dict(alpha=.2), dict(offset=.5)]
    for change in changes: assert not EdgeDetector(**change)(x).measure.equal(plain.measure), change
    for change in (dict(threshold=.3), dict(thin=True)):
        other = EdgeDetector(**change)(x)
        assert other.measure.equal(plain.measure) and not other.edges.equal(plain.edges)
        assert (other.edges <= plain.edges).all()
    assert EdgeDetector(threshold=.3)(x).edges.equal(plain.measure > .3)
    said = EdgeDetector(wavelet_support=40/7, gaussian_support=2.)(x)   # a seventh and a twentieth of 40
    assert said.measure.equal(plain.measure)


@pytest.mark.parametrize("detector", [EdgeDetector(), SobelDetector(), CannyDetector()])
@pytest.mark.parametrize("level", [0., .5, 1.])
def test_flat(detector, level):
    found = detector(torch.full((2, 3, 31, 48), level))
    assert not found.edges.any() and found.measure.isfinite().all() and found.orientation.isfinite().all()


def test_filters_are_kept_and_bounded():
    detector = EdgeDetector()
    for n in (16, 18, 20, 22, 24): detector(torch.rand(1, 1, n, n, generator=generator(n)))
    assert len(detector._kept) == 4
    kept = list(detector._kept.values())[-1]
    detector(torch.rand(1, 1, 24, 24, generator=generator(0)))
    assert list(detector._kept.values())[-1] is kept


def test_leaves_gradients_alone():
    x = torch.rand(1, 3, 32, 32, generator=generator(0)).requires_grad_()
    found = EdgeDetector()(x)
    assert not found.measure.requires_grad and x.grad is None
    for detector in (SobelDetector(), CannyDetector()): assert detector(x).measure.isfinite().all()
