"Pages that are made, not written: the reference, the ledger of claims, the gallery, experiments as they were run."
import ast, importlib, inspect, json, textwrap
from html import escape
from pathlib import Path

import nbformat
from fastcore.docments import docments

from shearletx_nb._modidx import d as modules
from shearletx_nb.claims import ITEMS, OURS, VERDICTS, ledger, tally, time_text

root = Path(__file__).parents[1]

GROUPS = {"": ["Five minutes <nbs/index>"],
          "The paper, tested": ["CLAIMS", "docs/gallery", "Text and script <DIFFERENCES>", "runs/README", "ARTEFACT"],
          "Experiments": ["nbs/experiments/*"], "Pictures and classifiers": ["nbs/0*"], "Representations": ["nbs/1*"],
          "Masks": ["nbs/2*"], "Explanations": ["nbs/3*"], "Measures": ["nbs/4*"], "Studies": ["nbs/5*"],
          "In use": ["nbs/6*", "nbs/9*"], "Reference": ["Names <docs/api/index>", "CHANGELOG"]}


def listed(pattern:str)->list[str]:
    "Entries of the table of contents; a notebook of the package with its number, by which prose calls it."
    if "*" not in pattern: return [pattern]
    found = []
    for path in sorted(root.glob(f"{pattern}.ipynb")):
        title = nbformat.read(path, 4).cells[0].source.split("\n")[0].strip("# ")
        number = "" if title[0].isdigit() else f"{path.name[:2]} · "
        found.append(f"{number}{title} <{path.relative_to(root).with_suffix('').as_posix()}>")
    return found


def contents()->str:
    "The table of contents, which the front page carries unseen."
    text = ""
    for caption, patterns in GROUPS.items():
        entries = [e for p in patterns for e in listed(p)]
        named = [f":caption: {caption}"] if caption else []
        text += "\n".join(["", "```{toctree}", ":hidden:", *named, "", *entries, "```", ""])
    return text


def as_run(source:str, name:str)->str:
    "An experiment's notebook as it was run for figures/, with a line that says how; as it stands where none was."
    folder = root/"figures"/name
    if not (folder/f"{name}.ipynb").is_file(): return source
    run = nbformat.read(folder/f"{name}.ipynb", 4)
    notebook, manifest = nbformat.reads(source, 4), json.loads((folder/"manifest.json").read_text(encoding="utf-8"))
    ours = [c.source for c in notebook.cells if c.cell_type == "code"]
    same = {*ours} <= {c.source for c in run.cells if c.cell_type == "code"}
    profile, commit = manifest["parameters"]["profile"], manifest["environment"]["commit"][:12]
    said = (f"> This page shows the run that is kept in `figures/{name}`: profile `{profile}`, {time_text(folder)}, "
            f"commit `{commit}`; the cell after the parameters lists what it set.")
    if not same: said += " The notebook's code has changed since."
    run.cells.insert(1, nbformat.v4.new_markdown_cell(said))
    return nbformat.writes(run)


# ---- the reference -------------------------------------------------------------------------------------------------

def plain(text:str|None)->str:
    "A comment as Markdown: what would be taken for emphasis, a link or a tag is not."
    pieces = (text or "").replace("\n", " ").split("`")
    pieces[::2] = [s.translate({ord(c): "\\"+c for c in "*_[]<>|"}) for s in pieces[::2]]
    return "`".join(pieces)


def signature(function)->str:
    "Parameters and result as the source writes them."
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    first = (node.args.posonlyargs + node.args.args)[:1]
    if first and first[0].arg in ("self", "cls"): (node.args.posonlyargs or node.args.args).pop(0)
    return f"({ast.unparse(node.args)})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def class_signature(kind:type)->str:
    "How an object is made: by its own __init__, by the fields of a dataclass or tuple, or as its parent's."
    if "__init__" in vars(kind) and not hasattr(kind, "__dataclass_fields__"): return signature(kind.__init__)
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body
    fields = [n for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    if hasattr(kind, "__dataclass_fields__") or issubclass(kind, tuple):
        return f"({', '.join(map(ast.unparse, fields))})"
    return next((signature(k.__init__) for k in kind.__mro__ if inspect.isfunction(vars(k).get("__init__"))), "()")


def fields(thing)->list[str]:
    "One line per parameter that has a comment."
    try: notes = docments(thing, full=True)
    except (TypeError, OSError, SyntaxError, AttributeError): return []
    lines = [f":param {name}: {plain(note.docment)}" for name, note in notes.items()
             if note.docment and name not in ("return", "self", "cls")]
    result = notes.get("return")
    return lines + ([f":returns: {plain(result.docment)}"] if result is not None and result.docment else [])


def block(kind:str, head:str, lines:list[str], fence:str)->str:
    "A directive of Sphinx's Python domain."
    return "\n".join([f"{fence}{{py:{kind}}} {head}", "", *lines, "", fence, ""])


def member(name:str, thing, fence:str="````")->str:
    "A method or property of a class."
    if isinstance(thing, property): return block("property", name, [plain(thing.__doc__)], fence)
    static = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing
    return block("method", name+signature(static), [plain(static.__doc__), "", *fields(static)], fence)


def documented(kind:type)->dict:
    "The public members that a class defines and describes."
    return {name: thing for name, thing in vars(kind).items()
            if (not name.startswith("_") or name == "__call__") and getattr(thing, "__doc__", None)
            and isinstance(thing, property | staticmethod | classmethod | type(documented))}


def entry(name:str, thing, notebook:str)->str:
    "What the reference says of one name."
    source = f"Source and tests: `{name}` in `{notebook}`."
    if inspect.isclass(thing):
        lines = [plain(thing.__doc__), "", *fields(thing), "", source, ""]
        lines += [member(n, t) for n, t in documented(thing).items()]
        return block("class", name+class_signature(thing), lines, "`````")
    if inspect.isfunction(thing):
        return block("function", name+signature(thing), [plain(thing.__doc__), "", *fields(thing), "", source], "````")
    value = [f":value: {thing!r}"] if len(repr(thing)) < 100 and "\n" not in repr(thing) else []
    return block("data", name, [*value, "", source], "````")


def in_order(module)->list[str]:
    "The names of a module as its notebook introduces them."
    names = [n for node in ast.parse(inspect.getsource(module)).body for n in
             ([node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else
              [t.id for t in ast.walk(node) if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)])]
    return [n for n in dict.fromkeys(names) if n in module.__all__]


def module_page(module:str)->str:
    "The reference of one module."
    package = importlib.import_module(module)
    intro = f"# {module}\n\n{' '.join((package.__doc__ or '').split())}\n\n```{{py:module}} {module}\n```\n\n"
    return intro + "\n".join(entry(name, getattr(package, name), notebook_of(module)) for name in in_order(package))


def notebook_of(module:str)->str:
    "The notebook that exports a module."
    short = module.split(".", 1)[1]
    return next(p.stem for p in sorted((root/"nbs").glob("[0-9]*.ipynb")) if p.stem[3:] == short)


def reference_pages()->dict[str, str]: # file name -> Markdown
    "The reference: one page per module, and one with the names of shearletx_nb.all."
    order = sorted((m for m in modules["syms"] if m != "shearletx_nb.all"), key=notebook_of)
    chosen = importlib.import_module("shearletx_nb.all").__all__
    pages = {module.split(".")[1]: module_page(module) for module in order}
    lines = ["# Reference", "", "What `from shearletx_nb.all import *` gives, by the notebook that defines it. "
             "A module's page has everything that it exports.", "",
             "| module | exports | in `shearletx_nb.all` |", "|---|---|---|"]
    for module in order:
        names = in_order(importlib.import_module(module))
        links = [f"{{py:obj}}`~{module}.{n}`" for n in names if n in chosen]
        lines.append(f"| [{notebook_of(module)}]({module.split('.')[1]}.md) | {len(names)} names | {' '.join(links)} |")
    pages["index"] = "\n".join([*lines, "", "```{toctree}", ":hidden:", *(f"{name} <{name}>" for name in pages), "```"])
    return pages


# ---- the ledger of claims ------------------------------------------------------------------------------------------

def chip(verdict:str)->str: return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def choices(name:str, values:list[str])->str:
    "A drop-down list."
    options = "".join(f'<option value="{escape(v)}">{escape(v or "none")}</option>' for v in values)
    return f'<label>{name} <select name="{name}"><option value="*">all</option>{options}</select></label>'


def finding(f)->str:
    "One finding of a sentence."
    facts = [escape(f.number), f"n = {f.n}" if f.n else "", escape(f.protocol), escape(f.classifier)]
    link = f'<a href="nbs/experiments/{f.experiment}.html">{f.experiment}</a>' if f.experiment else ""
    rule = f'<span class="criterion">{escape(f.criterion)}</span>' if f.criterion else ""
    more = escape(f.detail)
    if f.criterion and f.detail: more = f"<details><summary>details</summary>{more}</details>"
    return (f'<div class="finding" data-verdict="{f.verdict}" data-protocol="{escape(f.protocol)}" '
            f'data-classifier="{escape(f.classifier)}">{chip(f.verdict)}<div>{rule}'
            f'<span class="facts">{" · ".join(x for x in (*facts, link) if x)}</span>{more}</div></div>')


def ledger_page(figures:Path=root/"figures")->str:
    "The ledger of claims with filters; without JavaScript everything is shown."
    book = ledger(figures)
    paper = book[book.part != OURS]
    boxes = [f'<label>{chip(v)}<input type="checkbox" name="verdict" value="{v}" checked></label>' for v in VERDICTS]
    lists = [choices(column, values) for column, values in (("part", [*book.part.unique()]),
             ("protocol", sorted(book.protocol.unique())), ("classifier", sorted(book.classifier.unique())))]
    rows = []
    for _, own in book.groupby("id", sort=False):
        first = own.iloc[0]
        text = escape(first.sentence) if first.part == OURS else f"“{escape(first.sentence)}”"
        rows.append(f'<article class="claim" id="{first.id}" data-part="{escape(first.part)}"><p><a class="where" '
                    f'href="#{first.id}">{escape(first["where"])}</a> {text}</p>'
                    + "".join(map(finding, own.itertuples())) + "</article>")
    form = (f'<form id="ledger-filters"><fieldset>{"".join(boxes)}</fieldset>{"".join(lists)}'
            '<label>words <input type="search" name="words" placeholder="edges, CP, Fig. 4"></label>'
            f'<output>{book.id.nunique()} sentences</output></form>')
    intro = (f"{paper.id.nunique()} sentences of the paper that could be tested, and what the experiments say of "
             f"them: {tally(paper)} (*mixed*: the verdicts of several classifiers differ). Each has our reading of it "
             "as a rule, one number, the pictures behind it (n), protocol and classifier. A verdict that is not of "
             "`PAPER` at full work is a verdict on what the line names, not on the paper's method as published.")
    body = ["```{raw} html", form, '<div id="ledger">', *rows, "</div>", "```"]
    return "\n".join(["# Claims", "", intro, "", *body, ""])


# ---- the gallery ---------------------------------------------------------------------------------------------------

def gallery_page(source:str, figures:Path=root/"figures")->str:
    "The figures of all experiments, each with its name, verdicts and files."
    book, lines = ledger(figures), [source, ""]
    for folder in sorted(p for p in figures.iterdir() if p.is_dir()):
        name, own = folder.name, book[book.experiment == folder.name]
        verdicts = f"{tally(own)}. " if len(own) else ""
        lines += [f"## {ITEMS.get(name, name)}", "", f"[{name}](../nbs/experiments/{name}.ipynb). {verdicts}", ""]
        for picture in sorted(folder.glob("*.png"), key=lambda p: (not p.stem.startswith("figure"), p.stem)):
            pdf = picture.with_suffix(".pdf")
            also = f"; [PDF](../figures/{name}/{pdf.name})" if pdf.is_file() else ""
            lines += [f"```{{figure}} ../figures/{name}/{picture.name}", ":width: 100%",
                      f":alt: {ITEMS.get(name, name)}, {picture.stem}", f"{name}/{picture.name}{also}", "```", ""]
    return "\n".join(lines)


# ---- where Sphinx asks ---------------------------------------------------------------------------------------------

def write_reference(app)->None:
    "The reference's pages, as files: Sphinx looks for files."
    folder = Path(app.srcdir)/"docs/api"
    folder.mkdir(exist_ok=True)
    pages = reference_pages()
    for old in folder.glob("*.md"):
        if old.stem not in pages: old.unlink()
    for name, text in pages.items():
        file = folder/f"{name}.md"
        if not file.is_file() or file.read_text(encoding="utf-8") != text: file.write_text(text, encoding="utf-8")


def change_source(app, docname:str, source:list[str])->None:
    "Sphinx has read a page."
    if docname == app.config.root_doc: source[0] += contents()
    elif docname == "CLAIMS": source[0] = ledger_page()
    elif docname == "docs/gallery": source[0] = gallery_page(source[0])
    elif docname.startswith("nbs/experiments/"): source[0] = as_run(source[0], Path(docname).name)


def setup(app)->dict:
    app.connect("builder-inited", write_reference)
    app.connect("source-read", change_source)
    return {"parallel_read_safe": True}
