"""What 56_commands does not carry: arguments of `shearletx explain` and of a sweep arrive where they belong."""
import errno, inspect, socket, subprocess, sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest, torch

from shearletx_nb import commands
from shearletx_nb.cli import main
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
    monkeypatch.setattr(commands, "mask_methods", lambda: {name: Explainer for name in ("shearletx", "waveletx")})
    monkeypatch.setattr(commands, "load_classifier", lambda name: name)
    assert main(["explain", *line.split()]) == 2
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
    monkeypatch.setattr(commands, "Grid", grid)
    assert main(["sweep", *line.split()]) == 2
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


def test_no_port_at_all(monkeypatch, tmp_path, capsys):
    "One sentence, and an exit code of its own: nothing was wrong with the input."
    def bind(self, address): raise OSError(errno.EADDRINUSE, "Address already in use")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket.socket, "bind", bind)
    assert main(["explore", "--no-browser"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("shearletx explore: no port of this machine is free") and not said.out
    assert len(said.err.splitlines()) == 1


def test_version_and_help_load_nothing():
    "The command answers before torch is imported, which takes seconds; a command's own help may take them."
    program = Path(sys.executable).parent/"shearletx"
    for line in ("--version", "--help", "dance"):
        done = subprocess.run([sys.executable, "-X", "importtime", program, line], capture_output=True, text=True)
        loaded = {words.split("|")[2].strip() for words in done.stderr.splitlines() if words.count("|") == 2}
        assert "shearletx_nb.cli" in loaded and not loaded & {"torch", "numpy", "matplotlib", "yaml"}, line
