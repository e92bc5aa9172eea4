"""What 56_cli does not carry: arguments of `shearletx explain` and of a sweep arrive where they belong."""
import inspect

import matplotlib.pyplot as plt
import pytest, torch

from shearletx_nb import cli
from shearletx_nb.images import load_image, sample_images
from shearletx_nb.study import Grid


@pytest.fixture
def photo(tmp_path):
    "A photograph's file."
    plt.imsave(tmp_path/"photo.png", sample_images(80, 1).images[0].movedim(0, -1).numpy())
    return tmp_path/"photo.png"


def asked(monkeypatch, line)->dict:
    "What a command line asks of the explainer, which answers nothing."
    seen = {}
    class Explainer:
        "Notes what it is asked."
        max_samples_per_pass, protocol = 8, type("Protocol", (), dict(samples=4))
        def __init__(self, model, **options): seen.update(model=model, **options)
        def __call__(self, x, target, **options):
            seen.update(x=x, target=target, **options)
            raise ValueError("asked")
    monkeypatch.setattr(cli, "mask_methods", lambda: {name: Explainer for name in ("shearletx", "waveletx")})
    monkeypatch.setattr(cli, "load_classifier", lambda name: name)
    assert cli.main(["explain", *line.split()]) == 2
    return seen


def test_explain_by_default(monkeypatch, photo):
    seen = asked(monkeypatch, str(photo))
    assert torch.equal(seen.pop("x"), load_image(photo, 256))
    assert seen == dict(model="efficientnet_lite0", protocol="FAST", steps=None, samples=None, target=None, seed=0,
                        progress=None)


def test_explain_as_asked(monkeypatch, photo):
    seen = asked(monkeypatch, f"{photo} --size 64 --classifier resnet18 --protocol PAPER --steps 7 --samples 6 "
                              "--target 5 --seed 3 --quiet --method waveletx")
    assert torch.equal(seen.pop("x"), load_image(photo, 64))
    assert seen == dict(model="resnet18", protocol="PAPER", steps=7, samples=6, target=5, seed=3, progress=False)


def gridded(monkeypatch, line)->dict:
    "The grid that a command line describes."
    seen = {}
    def grid(*arguments, **named):
        seen.update(inspect.signature(Grid).bind(*arguments, **named).arguments)
        raise ValueError("asked")
    monkeypatch.setattr(cli, "Grid", grid)
    assert cli.main(["sweep", *line.split()]) == 2
    return seen


def test_sweep_by_default(monkeypatch):
    expected = dict(images=None, methods=dict(ShearletX=dict(kind="ShearletX")), classifiers=["efficientnet_lite0"],
                    protocols=["PAPER"], seeds=[0], size=256, n=None, shuffle=None, listed=None)
    assert gridded(monkeypatch, "") == expected


def test_sweep_as_asked(monkeypatch, tmp_path):
    line = (f"{tmp_path} --methods pixelmask smoothmask --classifiers a b --protocols FAST SOUND --seeds 1 2 --n 9 "
            "--shuffle 4 --listed a.csv --size 96 --steps 11 --samples 6 --smooth-steps 13 --areas .1 .3 "
            "-p lambda1 2.5")
    methods = dict(PixelMask=dict(kind="PixelMask", steps=11, samples=6, lambda1=2.5),
                   SmoothMask=dict(kind="SmoothMask", steps=13, areas=[.1, .3]))
    expected = dict(images=str(tmp_path), methods=methods, classifiers=["a", "b"], protocols=["FAST", "SOUND"],
                    seeds=[1, 2], size=96, n=9, shuffle=4, listed="a.csv")
    assert gridded(monkeypatch, line) == expected
