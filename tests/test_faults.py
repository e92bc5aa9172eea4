"Damaged files, full and read-only disks, Ctrl-C: a sentence or the right result, never a wrong one."
import contextlib, errno, importlib.resources, os, random, signal, subprocess, sys, time
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat, numpy as np, pandas as pd, psutil, pyarrow as pa, pyarrow.parquet as pq, pytest
import safetensors.torch, torch, yaml
from PIL import Image
from test_sweep import make_pictures, one_thread

from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.core import Run, generator, read_manifest, sealed_json
from shearletx_nb.explanation import Explanation
from shearletx_nb.representation import Pixels
from shearletx_nb.reproduce import is_finished, read_profile
from shearletx_nb.study import Grid, RowStore, collect_rows, read_plan, read_rows, rows_to_bytes, sweep, sweep_status
from shearletx_nb.wavelet import Wavelet

root = Path(__file__).parents[1]


def damages(whole:bytes, seed:int, most:int=40)->Iterator[tuple[str, bytes]]:
    "The bytes of a file, cut short and with one byte changed: every tenth, or in larger files seeded ones."
    draw = random.Random(seed)
    places = range(0, len(whole), 10) if len(whole) <= 10*most else sorted(draw.sample(range(len(whole)), most))
    for place in places:
        yield f"cut at {place}", whole[:place]
        changed = draw.randrange(place, min(place+10, len(whole)))
        yield f"flip at {changed}", whole[:changed]+bytes([whole[changed]^draw.randrange(1, 256)])+whole[changed+1:]


def survive(path:Path, read:Callable, seed:int, most:int=40)->list[str]:
    "Damage a file in many ways: each is refused in a sentence that names it or changes nothing; the refusals."
    whole, right, said = path.read_bytes(), read(), []
    for what, content in damages(whole, seed, most):
        path.write_bytes(content)
        try: found = read()
        except (ValueError, OSError) as error:
            said.append(str(error))
            assert path.name in said[-1] and "\n" not in said[-1] and len(said[-1]) < 500, f"{what}: {said[-1]!r}"
        else: assert found == right, f"{what}: another result, without a word"
    path.write_bytes(whole)
    assert read() == right
    return said


def an_explanation(T)->Explanation:
    "Random tensors of the right shapes."
    draw = generator(4, 1)
    x = torch.rand(2, 3, *T.shape, generator=draw)
    return Explanation(x, torch.rand(2, *T.coefficient_shape, generator=draw), torch.tensor([1, 2]),
                       torch.tensor([.5, .25]), T, "PixelMask",
                       dict(seed=0, lambda1=1.), dict(objective=torch.rand(3, 2, generator=draw)),
                       torch.tensor([True, False]))


def content(why:Explanation)->tuple:
    "All that a file of an explanation holds, comparable."
    tensors = dict(x=why.x, mask=why.mask, target=why.target, probability=why.probability, finished=why.finished,
                   **why.history)
    return why.method, why.settings, why.representation.to_dict(), {k: (v.dtype, v.tolist()) for k,
                                                                    v in tensors.items()}


@pytest.mark.parametrize("T", [Pixels((5, 4)), Wavelet((9, 8), "haar", 1)], ids=["Pixels", "Wavelet"])
@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_damaged_explanations(T, suffix, tmp_path):
    "zip has a checksum, which NumPy alone does not always reach, and safetensors has none: our own digest covers both."
    path = an_explanation(T).save(tmp_path/f"why.{suffix}")
    said = survive(path, lambda: content(Explanation.load(path)), seed=1, most=150)
    assert all("is not an explanation or is damaged" in s for s in said) and len(said) > 150


def without_digest(path:Path)->None:
    "The file as release 0.1.0 wrote it."
    if path.suffix == ".npz":
        with np.load(path) as file: arrays = {k: file[k] for k in file.files if k != "sha256"}
        np.savez_compressed(path, **arrays)
    else:
        with safetensors.safe_open(path, "pt") as file:
            tensors, facts = {k: file.get_tensor(k) for k in file.keys()}, file.metadata()["facts"]
        safetensors.torch.save_file(tensors, path, metadata=dict(facts=facts))


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_explanations_of_the_first_release(suffix, tmp_path):
    "Without a digest they are still read, and a zip's own checksums are still looked at."
    why = an_explanation(Pixels((5, 4)))
    path = why.save(tmp_path/f"why.{suffix}")
    without_digest(path)
    assert b"sha256" not in path.read_bytes() and content(Explanation.load(path)) == content(why)
    if suffix == "npz": survive(path, lambda: content(Explanation.load(path)), seed=2, most=150)


def some_rows()->list[dict]:
    "Rows as a task gives them, with a missing value and a text."
    return [dict(explainer="PixelMask", area=None, probability=.5+i/7, cp_entropy=float("inf") if i else 2.5,
                 classes=10, error=None) for i in range(2)]


def test_damaged_rows_of_a_sweep(tmp_path):
    "Also in Parquet's table of contents, which has no checksum of its own."
    path = tmp_path/"rows.parquet"
    path.write_bytes(rows_to_bytes(pa.Table.from_pylist(some_rows())))
    said = survive(path, lambda: read_rows(path).to_pylist(), seed=3, most=150)
    assert all("is damaged" in s and "computes it again" in s for s in said) and len(said) > 150
    with pytest.raises(pa.ArrowInvalid): path.write_bytes(b"PAR1") and read_rows(path)


def test_rows_of_the_first_release(tmp_path):
    "Without a digest they are still read."
    pq.write_table(pa.Table.from_pylist(some_rows()), tmp_path/"rows.parquet", store_schema=False)
    assert read_rows(tmp_path/"rows.parquet").to_pylist() == some_rows()


def a_store(folder:Path)->RowStore:
    "The folder of a sweep of two tasks."
    store, cells = RowStore(folder), []
    for i, key in enumerate(("0"*32, "f"*32)):
        store.write(key, some_rows()[i:i+1], seconds=1.)
        cells.append(dict(image=f"{i}.png", classifier="smooth", method="PixelMask", protocol="PAPER", seed=0,
                          label=None, key=key))
    (folder/"plan.json").write_text(sealed_json(dict(cells=cells)))
    return store


def test_damaged_plan(tmp_path):
    "A wrong name in the plan would give rows to the wrong picture."
    store = a_store(tmp_path)
    def read(): return collect_rows(store.out).to_pylist(), sweep_status(store.out)
    said = survive(store.out/"plan.json", read, seed=4)
    assert all("the same sweep writes it anew" in s for s in said) and len(said) > 40
    (store.out/"plan.json").write_text('[{"key": "' + "0"*32 + '"}]')  # of the first release: a list, without a seal
    assert read_plan(store.out) == [dict(key="0"*32, rows="0"*32)]


def test_damaged_rows_are_never_collected(tmp_path):
    "The table of a sweep is refused while one of its files is damaged, and the file is named."
    store = a_store(tmp_path)
    survive(store.rows_path("f"*32), lambda: collect_rows(store.out).to_pylist(), seed=5)


def a_run(out:Path, seconds:float=0.)->Run:
    "A run of two rows, finished."
    run = Run("00_example", out, profile="smoke", seed=0, steps=3)
    run.rows(pd.DataFrame([dict(image=f"{i}.png", finished=True, error=.25+i/7) for i in range(2)]))
    run.finish()
    return run


def taken_over(out:Path)->tuple[str, float]:
    "The rows that the same work goes on from, and the seconds; the folder is put back as it was."
    before = {p: p.read_bytes() for p in out.iterdir()}
    try:
        run = Run("00_example", out, profile="smoke", seed=0, steps=3)
        return (out/"rows.csv").read_text(), run.before
    finally:
        for path, whole in before.items(): path.write_bytes(whole)


def test_damaged_manifest_and_rows_of_an_experiment(tmp_path):
    "Rows are neither lost nor taken over from a damaged file, and the sentence says which file to delete."
    a_run(tmp_path)
    for name in ("manifest.json", "rows.csv"):
        said = survive(tmp_path/name, lambda: taken_over(tmp_path), seed=6)
        assert all("delete it" in s for s in said) and len(said) > 10
    said = survive(tmp_path/"manifest.json", lambda: is_finished(tmp_path, dict(steps=3)), seed=7)
    assert all("delete it" in s for s in said) and is_finished(tmp_path, dict(steps=3))


def test_advice_on_a_damaged_manifest_helps(tmp_path):
    "Deleted, it and its rows make room for a new start; deleted alone, the rows of unknown origin are refused."
    a_run(tmp_path)
    (tmp_path/"manifest.json").write_bytes((tmp_path/"manifest.json").read_bytes()[:99])
    with pytest.raises(ValueError, match="is damaged .*: put back a good copy, or delete it and the tables beside it"):
        a_run(tmp_path)
    assert (tmp_path/"rows.csv").is_file()
    (tmp_path/"manifest.json").unlink()
    with pytest.raises(ValueError, match="rows.csv has no manifest.json beside it"): a_run(tmp_path)
    (tmp_path/"rows.csv").unlink()
    assert a_run(tmp_path).before == 0. and read_manifest(tmp_path/"manifest.json")["sha256"]["rows.csv"]


@pytest.mark.parametrize("profile", ["paper", "smoke"])
def test_damaged_profiles(profile, tmp_path):
    "Written by hand: what is no profile any more is refused; what still is one counts, and the manifest will tell."
    for path in (root/"nbs/experiments").glob("[0-9]*.ipynb"): (tmp_path/path.name).touch()
    (tmp_path/"profiles").mkdir()
    path, said = tmp_path/"profiles"/f"{profile}.yaml", 0
    for what, content in damages((root/f"nbs/experiments/profiles/{profile}.yaml").read_bytes(), seed=8, most=60):
        path.write_bytes(content)
        try: found = read_profile(tmp_path, profile)
        except ValueError as error:
            said += 1
            assert path.name in str(error) and "\n" not in str(error), f"{what}: {error}"
        else:
            assert found == (yaml.safe_load(content) or {}) and all(isinstance(p, dict)
                                                                    and (tmp_path/f"{name}.ipynb").is_file() for name,
                                                                    p in found.items()), what
    assert said > 5


@contextlib.contextmanager
def a_disk(folder:Path, size:str="2m")->Iterator[Path]:
    "A small file system in memory, where one can be mounted."
    folder.mkdir()
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True,
                              text=True)
    except OSError as error: pytest.skip(f"no file system can be mounted here: {error}")
    if done.returncode: pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try: yield folder
    finally: subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder:Path, leave:int=0)->Path:
    "A file that takes all the space of a disk but some bytes."
    filler = folder/"filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)): pass
    os.truncate(filler, filler.stat().st_size-leave)
    return filler


def files(folder:Path)->dict[str, bytes]:
    "The content of all files of a folder, by their paths."
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
            and p.name not in ("filler", ".lock")}


def writers(out:Path)->dict[str, Callable]:
    "Everything that writes results, ready to be called; each has been called once, and would write something else now."
    why, larger, run = an_explanation(Pixels((5, 4))), an_explanation(Pixels((90, 90))), Run("00_example", out/"run",
                                                                                             seed=0)
    for suffix in ("npz", "safetensors"): why.save(out/f"why.{suffix}")
    run.rows(pd.DataFrame([dict(image="0.png")]))
    run.finish()
    store = a_store(out/"sweep")
    table = pd.DataFrame([dict(image=f"{i}.png", error=i/7) for i in range(5000)])
    return {"why.npz": lambda: larger.save(out/"why.npz"),
            "why.safetensors": lambda: larger.save(out/"why.safetensors"),
            "rows.csv": lambda: run.rows(table), "manifest.json": lambda: Run("00_example", out/"run", seed=0),
            "sweep": lambda: store.write("0"*32, some_rows()*500, [bytes(100_000)])}


def test_full_disk(tmp_path):
    "What was there stays, nothing half written is left, the error says what to do; with space, the same call succeeds."
    with a_disk(tmp_path/"disk") as disk:
        calls = writers(disk)
        before, filler = files(disk), fill(disk)
        for name, write in calls.items():
            said = "what was there before is kept: free some space|is full; every task that was finished is safe"
            with pytest.raises(OSError, match=said) as raised: write()
            assert raised.value.errno == errno.ENOSPC and name in str(raised.value) and "\n" not in str(raised.value)
            assert files(disk) == before, name
        filler.unlink()
        for write in calls.values(): write()
        now = files(disk)
        assert all(now[name] != before[name] for name in ("why.npz", "run/rows.csv", f"sweep/rows/{'0'*32}.parquet"))


def test_read_only_disk(tmp_path):
    "The same of a folder in which nothing can be written, for root neither."
    with a_disk(tmp_path/"disk") as disk:
        calls, before = writers(disk), files(disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for name, write in calls.items():
            said = "cannot be written .Read-only file system.; what was there before is kept"
            with pytest.raises(OSError, match=said) as raised: write()
            assert raised.value.errno == errno.EROFS and (name in str(raised.value) or name == "sweep")
        with pytest.raises(OSError, match="Read-only file system"):
            sweep(tiny_grid(make_pictures(tmp_path/"pictures", 1)), disk/"sweep", workers=0, progress=False)
        assert files(disk) == before


def tiny_grid(pictures:Path)->Grid:
    "One method, two steps."
    return Grid(pictures, dict(PixelMask=dict(steps=2, samples=2)), dict(smooth=SmoothClassifier(dtype=torch.float32)),
                size=64)


def test_sweep_on_a_disk_that_fills_up(tmp_path):
    "It ends with a clear error somewhere in the middle, keeps what it has, and goes on when there is space."
    grid = tiny_grid(make_pictures(tmp_path/"pictures", 6))
    with a_disk(tmp_path/"disk") as disk, one_thread():
        sweep(grid, tmp_path/"undisturbed", workers=0, progress=False)
        filler = fill(disk, leave=14*4096)
        with pytest.raises(OSError, match="is full; every task that was finished is safe"):
            sweep(grid, disk/"out", workers=0, progress=False)
        done = sweep_status(disk/"out")["done"]
        assert 0 < done < 6 and len(list((disk/"out"/"rows").iterdir())) == done
        filler.unlink()
        sweep(grid, disk/"out", workers=0, progress=False)
        assert (disk/"out"/"rows.parquet").read_bytes() == (tmp_path/"undisturbed"/"rows.parquet").read_bytes()
        assert len(RowStore(disk/"out").seconds()) <= 6  # what was done was not done again


def start(folder:Path, *arguments:str)->subprocess.Popen:
    "The command, in a group of processes as a terminal makes one; it returns when the command begins its work."
    code = ("import sys\nimport shearletx_nb.commands\nfrom shearletx_nb.cli import main\n"
            "print('ready', flush=True)\nsys.exit(main(sys.argv[1:]))")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH")))),
           "CI": "true", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=folder, env=env, text=True,
                               # also where tests run in the background
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                               start_new_session=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def end(process:subprocess.Popen, seconds:float=240)->tuple[int, str]:
    "Wait for a command; its exit code and what it complained of. Whatever it started is gone soon."
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    try: _, complaints = process.communicate(timeout=seconds)
    finally:
        _, alive = psutil.wait_procs(family, timeout=20)
        for p in (process, *alive):
            with contextlib.suppress(psutil.NoSuchProcess): p.kill()
    assert not alive, f"{alive} outlived the command"
    return process.returncode, complaints


def whole(folder:Path)->None:
    "No temporary file is left, and every file that is there can be read."
    for path in folder.rglob("*"):
        assert path.name == ".lock" or not path.name.startswith("."), path
        if path.suffix == ".npz": Explanation.load(path)
        if path.suffix == ".png": Image.open(path).load()
        if path.name == "manifest.json": read_manifest(path)
        if path.suffix == ".parquet": read_rows(path)


PHOTOGRAPHS = Path(str(importlib.resources.files("foolbox")))/"data"
COMMANDS = dict(
    explain=("explain", str(min(PHOTOGRAPHS.glob("imagenet_*"))), "--size=64", "--method=pixelmask", "--steps=250",
             "--samples=4", "--quiet"),
    sweep=("sweep", "--profile=smoke", "--n=1", "--methods", "PixelMask", "--steps=250", "--workers=1", "--quiet"),
    reproduce=("reproduce", "01", "--profile=smoke"))


def small_experiment(folder:Path)->None:
    "A folder with one experiment in it, which writes fifty rows in five seconds and resumes from those that are there."
    code = """import pandas as pd, time
from shearletx_nb.core import Run
run = Run("01_small", out, profile=profile, seed=seed, size=size)
rows = pd.read_csv(run.out/"rows.csv").to_dict("records") if (run.out/"rows.csv").is_file() else []
while len(rows) < 50:
    rows.append(dict(image=f"{len(rows)}.png", error=len(rows)/7)); time.sleep(.1)
    run.rows(pd.DataFrame(rows))
manifest = run.finish()"""
    parameters = nbformat.v4.new_code_cell("profile = 'smoke'\nout = None\nseed = 0\nsize = 32",
                                           metadata=dict(tags=["parameters"]))
    kernel = dict(kernelspec=dict(name="python3", display_name="python3", language="python"))
    (folder/"nbs/experiments/profiles").mkdir(parents=True)
    (folder/"nbs/experiments/profiles/smoke.yaml").write_text("01_small: {size: 64}\n")
    nbformat.write(nbformat.v4.new_notebook(cells=[parameters, nbformat.v4.new_code_cell(code)], metadata=kernel),
                   folder/"nbs/experiments/01_small.ipynb")


@pytest.mark.parametrize("command, moments", [("explain", [(0, 1), (1, 2)]), ("sweep", [(0, 2), (2, 4)]),
                                              ("reproduce", [(4, 8)])])
def test_ctrl_c(command, moments, tmp_path):
    "At seeded moments: one line, exit code 130, nothing half written, nobody left; the same command then completes."
    draw, out, codes = random.Random(command), tmp_path/"out", []
    arguments = (*COMMANDS[command], f"--out={out}")
    small_experiment(tmp_path)
    for moment in moments:
        process = start(tmp_path, *arguments)
        time.sleep(draw.uniform(*moment))
        with contextlib.suppress(ProcessLookupError): os.killpg(process.pid, signal.SIGINT)
        code, complaints = end(process)
        codes.append(code)
        lines = [line for line in complaints.splitlines() if line and "IPKernelApp" not in line]
        assert code in (0, 130) and "Traceback" not in complaints, complaints
        assert code == 0 or (len(lines) == 1 and "interrupted" in lines[0]), complaints
        whole(out)
    assert 130 in codes
    assert end(start(tmp_path, *arguments))[0] == 0
    whole(out)
    assert any(out.rglob("rows.csv" if command == "reproduce" else "rows.parquet" if command == "sweep" else "*.npz"))
    assert all(Explanation.load(path).finished.all() for path in out.rglob("*.npz"))
    if command == "reproduce": assert len(pd.read_csv(out/"01_small"/"rows.csv")) == 50
