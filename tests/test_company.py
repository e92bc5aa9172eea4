"A picture's explanation is the same to the bit whatever else is in its batch."
import pytest, torch

from shearletx_nb.attributions import attribute
from shearletx_nb.classifiers import load_classifier
from shearletx_nb.images import sample_images
from shearletx_nb.mask_explainers import CartoonX, PixelMask, ShearletX, WaveletX
from shearletx_nb.smooth_mask import SmoothMask

size, photographs = 96, sample_images(96, 4).images
batches = [[0, 1], [1, 0], [2, 0, 1], [3, 2, 1, 0]]      # sizes and orders; every picture in several places


@pytest.fixture(scope="module")
def model():
    "A deep network in float32, whose answers depend in their last digits on the size of a pass."
    return load_classifier("efficientnet_lite0")


def test_the_classifier_alone_would_notice(model):
    "What the tests below would see if two pictures ever shared a pass."
    with torch.no_grad(): assert not model(photographs[:2])[0].equal(model(photographs[:1])[0])


def same(one, many, place:int)->bool:
    "Whether an explanation of one picture is bit for bit that at a place of a batch."
    part = many[place:place+1]
    tensors = [(getattr(one, name), getattr(part, name))
               for name in ("x", "mask", "target", "probability", "finished", "image")]
    tensors += [(one.history[name], part.history[name]) for name in one.history] + [(one.on("mean"), part.on("mean"))]
    return all(a.equal(b) for a, b in tensors)


explainers = dict(
    shearletx=lambda model, **more: ShearletX(model, n_scales=2, **more), waveletx=WaveletX, cartoonx=CartoonX,
    pixelmask=PixelMask)


@pytest.mark.parametrize("method", explainers)
@pytest.mark.parametrize("protocol", ["FAST", "PAPER", "AUTHORS_CODE"])
@pytest.mark.filterwarnings("ignore:pictures of")
def test_mask_explainers(model, method, protocol):
    "Over batch sizes, orders, methods and protocols; the target is given, so that equal classes do not help."
    explain = explainers[method](model, protocol=protocol, steps=5, samples=4)
    target = torch.tensor([243, 5, 438, 990])
    alone = [explain(photographs[i:i+1], target[i:i+1], seed=3, progress=False) for i in range(4)]
    for batch in batches if protocol == "FAST" else batches[2:3]:
        why = explain(photographs[batch], target[batch], seed=3, progress=False)
        assert all(same(alone[i], why, place) for place, i in enumerate(batch)), batch


@pytest.mark.parametrize("jitter", ["alternate", "random"])
def test_smooth_masks(model, jitter):
    "The areas of one picture are searched together, pictures are not."
    explain = SmoothMask(model, (.1, .3), steps=4, jitter=jitter)
    alone = [explain.each(photographs[i:i+1], seed=3, progress=False) for i in range(3)]
    for batch in batches[:3]:
        for ours, own in zip(explain.each(photographs[batch], seed=3, progress=False), zip(*alone)):
            assert all(same(own[i], ours, place) for place, i in enumerate(batch)), batch


@pytest.mark.parametrize("method", ["integrated_gradients", "guided_backprop", "grad_cam", "lrp", "lime"])
def test_attributions(model, method):
    "Attribution maps too."
    options = dict(lime=dict(samples=16, n_segments=8), integrated_gradients=dict(steps=4)).get(method, {})
    alone = [attribute(method, model, photographs[i:i+1], **options) for i in range(2)]
    for batch in batches[:2]:
        assert attribute(method, model, photographs[batch], **options).equal(torch.cat([alone[i] for i in batch]))
