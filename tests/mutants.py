"""Wrong programs that the tests must notice: `make mutants`, or `python tests/mutants.py NAME...` for some of them.

tests/mutants.yaml lists them: in which notebook, the old text, the new text, and the tests that should fail, quickest
first. A test is a pytest selection ("test_edges.py -k flat") or a notebook, whole ("21_objective") or up to the last
cell that has a text ("41_edges until known answers"). Each mutant is a copy of the repository in which notebook and
module are changed alike; the first test that fails kills it. A kill counts only if the same test passes on an unchanged
copy. A survivor needs a reason beside it (`equivalent: ...`); without one the run fails.
"""
import argparse, functools, multiprocessing, os, shlex, shutil, sys, tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nbformat, yaml

root = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutant:
    "One wrong program."
    name:str
    notebook:str           # such as 21_objective
    old:str                # occurs once in the exported cells of the notebook
    new:str
    tests:tuple[str, ...]  # quickest first
    equivalent:str=""      # why no test could notice


def mutants()->list[Mutant]:
    "All of tests/mutants.yaml."
    entries = yaml.safe_load((root/"tests/mutants.yaml").read_text(encoding="utf-8"))
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def exported(notebook:nbformat.NotebookNode)->list[nbformat.NotebookNode]:
    "The cells that make the module."
    return [c for c in notebook.cells if c.cell_type == "code" and c.source.startswith("#| export")]


def apply(mutant:Mutant, folder:Path)->None:
    "Change the notebook and its module alike."
    path = folder/f"nbs/{mutant.notebook}.ipynb"
    notebook, module = nbformat.read(path, 4), folder/f"shearletx_nb/{mutant.notebook[3:]}.py"
    cells, text = [c for c in exported(notebook) if mutant.old in c.source], module.read_text(encoding="utf-8")
    if [c.source.count(mutant.old) for c in cells] != [1] or text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} must occur once in the exported cells of {mutant.notebook}")
    cells[0].source = cells[0].source.replace(mutant.old, mutant.new)
    nbformat.write(notebook, path)
    module.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def copied(folder:Path)->Path:
    "A copy of what tests read."
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in "nbs shearletx_nb tests".split(): shutil.copytree(root/name, folder/name, ignore=ignored)
    for name in "settings.ini setup.py pyproject.toml conftest.py README.md".split(): shutil.copy(root/name, folder)
    return folder


def cut(path:Path, text:str)->Path:
    "A notebook of the cells up to the last one that has a text."
    notebook = nbformat.read(path, 4)
    ends = [i for i, c in enumerate(notebook.cells) if text in c.source]
    if not ends: raise ValueError(f"{path.name} has no cell with {text!r}")
    del notebook.cells[ends[-1]+1:]
    shorter = path.with_name(f"cut_{path.name}")
    nbformat.write(notebook, shorter)
    return shorter


def run_test(test:str, folder:Path)->None:
    "In a process of its own: leave with 0 if a test passes in a copy, with 1 if it fails."
    os.chdir(folder)
    os.environ.update(PYTHONPATH=os.pathsep.join((str(folder), str(folder/"tests"))), CI="true", OMP_NUM_THREADS="1")
    sys.path[:0] = [str(folder), str(folder/"tests")]
    log = os.open(folder/"said.txt", os.O_WRONLY|os.O_CREAT|os.O_TRUNC)
    for stream in (1, 2): os.dup2(log, stream)
    if test.startswith("test_"):
        import pytest
        sys.exit(int(pytest.main(["-xq", "-p", "no:cacheprovider", *shlex.split(f"tests/{test}")])))
    from nbdev.test import test_nb
    name, _, text = test.partition(" until ")
    path = folder/f"nbs/{name}.ipynb"
    sys.exit(0 if test_nb(cut(path, text) if text else path)[0] else 1)


def forks()->multiprocessing.context.BaseContext:
    "Processes that begin with the large packages imported, and with nothing of this one."
    context = multiprocessing.get_context("forkserver")
    large = "torch torchvision matplotlib.pyplot pandas skimage.feature nbdev.test pytest hypothesis distributed"
    context.set_forkserver_preload(large.split())
    return context


def fails(test:str, folder:Path, limit:float=1800.)->bool:
    "Whether a test fails in a copy; taking for ever is failing, and a test that cannot be run is an error."
    process = forks().Process(target=run_test, args=(test, folder))
    process.start()
    process.join(limit)
    if process.exitcode is None: process.kill(); process.join(); return True
    if process.exitcode not in (0, 1):
        raise RuntimeError(f"{test} could not be run: {(folder/'said.txt').read_text(encoding='utf-8')[-1000:]}")
    return process.exitcode == 1


@functools.cache
def _clean()->tuple[Path, dict]:
    "An unchanged copy, and what is known about it."
    return copied(Path(tempfile.mkdtemp(prefix="mutants-"))), {}


lock = threading.Lock()


def sound(test:str)->bool:
    "Whether a test passes on an unchanged copy; asked once per test."
    with lock:
        folder, known = _clean()
        if test not in known: known[test] = not fails(test, folder)
        return known[test]


def killer(mutant:Mutant)->str|None:
    "The first test that notices, or None."
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        apply(mutant, copied(Path(folder)))
        for test in mutant.tests:
            if fails(test, Path(folder)):
                if sound(test): return test
                raise RuntimeError(f"{test} fails on the unchanged program: it cannot judge")
    return None


def judge(mutant:Mutant)->str:
    "One line about a mutant, printed when it is known."
    started = time.perf_counter()
    try: by = killer(mutant)
    except (ValueError, RuntimeError, OSError) as error: verdict, detail = "ERROR", str(error)
    else:
        if by: verdict, detail = "killed", f"by {by}"
        else: verdict, detail = "equivalent" if mutant.equivalent else "SURVIVED", mutant.equivalent
    print(f"{verdict:10} {mutant.name:36} {time.perf_counter()-started:4.0f} s  {detail}", flush=True)
    return verdict


def main()->int:
    "Run them and say how many were noticed."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutants, or notebooks whose mutants to run; none: all")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="how many at a time")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", MPLBACKEND="agg")
    every = mutants()
    known = {m.name for m in every} | {m.notebook for m in every}
    if unknown := set(options.names)-known: parser.error(f"no mutant or notebook {', '.join(sorted(unknown))}")
    chosen = [m for m in every if not options.names or {m.name, m.notebook} & set(options.names)]
    with ThreadPoolExecutor(options.jobs) as pool: verdicts = list(pool.map(judge, chosen))
    if _clean.cache_info().currsize: shutil.rmtree(_clean()[0])
    killed, survived, equivalent, errors = map(verdicts.count, ("killed", "SURVIVED", "equivalent", "ERROR"))
    print(f"{len(chosen)} mutants: {killed} killed, {survived} survived, {equivalent} equivalent, {errors} errors")
    return 1 if survived or errors else 0


if __name__ == "__main__": sys.exit(main())
