"Doors without traps: bad input gives one sentence and leaves nothing behind; unusual good input is understood."
import os
from pathlib import Path
from types import SimpleNamespace

import nbformat, numpy as np, pytest, torch
from PIL import Image
from torch import nn

from shearletx_nb.attributions import attribute
from shearletx_nb.authors_scoring import evaluate
from shearletx_nb.classifiers import (Classifier, Normalise, SmoothClassifier, class_probabilities, folded,
                                      load_classifier, predictions, probabilities)
from shearletx_nb.cli import main
from shearletx_nb.core import generator
from shearletx_nb.curves import pixel_curves
from shearletx_nb.explanation import Explanation
from shearletx_nb.images import image_folder, load_image, sample_images
from shearletx_nb.mask_explainers import CartoonX, PixelMask, ShearletX, WaveletX
from shearletx_nb.objective import FAST, Protocol
from shearletx_nb.smooth_mask import SmoothMask
from shearletx_nb.study import Grid, sweep

quick = dict(steps=4, samples=4)


class Logits(nn.Module):
    "A small convolutional network with a batch norm and dropout, in training mode, whose answer a function changes."
    def __init__(self, f=lambda z: z, classes:int=3):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv, self.norm, self.drop = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout()
            self.head, self.f = nn.Linear(4, classes), f
    def forward(self, x): return self.f(self.head(self.drop(self.norm(self.conv(x)).relu().mean(dim=(-2, -1)))))


class Fixed(nn.Module):
    "Takes pictures of 16 x 16 only."
    def __init__(self): super().__init__(); self.head = nn.Linear(768, 3)
    def forward(self, x): return self.head(x.flatten(1))


class OnlyTheFirst(nn.Module):
    "Answers to the pictures themselves, and with NaN to whatever else it is shown."
    def __init__(self, x): super().__init__(); self.register_buffer("x", x); self.inner = Logits()
    def forward(self, y): return self.inner(y) * (1 if y.shape == self.x.shape and y.equal(self.x) else torch.nan)


class Kink(nn.Module):
    "Finite everywhere, and nowhere with a derivative: the square root of nothing."
    def forward(self, x):
        zero = (x-x.detach()).abs().sum(dim=(1, 2, 3)).sqrt()
        return torch.stack([zero, x.mean(dim=(1, 2, 3))], dim=1)


def state(model:nn.Module)->list:
    "All that a call could change in a model."
    tensors = [*model.parameters(), *model.buffers()]
    values = [None if t.is_meta else t.detach().clone() for t in tensors]
    return [values, [p.requires_grad for p in model.parameters()], [p.grad for p in model.parameters()],
            [m.training for m in model.modules()],
            [len(m._forward_hooks)+len(m._forward_pre_hooks) for m in model.modules()]]


def same(a:list, b:list)->bool:
    "Whether two states are equal, bit for bit."
    def equal(s, t): return s is t or (torch.is_tensor(s) and s.equal(t))
    return all(map(equal, a[0], b[0])) and a[1:] == b[1:]


def picture(side:int=16, n:int=1)->torch.Tensor: return sample_images(side, n).images


x = picture()
explainers = (ShearletX, WaveletX, CartoonX, PixelMask)
models = {      # a model that is refused for the picture x, and words of the sentence
    "one logit": (lambda: Logits(classes=1), 'output="sigmoid"'),
    "probabilities": (lambda: Logits(lambda z: z.softmax(dim=-1)), "layer before its softmax"),
    "no classes": (lambda: Logits(lambda z: z[:, :0]), "0 outputs"),
    "NaN": (lambda: Logits(lambda z: z*torch.nan), "the pictures has NaN"),
    "infinite": (lambda: Logits(lambda z: z/0), "finite logits are needed"),
    "NaN for noise": (lambda: OnlyTheFirst(x), "noise around the pictures has NaN"),
    "no derivative": (Kink, "no derivative"),
    "integers": (lambda: Logits(lambda z: z.long()), "floating point"),
    "a map": (lambda: nn.Conv2d(3, 2, 1), "(1, classes) are needed"),
    "a text": (lambda: Logits(lambda z: "cat"), "returned str"),
    "another batch": (lambda: Logits(lambda z: z.repeat(2, 1)), "for 1 pictures"),
    "half": (lambda: Logits().half(), "weights in torch.float16"),
    "double": (lambda: Logits().double(), "weights in torch.float64, the pictures are in torch.float32"),
    "another device": (lambda: Logits().to("meta"), "on the device meta, the pictures on cpu"),
    "channels": (lambda: nn.Sequential(nn.Conv2d(5, 2, 3), nn.Flatten()), "(1, 3, 16, 16)"),
    "assertion": (lambda: Logits(lambda z: torch._assert(False, "Wrong height! Expected 224!")), "Expected 224"),
}
pictures = {    # a picture that every explainer refuses
    "another size": (lambda: picture(24), "(1, 3, 24, 24)"),
    "no batch": (lambda: x[0], "x[None]"),
    "empty": (lambda: x[:0], "empty"),
    "four channels": (lambda: torch.cat([x, x[:, :1]], dim=1), "4 channels"),
    "integers": (lambda: (255*x).byte(), "x/255"),
    "NaN": (lambda: x*torch.nan, "NaN or infinite"),
    "normalised": (lambda: (x-.5)/.25, "Classifier(model, Normalise(mean, std))"),
    "half": (lambda: x.half(), "float32 or float64"),
    "meta": (lambda: x.to("meta"), "no values"),
    "an array": (lambda: x.numpy(), "ndarray"),
    "a path": (lambda: "dog.jpg", "load_image"),
}


def calls(tmp:Path)->dict:
    "Bad calls of Python, each with words of its sentence."
    net = SmoothClassifier(dtype=torch.float32)
    photo = picture(32)
    text, cut, nothing = tmp/"text.jpg", tmp/"cut.jpg", tmp/"nothing.png"
    text.write_text("no picture"); nothing.touch()
    Image.fromarray((255*picture(64)[0].movedim(0, -1).numpy()).astype(np.uint8)).save(tmp/"whole.jpg")
    cut.write_bytes((tmp/"whole.jpg").read_bytes()[:600])
    (tmp/"folder").mkdir()
    why = PixelMask(net, **quick)(photo, progress=False)
    never = Explanation(photo, why.mask, torch.tensor([1]), torch.zeros(1), why.representation, model=net)
    def pixel(**options): return lambda: PixelMask(net, **options)
    def grid(**methods): return Grid(n=1, methods=methods or ["PixelMask"], classifiers=dict(net=net))
    def target(t): return lambda: PixelMask(net, **quick)(photo, target=t)
    return {
        "steps -1": (pixel(steps=-1), "steps is a whole number"),
        "steps 1.5": (pixel(steps=1.5), "got 1.5"),
        "steps '3'": (pixel(steps="3"), "got '3'"),
        "samples 0": (pixel(samples=0), "at least 1"),
        "samples odd": (pixel(protocol="FAST", samples=5), "even number"),
        "lr NaN": (pixel(lr=float("nan")), "lr=nan"),
        "lr text": (pixel(lr="fast"), "positive number"),
        "betas": (pixel(betas=(.9,)), "betas=(0.9,)"),
        "lambda1": (pixel(lambda1=-1), "lambda1=-1"),
        "lambda2": (pixel(lambda2="2"), "lambda2='2'"),
        "no samples at all": (pixel(max_samples_per_pass=0), "max_samples_per_pass"),
        "unknown option": (lambda: ShearletX(net, n_scale=3), "Shearlet takes n_scales"),
        "unknown wavelet option": (lambda: WaveletX(net, level=3), "Wavelet takes wavelet"),
        "unknown wavelet": (lambda: WaveletX(net, wavelet="haarr")(photo), "haarr"),
        "unknown smooth option": (lambda: SmoothMask(net, blur=3), "SmoothMaskOptions takes steps"),
        "unknown protocol": (pixel(protocol="SLOW"), "PAPER, AUTHORS_CODE"),
        "canvas of a protocol": (lambda: Protocol(canvas="black"), "'mean'"),
        "share": (lambda: Protocol(settle="much"), "settle='much'"),
        "mixed up": (lambda: ShearletX(photo), "Tensor is no classifier"),
        "a function": (lambda: PixelMask(lambda y: y), "function is no classifier"),
        "unknown classifier": (lambda: PixelMask("resnot18"), "did you mean"),
        "nothing": (lambda: load_classifier(None), "NoneType is no classifier"),
        "output": (lambda: load_classifier(net, output="tanh"), "softmax or sigmoid"),
        "normalise": (lambda: Classifier(net, ([.5], [.5])), "Normalise(mean, std)"),
        "target text": (target("dog"), "a class index"),
        "target 10": (target(10), "0 to 9"),
        "target -1": (target(-1), "0 to 9"),
        "target float": (target(1.), "whole numbers"),
        "target bool": (target(True), "whole numbers"),
        "two targets": (target([1, 2]), "each of the 1"),
        "ragged targets": (target([[1], [2, 3]]), "a class index"),
        "no target": (target([]), "whole numbers"),
        "seed -1": (lambda: PixelMask(net, **quick)(photo, seed=-1), "the seed is a whole number"),
        "7 x 7 shearlets": (lambda: ShearletX(net)(picture(7)), "too small"),
        "1 x 1 wavelets": (lambda: WaveletX(net)(picture(1)), "too small"),
        "1 x 1 for the model": (lambda: PixelMask(net)(picture(1)), "(1, 3, 1, 1)"),
        "canvas": (lambda: why.on("black"), "zero, max, mean or dataset"),
        "format": (lambda: why.save(tmp/"why.pkl"), ".npz or .safetensors"),
        "no such explanation": (lambda: Explanation.load(tmp/"why.npz"), "no such explanation"),
        "probability zero": (lambda: never.retained_probability(), "probability zero"),
        "attribution": (lambda: attribute("gradcamera", net, photo), "unknown method"),
        "prediction of one": (lambda: predictions(net, photo[0]), "x[None]"),
        "areas": (lambda: SmoothMask(net, areas=2), "areas=(2,)"),
        "no such picture": (lambda: load_image(tmp/"gone.jpg"), "no such picture"),
        "a folder": (lambda: load_image(tmp/"folder"), "no such picture"),
        "a text": (lambda: load_image(text), "not a picture"),
        "cut off": (lambda: load_image(cut), "broken picture"),
        "no bytes": (lambda: load_image(nothing), "no bytes"),
        "size 0": (lambda: load_image(tmp/"whole.jpg", 0), "at least 1, got 0"),
        "size 2.5": (lambda: load_image(tmp/"whole.jpg", 2.5), "got 2.5"),
        "crop": (lambda: load_image(tmp/"whole.jpg", 8, crop=0), "crop=0"),
        "empty folder": (lambda: image_folder(tmp/"folder"), "no pictures in"),
        "sweep of nothing": (lambda: Grid([]), "no pictures"),
        "sweep, n 0": (lambda: Grid(n=0), "number of images"),
        "sweep, seed": (lambda: Grid(n=1, seeds=[-1]), "a seed"),
        "sweep, size": (lambda: Grid(n=1, size=0), "size is"),
        "sweep, option": (lambda: grid(PixelMask=dict(levels=3)), "method 'PixelMask': unknown option 'levels'"),
        "sweep, type": (lambda: grid(WaveletX=dict(levels="a")), "method 'WaveletX'"),
        "sweep, device": (lambda: sweep(grid(), tmp/"out", device="gpu"), "device='gpu'"),
        "sweep, workers": (lambda: sweep(grid(), tmp/"out", workers=-1), "workers"),
    }


def refused(f, words:str)->None:
    "One sentence in a ValueError or OSError, with the given words, and no trace in the global random state."
    before = torch.get_rng_state()
    with pytest.raises((ValueError, OSError)) as error: f()
    message = str(error.value)
    assert words in message and len(message.splitlines()) == 1 and len(message) < 500, message
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize("name", models)
def test_models_are_refused(name):
    "By a mask on pixels; the model is left as it was."
    model, words = models[name][0](), models[name][1]
    before = state(model)
    refused(lambda: PixelMask(model, **quick)(x, progress=False), words)
    assert same(state(model), before)


@pytest.mark.parametrize("name", pictures)
def test_pictures_are_refused(name):
    "By every explainer; model and picture are left as they were."
    model, (make, words) = Fixed(), pictures[name]
    before, bad = state(model), make()
    refused(lambda: PixelMask(model, **quick)(bad, progress=False), words)
    refused(lambda: SmoothMask(model, steps=2)(bad, progress=False), words)
    refused(lambda: attribute("integrated_gradients", model, bad), words)
    assert same(state(model), before)


def test_calls_are_refused(tmp_path):
    "At least 40 wrong calls, one sentence each, and no file more than before."
    table = calls(tmp_path)
    before, wrong = sorted(tmp_path.rglob("*")), {}
    for name, (call, words) in table.items():
        try: refused(call, words)
        except (Exception, pytest.fail.Exception) as error: wrong[name] = repr(error)
    assert not wrong, wrong
    assert sorted(tmp_path.rglob("*")) == before and len(table) >= 40


def test_nan_after_the_door_in_the_other_methods():
    "A model that fails on blurred or masked pictures is refused there too, never a NaN in a mask or a score."
    model = OnlyTheFirst(x)
    refused(lambda: SmoothMask(model, steps=2)(x, progress=False), "blurred pictures has NaN")
    why = PixelMask(model, steps=0)(x, progress=False)
    why.mask *= .5
    refused(lambda: why.retained_probability(), "explanations on the canvas zero has NaN")
    refused(lambda: evaluate(why), "explanations on the canvas")
    refused(lambda: pixel_curves(x[:, :1], x, model, progress=False), "perturbed pictures has NaN")
    refused(lambda: SmoothMask(Kink(), steps=2)(x, progress=False), "no derivative")


class TwoClasses(nn.Module):
    "The same model as a softmax over (0, z)."
    def __init__(self, one:nn.Module): super().__init__(); self.one = one
    def forward(self, x): return torch.cat([0*(z := self.one(x)), z], dim=1)


@pytest.mark.parametrize("protocol", ["PAPER", "AUTHORS_CODE", "FAST"])
@pytest.mark.parametrize("method", explainers, ids=lambda m: m.__name__)
def test_one_sigmoid_is_a_softmax_of_two(method, protocol):
    "A model of one logit z, explained as a sigmoid, is the two-class model (0, z) with target 1."
    photos = picture(48, 2).double()
    one = SmoothClassifier(classes=1, gain=20.)
    options = dict(protocol=protocol, steps=8, samples=4)
    if method is ShearletX: options |= dict(n_scales=1, directional_filter="cd", scaling_filter=5)
    own = method(load_classifier(one, output="sigmoid"), **options)(photos, progress=False)
    twin = method(TwoClasses(one), **options)(photos, target=1, progress=False)
    assert .01 < own.probability.min() and own.probability.max() < .99 and own.target.tolist() == [0, 0]
    assert (own.mask < 1).any() and not own.mask.isnan().any()
    for f in (lambda why: why.probability, lambda why: why.mask, lambda why: why.retained_probability("mean")):
        assert (f(own)-f(twin)).abs().max() < 1e-10        # float64; nothing but the two forms of one function differ
    for name, values in own.history.items():
        assert (values-twin.history[name]).abs().max() < 1e-6                              # the history is float32


def test_one_sigmoid_in_the_other_methods():
    "Smooth masks, LIME, curves and scores see the same twin."
    photos, one = picture(48).double(), SmoothClassifier(classes=1, gain=20.)
    both = (load_classifier(one, output="sigmoid"), 0), (TwoClasses(one), 1)
    for variant in ("preserve", "delete"):
        options = dict(areas=.3, steps=6, variant=variant)
        a, b = (SmoothMask(m, **options)(photos, target=t, progress=False) for m, t in both)
        assert (a.mask-b.mask).abs().max() < 1e-10 and (a.mask < 1).any()
        assert (a.history["reward"]-b.history["reward"]).abs().max() < 1e-10              # the lead of z over 0 is z
    rows = [evaluate(why)[0] for why in (a, b)]
    for k in ("probability", "probability_mean", "cp_entropy"):
        assert abs(rows[0][k]-rows[1][k]) < 1e-8*max(1, abs(rows[1][k]))        # a quotient of sums in float64
    for method in ("lime", "integrated_gradients"):
        options = dict(samples=20, n_segments=9) if method == "lime" else {}
        a, b = (attribute(method, m, photos, t, **options) for m, t in both)
        assert (a-b).abs().max() < 1e-8*b.abs().max() and b.abs().max() > 0     # LIME solves a regression
    a, b = (pixel_curves(photos[:, :1], photos, m, t, shares=3, progress=False) for m, t in both)
    assert all((c.retained-d.retained).abs().max() < 1e-10 for c, d in zip(a, b))


def test_many_sigmoids():
    "Of a multi-label model each class is explained by itself: as the model that has this class alone."
    photos = picture(32, 2).double()
    labels = SmoothClassifier(classes=4, gain=20.)
    for c in (0, 3):
        alone = SmoothClassifier(classes=4, gain=20.)
        alone.A = alone.A[c:c+1]
        several, single = (load_classifier(m, output="sigmoid") for m in (labels, alone))
        for method, options in ((PixelMask, quick), (SmoothMask, dict(areas=.3, steps=4))):
            a, b = (method(m, **options)(photos, target=t, progress=False) for m, t in ((several, c), (single, 0)))
            assert (a.mask-b.mask).abs().max() < 1e-10
    p = probabilities(load_classifier(labels, output="sigmoid"), photos)
    assert (p-1/(1+(-labels(photos)).exp())).abs().max() < 1e-12


def test_unusual_models_are_understood():
    "HuggingFace's answers, compiled, without parameters, half precision inside: explained, and left as they were."
    plain = PixelMask(Logits(), **quick)(x, progress=False)
    class Half(nn.Module):
        "Weights in bfloat16, which casts pictures and answers by itself."
        def __init__(self): super().__init__(); self.inner = Logits().bfloat16()
        def forward(self, y): return self.inner(y.bfloat16()).float()
    answers = (lambda z: SimpleNamespace(logits=z)), (lambda z: (z, None)), (lambda z: dict(logits=z))
    compiled = torch.compile(Logits(), backend="eager")
    for model in (*map(Logits, answers), compiled, load_classifier(compiled)):
        before = state(model)
        why = PixelMask(model, **quick)(x, progress=False)
        assert (why.mask-plain.mask).abs().max() < 1e-5 and same(state(model), before)        # float32, folded or not
    for model in (Half(), SmoothClassifier(dtype=torch.float32)):
        before = state(model)
        assert PixelMask(model, **quick)(x, progress=False).mask.isfinite().all() and same(state(model), before)


def test_a_compiled_sigmoid_stays_one():
    "The announcement survives the compiler, the folding and the sweep's digest."
    own = load_classifier(Logits(classes=1), output="sigmoid").eval()
    compiled = load_classifier(torch.compile(own, backend="eager"))
    assert compiled.output == "sigmoid" and (probabilities(compiled, x)-probabilities(own, x)).abs().max() < 1e-6
    assert folded(own, x).output == "sigmoid" and repr(own) != repr(Classifier(own.body))
    z = torch.tensor([[0., 2.]])
    assert class_probabilities(own, z).equal(z.sigmoid())
    assert class_probabilities(nn.Identity(), z).equal(z.softmax(dim=-1))


def test_normalised_input():
    "A body that takes normalised pictures, with its normalisation inside, is the model on pictures in [0,1]."
    body, mean, std = Logits().eval(), [.485, .456, .406], [.229, .224, .225]
    by_hand = (x-torch.tensor(mean).view(3, 1, 1))/torch.tensor(std).view(3, 1, 1)
    p = probabilities(Classifier(body, Normalise(mean, std)), x)
    assert (p-body(by_hand).softmax(dim=-1)).abs().max() < 1e-6                            # float32


def test_titles_say_p_to_p():
    "Never a percentage above 100, also where a class comes from nothing."
    class Rare(nn.Module):
        "A class that the picture hardly has, and its dark parts have."
        def forward(self, y): return torch.stack([30*y.mean(dim=(1, 2, 3)), 3-30*y.mean(dim=(1, 2, 3))], dim=1)
    why = PixelMask(Rare(), **quick)(x, target=1, progress=False)
    why.mask *= 0
    assert why.retained_probability()[0] > 1000
    figure = why.show(canvas="zero")
    titles = [ax.get_title() for ax in figure.axes]
    assert any(f"p {why.probability.item():.2f} → 0.95 (zero canvas)" in t for t in titles), titles
    assert not any("%" in t for t in titles), titles
    assert titles[0].startswith("class 1")
    why.model = None
    assert why.show().axes[0].get_title().startswith("class 1")            # not ImageNet's goldfish


@pytest.fixture
def place(tmp_path, monkeypatch):
    "A folder with good and bad files, and an experiment, to run commands in."
    monkeypatch.chdir(tmp_path)
    for name, side in (("good.png", 64), ("twin/good.png", 64)):
        Path(name).parent.mkdir(exist_ok=True)
        Image.fromarray((255*picture(side)[0].movedim(0, -1).numpy()).astype(np.uint8)).save(name)
    Path("text.jpg").write_text("no picture"); Path("nothing.png").touch(); Path("empty").mkdir()
    Image.open("good.png").save("whole.jpg")
    Path("cut.jpg").write_bytes(Path("whole.jpg").read_bytes()[:700])
    profiles = Path("nbs/experiments/profiles")
    profiles.mkdir(parents=True)
    for name, text in dict(quick="01_small: {n: 1}\n", broken="01_small: {n: [1\n", list="- 1\n").items():
        (profiles/f"{name}.yaml").write_text(text)
    cells = [nbformat.v4.new_code_cell("profile, out, n = 'smoke', None, 1", metadata=dict(tags=["parameters"]))]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), profiles.parent/"01_small.ipynb")
    if os.geteuid(): Path("locked").mkdir(mode=0o500)
    return tmp_path


commands = {    # a command line, and words of the sentence
    "explain gone.jpg": "no such picture",
    "explain text.jpg": "not a picture",
    "explain cut.jpg": "broken picture",
    "explain nothing.png": "no bytes",
    "explain empty": "no such picture",
    "explain good.png --classifier resnot": "unknown classifier",
    "explain good.png --target 1000 --steps 1": "0 to 999",
    "explain good.png --target -1 --steps 1": "no class is called '-1'",
    "explain good.png --target dog": "dog",
    "explain good.png --size 0": "at least 1",
    "explain good.png --size -5": "at least 1",
    "explain good.png --size 7": "too small",
    "explain good.png --steps -1": "steps",
    "explain good.png --samples 5": "even number",
    "explain good.png --samples 0": "samples",
    "explain good.png --out text.jpg": "is a file",
    "explain good.png --out text.jpg/deep": "is a file",
    "explain good.png --method shearletz": "invalid choice",
    "explain good.png --protocol SLOW": "invalid choice",
    "explain good.png --format pkl": "invalid choice",
    "explain good.png --seed -1 --size 32 --method pixelmask --steps 1": "the seed",
    "explain good.png twin/good.png": "same name",
    "explain good.png --stepz 3": "unrecognized",
    "dance": "invalid choice",
    "": "required",
    "sweep gone": "no such file or folder",
    "sweep empty": "no pictures",
    "sweep good.png empty": "one folder",
    "sweep good.png --n 0": "number of images",
    "sweep good.png --methods shearlety": "unknown kind",
    "sweep good.png --protocols PAPERS": "unknown protocol",
    "sweep good.png --classifiers resnot": "unknown classifier",
    "sweep good.png --size 0": "size",
    "sweep good.png --size 7": "too small",
    "sweep good.png --steps -1": "steps",
    "sweep good.png --seeds -1": "a seed",
    "sweep good.png -p lambda3 5": "unknown option 'lambda3'",
    "sweep good.png -p lambda2 much": "lambda2='much'",
    "sweep good.png -p lambda2 [1": "no YAML",
    "sweep good.png --methods smoothmask --areas 2": "areas",
    "sweep good.png --methods pixelmask --workers -1": "workers",
    "sweep good.png --methods pixelmask --threads 0": "threads",
    "sweep good.png --methods pixelmask --scheduler nowhere": "no Dask scheduler",
    "sweep good.png --methods pixelmask --scheduler tcp://127.0.0.1:1": "no Dask scheduler",
    "sweep good.png --methods pixelmask --device gpu": "device",
    "sweep good.png --methods pixelmask --out text.jpg": "is a file",
    "sweep --status": "no sweep in",
    "sweep good.png --profile huge": "invalid choice",
    "reproduce 07": "unknown experiment",
    "reproduce --profile huge": "unknown profile",
    "reproduce --profile broken": "no YAML",
    "reproduce --profile list": "is no profile",
    "reproduce -p m 3": "unknown parameter 'm'",
    "reproduce -p n [1": "no YAML",
    "reproduce --workers -1": "workers",
    "reproduce --scheduler nowhere": "no Dask scheduler",
    "reproduce --out text.jpg": "is a file",
}
if os.geteuid():                # whoever is root may write anywhere
    commands["explain good.png --out locked/new"] = "cannot be written"
    commands["sweep good.png --methods pixelmask --out locked"] = "cannot be written"


def test_commands_are_refused(place, capsys):
    "Exit code 2, one line on standard error, nothing on the disk."
    before, wrong = sorted(place.rglob("*")), {}
    for line, words in commands.items():
        quiet = ["--quiet"] if line.startswith(("explain ", "sweep ")) else []
        try: code = main([*line.split(), *quiet])
        except SystemExit as stop: code = stop.code
        out, err = capsys.readouterr()
        if not (code == 2 and out == "" and len(err.splitlines()) == 1 and words in err): wrong[line] = code, out, err
    assert not wrong, wrong
    assert sorted(place.rglob("*")) == before and len(commands) >= 40


def test_a_bomb_is_a_sentence(monkeypatch, tmp_path):
    "A picture with more pixels than PIL trusts."
    Image.new("L", (64, 64)).save(tmp_path/"large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    refused(lambda: load_image(tmp_path/"large.png"), "too large a picture")


def test_fast_counts_pairs():
    "FAST takes 4 samples, two of them mirrored; an odd number of noisy ones makes no pairs."
    assert PixelMask(nn.Identity(), protocol=FAST).protocol.samples == 4
    noise = torch.rand(1, 3, 8, 8, generator=generator(0))
    refused(lambda: PixelMask(SmoothClassifier(dtype=torch.float32), protocol=FAST, samples=6)(noise), "even number")


def test_a_model_of_huggingface_in_five_lines():
    "As 02_classifiers shows it, with a small network that needs no download: its own probabilities, explained."
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    shape = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=64,
                 patch_size=16, num_labels=5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = transformers.ViTForImageClassification(transformers.ViTConfig(**shape)).eval()
    model = Classifier(net, Normalise([.5]*3, [.5]*3), "ViT")
    x = sample_images(64, 1).images
    why = ShearletX(model, protocol="FAST", steps=2)(x, progress=False)
    with torch.no_grad(): expected = net(pixel_values=(x-.5)/.5).logits.softmax(dim=1)
    assert why.target.item() == expected.argmax().item()
    torch.testing.assert_close(why.probability, expected.max(dim=1).values)
