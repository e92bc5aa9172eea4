"A sweep that is killed, robbed of its disk, pictures and files gives the rows of an undisturbed one, bit for bit."
import contextlib, errno, json, os, random, shutil, signal, struct, subprocess, sys, time, warnings
from pathlib import Path

import numpy as np, psutil, pyarrow as pa, pyarrow.parquet as pq, pytest, torch
from PIL import Image

from shearletx_nb import study as module
from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.core import generator
from shearletx_nb.explanation import Explanation
from shearletx_nb.study import Grid, RowStore, collect_rows, read_rows, rows_to_bytes, sweep, sweep_status

root = Path(__file__).parents[1]


def make_pictures(folder:Path, n:int)->Path:
    "Small pictures of smooth noise."
    folder.mkdir()
    for i in range(n):
        coarse = torch.rand(1, 3, 8, 8, generator=generator(6, i))
        fine = torch.nn.functional.interpolate(coarse, size=(64, 64), mode="bicubic").clamp(0, 1)
        pixels = (255*fine).byte()[0].movedim(0, -1).numpy()
        Image.fromarray(np.ascontiguousarray(pixels)).save(folder/f"{i}.png")
    return folder


def small_grid(pictures:Path, steps:int=12)->Grid:
    "Three methods, a small smooth classifier."
    options = dict(steps=steps, samples=2)
    methods = dict(PixelMask=options, WaveletX=dict(options, levels=3), SmoothMask=dict(steps=steps, areas=(.1, .3)))
    return Grid(pictures, methods, dict(smooth=SmoothClassifier(dtype=torch.float32)), size=64)


def with_tests()->dict[str, str]:
    "The environment of a process that imports this package and these tests."
    path = os.pathsep.join(filter(None, (str(root), str(root/"tests"), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def start(pictures:Path, out:Path, scheduler:str|None=None, within:list[str]=())->subprocess.Popen:
    "The sweep in a process of its own, perhaps on a machine of its own."
    code = (f"from test_sweep import *\nsweep(small_grid(Path({str(pictures)!r})), Path({str(out)!r}), workers=2, "
            f"threads=1, scheduler={scheduler!r}, progress=False)")
    env = {**with_tests(), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*within, sys.executable, "-c", code], env=env, text=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@contextlib.contextmanager
def one_thread():
    "As many threads of torch as the workers of these tests have."
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try: yield
    finally: torch.set_num_threads(before)


def n_rows(out:Path)->int: return len(list((out/"rows").glob("*.parquet")))


def wait_for(condition, process:subprocess.Popen, seconds:float=900)->None:
    "Until something is so, unless the process ends before."
    end = time.monotonic()+seconds
    while not condition():
        assert process.poll() is None, f"the sweep ended before it could be killed: {process.stderr.read()}"
        assert time.monotonic() < end, "nothing happens"
        time.sleep(.01)


def kill_worker(process:subprocess.Popen, draw:random.Random)->None:
    "SIGKILL one of the sweep's workers."
    workers = [c for c in psutil.Process(process.pid).children() if "spawn_main" in " ".join(c.cmdline())]
    wait_for(lambda: any(c.is_running() for c in workers), process)
    draw.choice(workers).send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory)->tuple[Path, bytes, dict]:
    "Pictures, and what a sweep gives that nobody disturbs: the table and the files of the tasks."
    folder = tmp_path_factory.mktemp("undisturbed")
    pictures = make_pictures(folder/"pictures", 12)
    with one_thread(): sweep(small_grid(pictures), folder/"out", workers=0, progress=False)
    return pictures, (folder/"out"/"rows.parquet").read_bytes(), files(folder/"out")


def files(out:Path)->dict[str, bytes]: return {p.name: p.read_bytes() for p in (out/"rows").iterdir()}


def same(out:Path, undisturbed)->bool:
    return (out/"rows.parquet").read_bytes() == undisturbed[1] and files(out) == undisturbed[2]


def test_killed_workers_and_killed_sweeps(undisturbed, tmp_path):
    "Eight SIGKILLs at random moments, five of a worker and three of the whole sweep, then a run to the end."
    draw, out = random.Random(6), tmp_path/"out"
    kinds = draw.sample(["worker"]*5+["sweep"]*3, 8)
    process = start(undisturbed[0], out)
    for kind, moment in zip(kinds, sorted(draw.sample(range(1, 28), 8))):
        wait_for(lambda moment=moment: n_rows(out) >= moment, process)
        time.sleep(draw.uniform(0, .05))
        if kind == "worker": kill_worker(process, draw)
        else:
            with pytest.raises(ValueError, match=f"another study is running in .* [(]process {process.pid} on "):
                sweep(small_grid(undisturbed[0]), out, workers=0, progress=False)
            process.kill(); process.wait()
            process = start(undisturbed[0], out)
    assert process.wait(900) == 0, process.stderr.read()
    assert same(out, undisturbed)


def start_cluster(folder:Path)->tuple[list[subprocess.Popen], str]:
    "A Dask scheduler and two workers, as one starts them by hand."
    file = folder/f"scheduler{time.monotonic_ns()}.json"
    def run(*arguments):
        return subprocess.Popen([sys.executable, "-m", "dask", *arguments], env=with_tests(), cwd=folder,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    scheduler = run("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    workers = run("worker", "--scheduler-file", str(file), "--nworkers", "2", "--nthreads", "1", "--no-dashboard",
                  "--death-timeout", "300")
    end = time.monotonic()+300
    while not file.is_file() and time.monotonic() < end: time.sleep(.02)
    return [scheduler, workers], json.loads(file.read_text())["address"]


def stop(process:subprocess.Popen)->None:
    "A process and its children, at once."
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    for p in (process, *children):
        try: p.kill()
        except psutil.NoSuchProcess: pass
    process.wait()


def test_killed_schedulers(undisturbed, tmp_path):
    "Two SIGKILLs of the scheduler at random moments: the sweep says so and ends; with a new scheduler it goes on."
    draw, out = random.Random(7), tmp_path/"out"
    for moment in (*sorted(draw.sample(range(1, 24), 2)), None):
        cluster, address = start_cluster(tmp_path)
        process = start(undisturbed[0], out, address)
        try:
            if moment is None: assert process.wait(900) == 0, process.stderr.read()
            else:
                wait_for(lambda moment=moment: n_rows(out) >= moment, process)
                cluster[0].kill()
                assert process.wait(900) != 0
                assert "scheduler" in (text := process.stderr.read()) and "ConnectionError" in text, text
        finally:
            for p in (process, *reversed(cluster)): stop(p)
    assert same(out, undisturbed)


def make_machines(names:list[str])->None:
    "Three network namespaces, joined by cables from the first to each of the others, and to nothing else."
    def ip(*words): subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)
    for name in names: ip("netns", "add", name)
    for i, name in enumerate(names):
        ip("-n", name, "link", "set", "lo", "up")
        if i == 0: ip("-n", name, "address", "add", "192.0.2.1/32", "dev", "lo"); continue  # RFC 5737: of examples
        near, far = f"{name}n", f"{name}f"
        ip("link", "add", near, "netns", names[0], "type", "veth", "peer", "name", far, "netns", name)
        ip("-n", name, "address", "add", f"192.0.2.{1+i}/32", "dev", far)
        ends = "192.0.2.1", f"192.0.2.{1+i}"
        for place, cable, (own, other) in ((names[0], near, ends), (name, far, ends[::-1])):
            ip("-n", place, "link", "set", cable, "up")
            ip("-n", place, "route", "add", other, "dev", cable, "src", own)


@contextlib.contextmanager
def machines():
    "What to write before a command to run it on each of three machines, and their addresses; else this one."
    names = [f"sx{os.getpid()}{letter}" for letter in "sab"]
    try:
        try: make_machines(names)
        except (OSError, subprocess.SubprocessError) as error:
            warnings.warn(f"no network namespaces here, the loopback instead ({error})", stacklevel=3)
            yield [([], "127.0.0.1")]*3
        else: yield [(["ip", "netns", "exec", name], f"192.0.2.{1+i}") for i, name in enumerate(names)]
    finally:
        for name in names:
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=60)


def test_killed_machines(undisturbed, tmp_path):
    "A scheduler and two workers, each on its own machine: one worker is killed, then the other, then a new one comes."
    draw, out, file, running = random.Random(8), tmp_path/"out", tmp_path/"scheduler.json", []
    path = os.pathsep.join(filter(None, (str(root), str(root/"tests"), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    with machines() as ((here, address), *others):
        def run(within, *arguments):
            command = [*within, sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
            quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            running.append(subprocess.Popen(command, env=env, cwd=tmp_path, **quiet))
            return running[-1]
        try:
            scheduler = run(here, "scheduler", "--host", address, "--port", "0", "--scheduler-file", str(file))
            end = time.monotonic()+120
            while not file.is_file() and time.monotonic() < end and scheduler.poll() is None: time.sleep(.05)
            found = json.loads(file.read_text())["address"]
            assert found.startswith(f"tcp://{address}:")
            def work(place):
                return run(place[0], "worker", found, "--host", place[1], "--nworkers", "1", "--nthreads", "1",
                           "--no-nanny", "--death-timeout", "120")
            workers, process = [work(place) for place in others], start(undisturbed[0], out, found, here)
            running.append(process)
            first, second = sorted(draw.sample(range(2, 28), 2))
            for moment, victim in zip((first, second), draw.sample(workers, 2)):
                wait_for(lambda moment=moment: n_rows(out) >= moment, process, 300)
                victim.kill(); victim.wait()
            assert n_rows(out) < 36 and process.poll() is None            # nobody is left to work, the sweep waits
            work(draw.choice(others))
            assert process.wait(300) == 0, process.stderr.read()
        finally:
            for p in reversed(running): stop(p)
    assert same(out, undisturbed)


def test_full_disk(undisturbed, tmp_path, monkeypatch):
    "The sweep ends with a clear error, what is finished stays, and with space it goes on."
    write, left = Path.write_bytes, [10]
    def almost_full(path, content):
        "A disk with room for ten files; the eleventh is cut short."
        left[0] -= 1
        if left[0] >= 0: return write(path, content)
        write(path, content[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    out = tmp_path/"out"
    with one_thread():
        monkeypatch.setattr(Path, "write_bytes", almost_full)
        with pytest.raises(OSError, match="is full; every task that was finished is safe") as raised:
            sweep(small_grid(undisturbed[0]), out, workers=0, progress=False)
        assert raised.value.errno == errno.ENOSPC
        monkeypatch.undo()
        # the owner's note and the plan took two; no half file is left
        assert n_rows(out) == 10-2 and not list((out/"rows").glob(".*"))
        assert sweep_status(out)["done"] == n_rows(out)
        sweep(small_grid(undisturbed[0]), out, workers=0, progress=False)
    assert same(out, undisturbed)


def test_broken_and_missing_pictures(undisturbed, tmp_path):
    "They become rows with their error after three tries, the others go on; mended, only they are done."
    pictures = tmp_path/"pictures"
    shutil.copytree(undisturbed[0], pictures)
    whole = (pictures/"3.png").read_bytes()
    (pictures/"3.png").write_bytes(whole[:500])
    (pictures/"4.png").unlink(); (pictures/"4.png").symlink_to(tmp_path/"nowhere.png")
    with one_thread():
        rows = sweep(small_grid(pictures), tmp_path/"out", workers=0, progress=False)
        assert set(rows[rows.error.notna()].image) == {"3.png", "4.png"}
        assert rows[rows.image == "3.png"].error.str.startswith("ValueError: broken picture").all()
        assert rows[rows.image == "4.png"].error.str.startswith("FileNotFoundError").all()
        assert sweep_status(tmp_path/"out")["failed"] == 6
        (pictures/"3.png").write_bytes(whole)
        (pictures/"4.png").unlink(); shutil.copy(undisturbed[0]/"4.png", pictures)
        seconds = RowStore(tmp_path/"out").seconds()
        sweep(small_grid(pictures), tmp_path/"out", workers=0, progress=False)
    assert len(RowStore(tmp_path/"out").seconds()) == len(seconds)+6
    assert (tmp_path/"out"/"rows.parquet").read_bytes() == undisturbed[1]


def test_failures_are_tried_again_when_asked(undisturbed, tmp_path, monkeypatch):
    "A task that failed stays failed, until `retry_failed`; each try is three tries."
    tries, evaluate = [], module.evaluate
    def fails(why): tries.append(1); raise MemoryError("too large")
    grid = Grid([undisturbed[0]/"0.png"], dict(PixelMask=dict(steps=1, samples=2)),
                dict(smooth=SmoothClassifier(dtype=torch.float32)), size=64)
    monkeypatch.setattr(module, "evaluate", fails)
    for expected in (3, 3):
        assert sweep(grid, tmp_path, workers=0, progress=False).error.tolist() == ["MemoryError: too large"]
        assert len(tries) == expected
    monkeypatch.setattr(module, "evaluate", evaluate)
    assert sweep(grid, tmp_path, workers=0, progress=False, retry_failed=True).error.isna().all()


def test_damaged_files_are_set_aside(undisturbed, tmp_path):
    "Truncated, empty and overwritten files of rows are noticed, kept for inspection, and done again."
    out = tmp_path/"out"
    with one_thread():
        sweep(small_grid(undisturbed[0]), out, workers=0, progress=False)
        paths = sorted((out/"rows").iterdir())
        for path, damage in zip(paths, (lambda b: b[:len(b)//2], lambda b: b"", lambda b: b[:500]+bytes(50)+b[550:],
                                        lambda b: b[:-1])):
            path.write_bytes(damage(path.read_bytes()))
        # asking changes nothing
        assert sweep_status(out)["missing"] == 4 and len(list((out/"rows").iterdir())) == len(paths)
        sweep(small_grid(undisturbed[0]), out, workers=0, progress=False)
    assert sorted(p.name for p in (out/"damaged").iterdir()) == [p.name for p in paths[:4]]
    assert same(out, undisturbed)


def rows_of_the_first_release(table:pa.Table)->bytes:
    "A file with checksums of its pages and none of the rows, as 0.1.0 wrote it."
    pq.write_table(table, sink := pa.BufferOutputStream(), use_dictionary=False, write_statistics=False,
                   store_schema=False, write_page_checksum=True)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("written", (rows_to_bytes, rows_of_the_first_release), ids=("now", "0.1.0"))
def test_one_flipped_bit_is_noticed(written, tmp_path):
    "In the bytes of a number, where every bit pattern is a number and only a checksum can tell."
    score, path = .1234567890123456, tmp_path/"rows.parquet"
    content = written(pa.Table.from_pylist([dict(score=score, error=None)]))
    start = content.index(struct.pack("<d", score))
    path.write_bytes(content)
    assert read_rows(path).to_pylist() == [dict(score=score, error=None)]
    for bit in range(64):
        damaged = bytearray(content)
        damaged[start+bit//8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises((pa.ArrowInvalid, OSError)): read_rows(path)


def test_explanations_are_kept(undisturbed, tmp_path):
    "Asked for later, they are computed for rows that are there already; the rows stay the same."
    grid = Grid([undisturbed[0]/"0.png"], dict(SmoothMask=dict(steps=2, areas=(.1, .3))),
                dict(smooth=SmoothClassifier(dtype=torch.float32)), size=64)
    sweep(grid, tmp_path, workers=0, progress=False)
    before = files(tmp_path)
    sweep(grid, tmp_path, workers=0, progress=False, keep=True)
    assert files(tmp_path) == before
    kept = [Explanation.load(p) for p in sorted((tmp_path/"explanations").iterdir())]
    assert [why.settings["area"] for why in kept] == [.1, .3]
    assert collect_rows(tmp_path)["method"].to_pylist() == ["SmoothMask 10 %", "SmoothMask 30 %"]
