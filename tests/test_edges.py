"""What notebook 40 does not carry: PyCoShREM's numbers, large sizes, properties over many shapes."""
from pathlib import Path

import numpy as np, pytest, torch
from hypothesis import given, settings, strategies as st

from shearletx_nb.core import generator
from shearletx_nb.edges import CannyDetector, EdgeDetector, SobelDetector
from shearletx_nb.images import disc, half_plane

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
    assert wrong.double().mean() < (1e-9 if dtype == torch.float64 else 1e-2)   # in single precision a tie between directions may fall the other way
    assert torch.corrcoef(torch.stack([ours.measure.double().flatten(), theirs.flatten()]))[0, 1] >= .999
    for a, b in ((ours.edges, edges), (edges, ours.edges)): assert (a & near(b)).sum() >= .999*a.sum()


@pytest.mark.parametrize("name", ["half_plane", "stripes"])
def test_pycoshrem_angles(name):
    picture, theirs = ORACLE[f"picture_{name}"], torch.from_numpy(ORACLE[f"angle_{name}"]).double()
    ours = EdgeDetector(side="pycoshrem")(torch.from_numpy(picture)[None, None].double()/255)
    both = (ours.edges[0, ::2, ::2]) & (theirs >= 0)
    apart = degrees_apart(ours.orientation[0, ::2, ::2], -theirs*torch.pi/180)[both]   # theirs: degrees, y up
    assert apart.median() < 5                                           # both interpolate between directions 18 to 27 degrees apart, in different ways


@pytest.mark.parametrize("name", ORACLE["names"])
def test_placement_is_all_that_differs(name):
    x = torch.from_numpy(ORACLE[f"picture_{name}"])[None, None].double()/255
    right, left = EdgeDetector(polarity="negative"), EdgeDetector(polarity="negative", side="pycoshrem")
    assert torch.equal(right(x).measure, left(x).measure)               # edges that brighten leftwards and upwards are placed alike


@pytest.mark.parametrize("size", [128, 256, 512, 1024, (300, 201)])
@pytest.mark.parametrize("scene", [disc, half_plane, lambda n: half_plane(n, 0.), lambda n: half_plane(n, torch.pi/2), lambda n: half_plane(n, torch.pi/4), lambda n: half_plane(n, 2.)],
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
@given(h=st.integers(16, 50), w=st.integers(16, 50), channels=st.sampled_from([1, 3]), dtype=st.sampled_from([torch.float32, torch.float64]), seed=st.integers(0, 99),
       boundary=st.sampled_from(["periodic", "symmetric"]))
def test_any_shape(h, w, channels, dtype, seed, boundary):
    x = torch.rand(3, channels, h, w, generator=generator(seed), dtype=dtype)
    detector = EdgeDetector(boundary=boundary)
    found = detector(x)
    assert found.measure.shape == found.edges.shape == found.orientation.shape == (3, h, w) and found.measure.dtype == dtype
    assert 0 <= found.measure.min() and found.measure.max() <= 1 and found.orientation.isfinite().all() and 0 <= found.orientation.min() and found.orientation.max() <= torch.pi
    one = detector(x[1:2])
    assert torch.equal(one.measure[0], found.measure[1]) and torch.equal(one.edges[0], found.edges[1]) and torch.equal(one.orientation[0], found.orientation[1])
    assert torch.equal(detector(x.flip(0)).measure.flip(0), found.measure)


@settings(max_examples=15, deadline=None)
@given(scale=st.floats(.05, 1.), seed=st.integers(0, 99))
def test_contrast_does_not_matter(scale, seed):
    x = torch.rand(1, 1, 40, 31, generator=generator(seed), dtype=torch.float64)
    a, b = EdgeDetector(contrast=.01)(x).measure, EdgeDetector(contrast=.01*scale)(scale*x).measure
    assert (a-b).abs().max() < 1e-9


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
