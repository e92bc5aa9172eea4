"The README's names, and its commands for experiments, run as a reader would run them."
import ast, os, re, shlex, subprocess, sys
from pathlib import Path

import nbformat, torchvision

from shearletx_nb import all as everything
from shearletx_nb.images import sample_images

root = Path(__file__).parents[1]


def test_papermill_with_other_parameters(tmp_path):
    "Another classifier, another number of pictures, another folder."
    line, = re.findall(r"^papermill nbs/experiments/.*$", (root/"README.md").read_text(encoding="utf-8"), re.MULTILINE)
    (tmp_path/"my_pictures").mkdir()
    for name, x in zip("abc", sample_images(192, 3).images):
        torchvision.utils.save_image(x, tmp_path/"my_pictures"/f"{name}.png")
    program, notebook, *arguments = shlex.split(line)
    subprocess.run([Path(sys.executable).parent/program, root/notebook, *arguments, "--no-progress-bar"], cwd=tmp_path,
                   check=True, capture_output=True, env={**os.environ, "CI": "true"})
    outputs = "\n".join(o.get("text", "") + o.get("data", {}).get("text/plain", "")
                        for c in nbformat.read(tmp_path/"out.ipynb", 4).cells for o in c.get("outputs", []))
    assert "2 photographs: a.png, b.png" in outputs or "2 photographs: b.png, a.png" in outputs
    assert re.search(r"mobilenet_v2 +ShearletX +2\b", outputs)
    assert "efficientnet" not in outputs and "c.png" not in outputs


def names(source:str)->set[str]:
    "What a piece of code uses and does not make."
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    return {n.id for n in found if isinstance(n.ctx, ast.Load)} - {n.id for n in found if isinstance(n.ctx, ast.Store)}


def test_one_import_is_enough():
    "What the README's code uses, and the classes, protocols and functions that it speaks of, are in shearletx_nb.all."
    text, chosen = (root/"README.md").read_text(encoding="utf-8"), {*everything.__all__}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks and not set().union(*map(names, blocks)) - chosen
    ours = {name.removeprefix(f"{module}.") for module, own in everything.d["syms"].items() for name in own}
    protocols = {"PAPER", "AUTHORS_CODE", "SOUND", "FAST", "FIRM", "SWIFT"}
    spoken = {*re.findall(r"`([A-Z]\w+|\w+(?=\())", text)} & (ours | protocols)
    assert len(spoken) > 10 and not spoken - chosen


def test_an_experiment_prints_nothing_of_its_own(tmp_path):
    "Kernels that experiments run in do not warn of themselves between the lines of progress; results go to results/."
    cells = [nbformat.v4.new_code_cell("out = None\nprofile = 'smoke'", metadata=dict(tags=["parameters"])),
             nbformat.v4.new_code_cell("from pathlib import Path\nPath(out, 'rows.csv').write_text('1')\n"
                                       "Path(out, 'tasks').mkdir()")]
    folder = tmp_path/"nbs/experiments"
    (folder/"profiles").mkdir(parents=True)
    (folder/"profiles/smoke.yaml").write_text("")
    kernel = dict(kernelspec=dict(name="python3", display_name="Python 3", language="python"))
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder/"01_counts.ipynb")
    done = subprocess.run([Path(sys.executable).parent/"shearletx", "reproduce", "01", "--profile", "smoke"],
                          cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "CI": "true"})
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    written = ["results/01_counts/01_counts.ipynb", "results/01_counts/rows.csv"]
    assert done.stdout.split() == ["wrote", *written]
