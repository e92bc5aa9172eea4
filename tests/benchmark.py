"""What things cost, as ratios within one run: `make bench`.

Each row is measured in a process of its own, alternating with its yardstick, so that both see the same machine; medians
are reported, and the peak memory of the process. Seconds differ between machines, ratios hardly.
"""
import argparse, json, os, resource, statistics, subprocess, sys, time, warnings
from dataclasses import replace
from pathlib import Path

import nbformat, torch

root = Path(__file__).parents[1]


def from_notebook(notebook:str, name:str, **names)->object:
    "A definition out of a test cell of a notebook: the slow twins stand where the reader sees them."
    cells = nbformat.read(root/"nbs"/f"{notebook}.ipynb", 4).cells
    starts = f"def {name}(", f"class {name}:"
    exec(next(c.source for c in cells if c.cell_type == "code" and c.source.startswith(starts)), names)
    return names[name]


def alternate(jobs:dict, rounds:int)->dict[str, float]:
    "Median seconds of each job, run in turns after one warm-up."
    seconds = {name: [] for name in jobs}
    for i in range(rounds+1):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            if i: seconds[name].append(time.perf_counter()-started)
    return {name: statistics.median(s) for name, s in seconds.items()}


def peak_mb()->float:
    "The largest memory of this process so far."
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)


def setting(size:int, classifier:str="efficientnet_lite0"):
    "A photograph, a classifier and the predicted class."
    from shearletx_nb.classifiers import load_classifier
    from shearletx_nb.images import sample_images
    model, x = load_classifier(classifier), sample_images(size, 14).images[13:]
    return model, x, model(x).argmax(dim=-1)


def representation(method:str, size:int):
    "The representation of a mask explainer."
    from shearletx_nb import mask_explainers
    return getattr(mask_explainers, method)("efficientnet_lite0").representation((size, size))


def mask_step(method:str, kind:str, size:int, samples:int, rounds:int)->dict:
    "One optimisation step of an explainer, by the engine or by the plain twin, beside the classifier's own passes."
    from shearletx_nb import mask_explainers, objective
    from shearletx_nb.classifiers import folded
    model, x, target = setting(size)
    explainer, quick = getattr(mask_explainers, method)(model), folded(model, x)
    weights, seen_by = (explainer.lambda1, explainer.lambda2), quick if kind == "engine" else model
    protocol = replace(objective.PAPER, samples=samples)
    o = objective.Objective(representation(method, size), seen_by, x, target, protocol, weights)
    m = torch.full((1, *o.T.coefficient_shape), .5)
    gradient, images = torch.empty_like(m), torch.rand(1, samples, *x.shape[1:])
    if kind == "engine":
        adam = torch.optim.Adam([m], lr=1e-9, maximize=True, fused=True)
        def step(): o(m, 0, gradient); m.grad = gradient; adam.step(); m.clamp_(0, 1)
    else:
        twin, draws = from_notebook("21_objective", "plain_twin", torch=torch), (list(o.noise(0)), o.plan(0).W)
        def step(): twin(o.T, model, x, target, m, o.protocol, *draws, None, *weights)
    passes = lambda network: lambda: objective.fidelity(network, images, target)
    return alternate({"classifier": passes(model), "folded": passes(quick), kind: step}, rounds)


def protocol_step(protocol:str, classifier:str, size:int, rounds:int)->dict:
    "One step of a search by ShearletX, whole, beside the folded classifier's passes on as many images."
    from shearletx_nb.classifiers import folded
    from shearletx_nb.core import keep_freed_memory
    from shearletx_nb.objective import Objective, fidelity, protocol_named
    from shearletx_nb.optimise import MaskAscent
    keep_freed_memory()
    model, x, target = setting(size, classifier)
    quick = folded(model, x)
    o = Objective(representation("ShearletX", size), quick, x, target, protocol_named(protocol))
    ascent = MaskAscent(o, torch.full((1, *o.T.coefficient_shape), .5))
    images = torch.rand(1, len(o.plan(0).weight), *x.shape[1:])
    return alternate({"folded": lambda: fidelity(quick, images, target), "step": lambda: ascent.step(0)}, rounds)


def beside_a_neighbour(options:argparse.Namespace, environment:dict)->tuple[float, float]:
    "Seconds of FAST's step alone on the machine, and beside a process that never rests."
    row = "step:FAST:efficientnet_lite0"
    alone = measure(row, options, environment)["seconds"]["step"]
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try: return alone, measure(row, options, environment)["seconds"]["step"]
    finally: neighbour.kill(); neighbour.wait()


def torchray_search(model, x:torch.Tensor, target:torch.Tensor, steps:int):
    "TorchRay's search for a mask of 20 %, to be called."
    from oracles import load_torchray
    oracle = load_torchray()
    return lambda: oracle.extremal_perturbation(model, x, target.item(), areas=[.2], max_iter=steps,
                                                reward_func=oracle.contrastive_reward)


def smooth_step(kind:str, size:int, rounds:int, steps:int=10)->dict:
    "Steps of the smooth mask, ours or TorchRay's, beside the classifier's passes on the one picture of each step."
    from shearletx_nb.objective import fidelity
    from shearletx_nb.smooth_mask import SmoothMaskOptions, optimise_smooth_mask
    model, x, target = setting(size)
    options = SmoothMaskOptions(steps=steps)
    jobs = dict(engine=lambda: optimise_smooth_mask(model, x, target, (.2,), options, progress=False),
                twin=torchray_search(model, x, target, steps))
    passes = lambda: [fidelity(model, x[None], target) for _ in range(steps)]
    return {name: s/steps for name, s in alternate({"classifier": passes, kind: jobs[kind]}, rounds).items()}


def whole_picture(classifier:str, size:int, rounds:int, part:int=20)->dict:
    "Seconds per picture: SWIFT whole; FAST, our smooth mask and TorchRay's timed over some steps and multiplied up."
    from shearletx_nb.core import keep_freed_memory
    from shearletx_nb.mask_explainers import ShearletX
    from shearletx_nb.objective import FAST, FIRM
    from shearletx_nb.smooth_mask import SmoothMask
    keep_freed_memory()
    model, x, target = setting(size, classifier)
    jobs = dict(SWIFT=lambda: ShearletX(model, protocol="SWIFT")(x, progress=False),
                FIRM=lambda: ShearletX(model, protocol=FIRM, steps=part)(x, progress=False),
                FAST=lambda: ShearletX(model, protocol=FAST, steps=part)(x, progress=False),
                SmoothMask=lambda: SmoothMask(model, (.2,), steps=part)(x, progress=False),
                TorchRay=torchray_search(model, x, target, part))
    steps = dict(SWIFT=part, FIRM=FIRM.steps, FAST=FAST.steps)
    return {name: s*steps.get(name, 800)/part for name, s in alternate(jobs, rounds).items()}


def build(rounds:int, **_)->dict:
    "The filters of the 256×256 system, ours and pyshearlab_mind's."
    import pyshearlab_mind
    from shearletx_nb.shearlet_filters import shearlet_filters
    ours = getattr(shearlet_filters, "__wrapped__", shearlet_filters)
    theirs = lambda: pyshearlab_mind.SLgetShearletSystem2D(0, 256, 256, 4)
    return alternate({"oracle": theirs, "ours": lambda: ours((256, 256))}, rounds)


def transform(kind:str, rounds:int, **_)->dict:
    "Analysis and synthesis of one colour picture, by real FFTs or by plain complex ones."
    import numpy as np
    from shearletx_nb.shearlet import Shearlet
    from shearletx_nb.shearlet_filters import full_spectrum
    T, x = Shearlet((256, 256)), torch.rand(3, 256, 256)
    if kind == "plain":
        T = from_notebook("13_shearlet", "PlainTwin", torch=torch, np=np, full_spectrum=full_spectrum)(T.system)
        T.psi, T.weights = T.psi.to(torch.complex64), T.weights.float()
    c = T.analyse(x)
    return alternate({"analyse": lambda: T.analyse(x), "synthesise": lambda: T.synthesise(c)}, rounds)


def sweep_speed(size:int, samples:int, rounds:int, tasks:int=4, steps:int=3)->dict:
    "Seconds per task of a sweep with one local worker and with two, one thread each, in turns; start-up not counted."
    from contextlib import ExitStack
    from shearletx_nb.cluster import as_they_finish, open_cluster
    from shearletx_nb.study import Grid, Workshop, do_task, plan_sweep, read_image
    grid = Grid(n=tasks, methods=dict(ShearletX=dict(steps=steps, samples=samples)), size=size)
    workshop = Workshop({grid.weights[name]: c for name, c in grid.given.items()})
    todo = list(plan_sweep(grid, progress=False)[1].values())
    with ExitStack() as stack:
        clients = {f"{n} workers": stack.enter_context(open_cluster(n, threads=1)) for n in (1, 2)}
        count = iter(range(10**9))
        def job(client):
            work = ((f"{task.key}-{next(count)}", (task, read_image(task))) for task in todo)
            for _, _, error in as_they_finish(client, do_task, work, tool=workshop):
                if error is not None: raise error
        jobs = {name: lambda c=c: job(c) for name, c in clients.items()}
        return {name: s/tasks for name, s in alternate(jobs, rounds).items()}


def measure(row:str, options:argparse.Namespace, environment:dict|None=None)->dict:
    "One row, in a process of its own."
    numbers = [f"--{name}={getattr(options, name)}" for name in ("size", "samples", "rounds")]
    done = subprocess.run([sys.executable, __file__, "--row", row, *numbers], check=True, capture_output=True,
                          text=True, env={**os.environ, "CI": "true", **(environment or {})})
    return json.loads(done.stdout.splitlines()[-1])


def run_row(row:str, options:argparse.Namespace)->dict:
    "What the child process does."
    what, _, kind = row.partition(":")
    torch.rand(8) @ torch.rand(8)
    before = peak_mb()
    if what == "build": seconds = build(options.rounds)
    elif what == "transform": seconds = transform(kind, options.rounds)
    elif what == "picture": seconds = whole_picture(kind, options.size, options.rounds)
    elif what == "step": seconds = protocol_step(*kind.split(":"), options.size, options.rounds)
    elif what == "sweep": seconds = sweep_speed(options.size, options.samples, options.rounds)
    elif what == "SmoothMask": seconds = smooth_step(kind, options.size, options.rounds)
    else: seconds = mask_step(what, kind, options.size, options.samples, options.rounds)
    return dict(seconds=seconds, peak_mb=peak_mb(), above_mb=peak_mb()-before)


def report(options:argparse.Namespace)->None:
    "Print the ratios."
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; medians of {options.rounds} rounds, "
          "alternating with the yardstick\n")
    s = measure("build", options)["seconds"]
    print(f"shearlet system 256×256, 49 filters: {1e3*s['ours']:.0f} ms, pyshearlab_mind {1e3*s['oracle']:.0f} ms: "
          f"{s['oracle']/s['ours']:.1f} times faster")
    fast, plain = measure("transform:fast", options), measure("transform:plain", options)
    for name in ("analyse", "synthesise"):
        a, b = fast["seconds"][name], plain["seconds"][name]
        print(f"{name:10} 3×256×256: {1e3*a:.0f} ms, plain complex FFTs {1e3*b:.0f} ms: {b/a:.1f} times faster")
    a, b = fast["above_mb"], plain["above_mb"]
    print(f"memory of the transforms: {a:.0f} MB, plain {b:.0f} MB: {a/b:.2f} of it\n")
    print(f"one step at {options.size}×{options.size}, {options.samples} samples, EfficientNet-Lite0, in units of the "
          "classifier's own forward and backward pass")
    print("(folded: the classifier with its batch norms folded, which the engine uses: its limit)")
    print("(SmoothMask: one picture per step, and its twin is TorchRay; set-up included)")
    print(f"{'':12} {'twin':>8} : {'engine':>7} : {'folded':>7} : classifier     engine, s per step "
          "    peak MB, twin / engine")
    for method in options.methods:
        twin, engine = measure(f"{method}:twin", options), measure(f"{method}:engine", options)
        s, t = engine["seconds"], twin["seconds"]
        a, b = t["twin"]/t["classifier"], s["engine"]/s["classifier"]
        limit = s.get("folded", s["classifier"])/s["classifier"]
        print(f"{method:12} {a:8.2f} : {b:7.2f} : {limit:7.2f} : 1 {s['engine']:24.2f} {twin['peak_mb']:22.0f} / "
              f"{engine['peak_mb']:.0f}", flush=True)
    print("\none step of a search by ShearletX, in units of the folded classifier's passes on as many images:")
    for classifier in ("efficientnet_lite0", "resnet18"):
        for protocol, told in dict(PAPER="16 images", FIRM="5 images", FAST="3 images").items():
            s = measure(f"step:{protocol}:{classifier}", options)["seconds"]
            ratio = s["step"]/s["folded"]
            print(f"{classifier}, {protocol} ({told}): {ratio:.2f} ({1e3*s['step']:.0f} ms)", flush=True)
    print("\nFAST's step beside a process that never rests, in units of alone; and alone, in units of alone with "
          "threads as they are:")
    usual = None
    for name, environment in {"threads as they are": {}, "GOMP_SPINCOUNT=1000": dict(GOMP_SPINCOUNT="1000"),
                              "OMP_WAIT_POLICY=passive": dict(OMP_WAIT_POLICY="passive"),
                              "one thread": dict(OMP_NUM_THREADS="1")}.items():
        alone, busy = beside_a_neighbour(options, environment)
        usual = usual or alone
        print(f"{name}: {busy/alone:.2f}; {alone/usual:.2f}", flush=True)
    for classifier in ("efficientnet_lite0", "resnet18"):
        s = measure(f"picture:{classifier}", options)["seconds"]
        print(f"\na whole picture at {options.size}×{options.size}, {classifier}, ShearletX with SWIFT, FAST, FIRM; "
              "SmoothMask, TorchRay (800 iterations each):")
        print(", ".join(f"{name} {seconds:.0f} s" for name, seconds in s.items()), flush=True)
        print("in units of SWIFT:", " : ".join(f"{seconds/s['SWIFT']:.2f}" for seconds in s.values()), flush=True)
    one, two = measure("sweep", options)["seconds"].values()
    print(f"\na sweep with two local workers, one thread each: {one/two:.2f} times the pictures per hour of one worker "
          f"({one:.1f} s and {two:.1f} s per picture of 3 steps)")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=["ShearletX", "WaveletX", "PixelMask", "SmoothMask"])
    options = parser.parse_args()
    if options.row: print(json.dumps(run_row(options.row, options)))
    else: report(options)
