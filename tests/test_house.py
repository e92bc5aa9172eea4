"The rules of the house: what `make check` asks of the repository itself."
import ast, json, os, re, shutil, subprocess, sys
from configparser import ConfigParser
from pathlib import Path

import nbformat, pytest, yaml

import shearletx_nb
from shearletx_nb.claims import stale_pages

root = Path(__file__).parents[1]
notebooks = sorted(p for p in (root/"nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
experiments = [p for p in notebooks if p.parent.name == "experiments"]
numbered = [p for p in notebooks if re.match(r"\d\d_", p.name) and p not in experiments]


def copied(folder:Path)->Path:
    "A copy of what nbdev reads and writes."
    for name in ("nbs", "shearletx_nb"):
        shutil.copytree(root/name, folder/name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for name in ("settings.ini", "setup.py", "README.md"): shutil.copy(root/name, folder/name)
    return folder


def nbdev(command:str, folder:Path, *arguments:str)->None:
    "Run one of nbdev's commands in a folder."
    program = Path(sys.executable).parent/command
    subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True,
                   env={**os.environ, "PYTHONPATH": str(folder)})


def files(folder:Path, pattern:str)->dict[str, str]:
    "Texts by relative path."
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in folder.rglob(pattern)
            if ".ipynb_checkpoints" not in p.parts}


def test_package_is_what_the_notebooks_export(tmp_path):
    "No module was edited by hand, and none was forgotten."
    nbdev("nbdev_export", copied(tmp_path))
    exported, committed = files(tmp_path/"shearletx_nb", "*.py"), files(root/"shearletx_nb", "*.py")
    differing = sorted(n for n in exported.keys() | committed.keys() if exported.get(n) != committed.get(n))
    assert not differing, f"{differing} differ from nbs/: edit the notebooks and run nbdev_export"


def test_notebooks_are_clean(tmp_path):
    "nbdev_clean has nothing left to do."
    nbdev("nbdev_clean", copied(tmp_path))
    cleaned, committed = files(tmp_path/"nbs", "*.ipynb"), files(root/"nbs", "*.ipynb")
    dirty = sorted(n for n in committed if cleaned[n] != committed[n])
    assert not dirty, f"run nbdev_clean: {dirty}"


@pytest.mark.parametrize("path", experiments, ids=lambda p: p.stem)
def test_experiments_have_parameters(path):
    "Without the tag, papermill only warns and the defaults win."
    tagged = [c for c in nbformat.read(path, 4).cells if "parameters" in c.metadata.get("tags", [])]
    assert len(tagged) == 1, f"{path.name} needs exactly one cell with the tag parameters, it has {len(tagged)}"
    names = {t.id for node in ast.parse(tagged[0].source).body if isinstance(node, ast.Assign) for t in ast.walk(node)
             if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)}
    assert {"profile", "out", "seed"} <= names, f"{path.name} must take profile, out and seed"
    for profile in (root/"nbs/experiments/profiles").glob("*.yaml"):
        unknown = set((yaml.safe_load(profile.read_text()) or {}).get(path.stem, {})) - names
        assert not unknown, f"{profile.name} sets {unknown}, which {path.name} does not take"


def test_profiles_name_existing_experiments():
    "A profile's key that matches no notebook is a typing error."
    for profile in (root/"nbs/experiments/profiles").glob("*.yaml"):
        unknown = set(yaml.safe_load(profile.read_text()) or {}) - {p.stem for p in experiments}
        assert not unknown, f"{profile.name} names {unknown}"


def imports(source:str)->set[str]:
    "The modules of this package that a cell imports."
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import): found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "shearletx_nb":
            found |= {f"shearletx_nb.{a.name}" for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module: found.add(node.module)
    return {name.split(".")[1] for name in found if name.startswith("shearletx_nb.")}


def code(path:Path)->list[str]:
    "The Python cells of a notebook, without its magics."
    cells = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == "code"]
    return ["\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))
            for source in cells]


@pytest.mark.parametrize("path", numbered, ids=lambda p: p.stem)
def test_imports_only_from_lower_numbers(path):
    "The numbers are a topological order."
    number = {p.stem[3:]: int(p.stem[:2]) for p in numbered}
    for module in set().union(*map(imports, code(path))) - {"_modidx"}:
        lower = number[module] < number[path.stem[3:]] or module == path.stem[3:] == "all"
        assert lower, f"{path.name} imports {module}, which has no lower number"


@pytest.mark.parametrize("path", notebooks, ids=lambda p: p.stem)
def test_notebooks_are_small_and_executed(path):
    "They read well on a forge: outputs are there, no error among them, under 1 MB."
    assert path.stat().st_size < 1_000_000
    outputs = [o for c in nbformat.read(path, 4).cells for o in c.get("outputs", [])]
    assert not [o for o in outputs if o.output_type == "error"]
    assert path in experiments or path.stem == "99_all" or outputs, f"{path.name} was committed without outputs"


def test_the_map_is_complete():
    "The tutorial ends with a table of all notebooks and experiments."
    text = (root/"nbs/index.ipynb").read_text(encoding="utf-8")
    listed = {path for path in notebooks if f"({path.relative_to(root/'nbs').as_posix()})" in text}
    assert not {*notebooks} - listed - {root/"nbs/index.ipynb"}


def test_mutants_still_apply():
    "Every wrong program of mutants.yaml changes one place of its notebook, and names tests that exist."
    source = {p.stem: [c.source for c in nbformat.read(p, 4).cells] for p in numbered}
    exported = {stem: [c for c in cells if c.startswith("#| export")] for stem, cells in source.items()}
    entries = yaml.safe_load((root/"tests/mutants.yaml").read_text(encoding="utf-8"))
    assert len(entries) >= 60 and len({e["name"] for e in entries}) == len(entries)
    for e in entries:
        found = sum(cell.count(e["old"]) for cell in exported[e["notebook"]])
        assert found == 1 and e["old"] != e["new"], f"{e['name']}: {e['old']!r} occurs {found} times in {e['notebook']}"
        for test in e["tests"]:
            name, _, text = test.partition(" until ")
            if test.startswith("test_"): assert (root/"tests"/test.split()[0]).is_file(), f"{e['name']}: no {test}"
            else: assert any(text in cell for cell in source[name]), f"{e['name']}: {name} has no cell with {text!r}"


def tracked()->list[Path]:
    "The files under version control."
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    return [root/n for n in listed.stdout.split("\0") if n and (root/n).is_file()]


def test_no_machine_paths():
    "Nothing under version control names a folder of the machine it was made on."
    pattern = re.compile(rb"/(?:tmp|root|work|home/\w+|Users/\w+|site-packages)/")
    found = [p.relative_to(root).as_posix() for p in tracked()
             if p.suffix in {".ipynb", ".py", ".json", ".md", ".csv", ".yaml", ".yml", ".ini", ".toml"}
             and p != Path(__file__) and pattern.search(p.read_bytes())]
    assert not found, f"machine paths in {found}"


def test_lock_has_no_addresses():
    "Names and versions only."
    lines = [line for line in (root/"requirements.lock").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.match(r"[A-Za-z0-9._-]+==[^\s/]+( ; .+)?$", line) for line in lines)


def test_manifests_say_how_figures_came_to_be():
    "Every folder of figures has a manifest with its circumstances."
    for folder in (p for p in (root/"figures").glob("*") if p.is_dir()):
        manifest = json.loads((folder/"manifest.json").read_text())
        assert {"experiment", "parameters", "seconds", "environment"} <= manifest.keys()
        assert all((folder/name).is_file() for name in manifest["files"])


# Results made before manifests named a clean commit, or processor, pictures and weights; a run anew takes them off.
DIRTY = {"14_frontier": "release 0.1.0 ran it from a folder with changes"}
WITHOUT_PROVENANCE = set("""01_transforms 02_theory 04_wavelet_family 07_saliency_comparison 08_runtime 10_curves_pixels
    11_paper_or_code 13_soundness 14_frontier""".split())


def test_manifests_name_what_results_depend_on():
    "The commit of the code, without changes; the processor; from 03 on digests of pictures and weights."
    manifests = {p.parent.name: json.loads(p.read_text()) for p in (root/"figures").glob("*/manifest.json")}
    def clean(m): return re.fullmatch("[0-9a-f]{40}", m["environment"]["commit"] or "")
    dirty = {name for name, m in manifests.items() if not clean(m)}
    assert dirty == DIRTY.keys(), f"made from a folder with changes, or no longer: {dirty ^ DIRTY.keys()}"
    def complete(name, m):
        return m["environment"].get("processor") and (name < "03" or m.get("pictures") and "weights" in m)
    lacking = {name for name, m in manifests.items() if not complete(name, m)}
    assert lacking == WITHOUT_PROVENANCE, f"no processor, pictures, weights: {lacking ^ WITHOUT_PROVENANCE}"
    for name, m in manifests.items():
        if name in WITHOUT_PROVENANCE or name < "03": continue
        assert all(re.fullmatch("[0-9a-f]{64}", part["sha256"]) and part["n"] for part in m["pictures"].values())
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in m["weights"].values())


def test_descriptions_agree():
    "settings.ini, CITATION.cff and codemeta.json name the same title, version, authors and licence."
    settings = ConfigParser(delimiters=["="])
    settings.read(root/"settings.ini", encoding="utf-8")
    own = settings["DEFAULT"]
    cited = yaml.safe_load((root/"CITATION.cff").read_text(encoding="utf-8"))
    meta = json.loads((root/"codemeta.json").read_text(encoding="utf-8"))
    assert own["version"] == cited["version"] == meta["version"] == shearletx_nb.__version__
    assert f"The {own['title']}" == cited["title"] == meta["name"] and own["description"] == meta["description"]
    assert [own["author"]] == [a["name"] for a in cited["authors"]] == [a["name"] for a in meta["author"]]
    assert own["license"] == "apache2" and cited["license"] == meta["license"].rsplit("/", 1)[1] == "Apache-2.0"
    assert cited["keywords"] == meta["keywords"]
    assert cited["preferred-citation"]["title"] == meta["referencePublication"]["name"]
    assert f"## {own['version']}" in (root/"CHANGELOG.md").read_text(encoding="utf-8")


def test_pages_follow_from_the_findings():
    "No verdict is typed: CLAIMS.md and the README say what figures/*/claims.csv say."
    stale = stale_pages(root)
    assert not stale, f"run shearletx claims --write: {stale} are not what the findings say"


def definitions(path:Path)->dict[str, bool]: # by name: whether there is a test nearby
    """Exported functions and classes. One is tested nearby if its name, or that of another definition of its cell,
    stands in one of the next two code cells, and that cell exports nothing and has an assert or a test."""
    cells, found = code(path), {}
    for i, source in enumerate(cells):
        if not source.startswith("#| export"): continue
        names = [n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef|ast.ClassDef)]
        near = [s for s in cells[i+1:i+3] if not s.startswith("#|") and re.search(r"\bassert\b|\btest_\w+\(", s)]
        tested = any(re.search(rf"\b{name}\b", s) for name in names for s in near)
        found |= {name: tested for name in names if not name.startswith("_")}
    return found


def test_definitions_are_tested_where_they_stand():
    "A reader meets a definition and what it is good for together: more than 60 % of the exported ones."
    found = {f"{p.stem}: {name}": tested for p in numbered for name, tested in definitions(p).items()}
    share, without = sum(found.values())/len(found), [name for name, tested in found.items() if not tested]
    assert share > .6, f"{share:.0%} of {len(found)} definitions; none beside {', '.join(without)}"


@pytest.mark.parametrize("path", notebooks, ids=lambda p: p.stem)
def test_names_are_defined_once(path):
    "A second definition of an exported name would silently replace the first, which its tests above still saw."
    names = [n.name for source in code(path) if source.startswith("#| export")
             for n in ast.parse(source).body if isinstance(n, ast.FunctionDef|ast.ClassDef)]
    assert len(names) == len({*names}), sorted({n for n in names if names.count(n) > 1})


DRAWS = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "normal", "bernoulli", "multinomial"}

def unseeded_draws(source:str)->list[str]:
    "Calls of torch that draw from its global state, which every process begins elsewhere."
    if "manual_seed" in source: return []
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "torch" and node.func.attr in DRAWS
            and "generator" not in {k.arg for k in node.keywords}]


@pytest.mark.parametrize("path", notebooks, ids=lambda p: p.stem)
def test_draws_have_a_seed(path):
    "A test that draws anew in every run fails once in a while, and nobody can say on what."
    assert unseeded_draws("x = torch.rand(2)") and not unseeded_draws("x = torch.rand(2, generator=g)")
    found = [draw for cell in code(path) for draw in unseeded_draws(cell)]
    assert not found, f"{path.name} draws without generator=: {found}"


def test_lines_are_short():
    "Notebooks are read on a forge: no line of a code cell over 120 characters; ruff asks the same of tests."
    found = {p.relative_to(root).as_posix(): [line for source in code(p) for line in source.splitlines()]
             for p in notebooks}
    long = {name: n for name, lines in found.items() if (n := sum(len(line) > 120 for line in lines))}
    assert not long, long


@pytest.mark.parametrize("path", experiments, ids=lambda p: p.stem)
def test_experiments_are_short(path):
    "At most 150 lines of code: those of the code cells that are neither empty nor a comment, imports included."
    lines = [line.strip() for source in code(path) for line in source.splitlines()]
    n = sum(bool(line) and not line.startswith("#") for line in lines)
    assert n <= 150, f"{path.stem} has {n} lines of code"
