"Notebooks as pages: nbdev's directives become marks, and every name becomes a link to the cell that defines it."
import ast, re
from functools import cache
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

root = Path(__file__).parents[1]
COMMANDS = "nbs/56_commands"                        # where the command line is described
TUTORIAL = "nbs/index"                              # which shows its imports
KNOWN_AS = {"why": "Explanation"}                   # what prose calls an object


def defined_in(code:str)->list[str]:
    "The names that a cell defines."
    try: body = ast.parse(code).body
    except SyntaxError: return []
    found = [n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    targets = [t for n in body if isinstance(n, ast.Assign) for t in n.targets]
    return found + [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]


def methods_in(code:str)->dict[str, str]: # method -> class
    "The public methods of the classes that a cell defines."
    try: classes = [n for n in ast.parse(code).body if isinstance(n, ast.ClassDef)]
    except SyntaxError: return {}
    return {m.name: c.name for c in classes for m in c.body if isinstance(m, ast.FunctionDef) and m.name[0] != "_"}


def imported_in(code:str)->set[str]:
    "The names that a cell imports from this package."
    try: nodes_ = ast.walk(ast.parse(code))
    except SyntaxError: return set()
    own = [n for n in nodes_ if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("shearletx_nb")]
    return {a.asname or a.name for n in own for a in n.names}


def set_up(code:str)->str:
    "What a cell that begins with imports is called when it is folded; empty for others."
    try: body = ast.parse(code).body
    except SyntaxError: return ""
    imports = [isinstance(n, ast.Import | ast.ImportFrom) for n in body]
    return "" if not imports[0] or sum(imports) < 2 else "imports" if all(imports) else "imports and settings"


def cells_of(path:Path)->list[str]: return [c.source for c in nbformat.read(path, 4).cells if c.cell_type == "code"]


@cache
def definitions()->dict[str, tuple[str, str]]: # name -> page and module
    "Where every exported name is defined; of two, the higher notebook's own pages find theirs by `here`."
    found = {}
    for path in sorted((root/"nbs").glob("[0-9]*.ipynb"), reverse=True):
        for code in cells_of(path):
            if code.startswith("#| export"):
                found |= {name: (f"nbs/{path.stem}", f"shearletx_nb.{path.stem[3:]}") for name in defined_in(code)}
    return found


@cache
def here(docname:str)->dict[str, str]: # name -> page that defines it
    "The names that a page defines or imports, which even a common word refers to."
    path = root/f"{docname}.ipynb"
    if not path.is_file(): return {}
    codes = cells_of(path)
    own = {name for code in codes if code.startswith("#| export") for name in defined_in(code)}
    used = set().union(*map(imported_in, codes))
    return {n: definitions()[n][0] for n in used if n in definitions()} | dict.fromkeys(own, docname)


@cache
def methods(docname:str)->dict[str, str]: # method -> class
    "The methods of the classes that a page defines, which its prose calls by their own names."
    path, found = root/f"{docname}.ipynb", {}
    if not path.is_file(): return found
    for code in reversed(cells_of(path)): found |= methods_in(code) if code.startswith("#| export") else {}
    return found


@cache
def notebooks()->dict[str, str]: # "13_shearlet", "experiments/06_scatter" -> page
    "Pages by the name that prose gives them."
    paths = [p.relative_to(root).with_suffix("").as_posix() for p in (root/"nbs").rglob("[0-9]*.ipynb")
             if ".ipynb_checkpoints" not in p.parts]
    written = {f"{name}.md": name for name in ("CLAIMS", "DIFFERENCES", "CHANGELOG", "ARTEFACT")}
    return {p.removeprefix("nbs/"): p for p in paths} | {Path(p).name: p for p in sorted(paths)} | written


def unmistakable(name:str)->bool: return "_" in name.strip("_") or name != name.lower()


def target(text:str, docname:str)->tuple[str, str]|None: # page and id
    "What an inline piece of code refers to."
    if text in notebooks(): return notebooks()[text], ""
    if re.fullmatch(r"shearletx( [a-z]+\b.*)?", text, re.DOTALL): return COMMANDS, ""
    found = re.match(r"(?:shearletx_nb\.)?([A-Za-z_]\w*)((?:\.\w+)*)(?=\(|$)", text)
    if not found: return None
    name, called = KNOWN_AS.get(found[1], found[1]), text[found.end():].startswith("(")
    if text.startswith("shearletx_nb.") and name not in definitions():
        page = next((p for p in notebooks().values() if p == f"nbs/{Path(p).name[:3]}{name}"), None)
        name = found[2].strip(".")
        if page and not name: return page, ""
    if name in here(docname): return here(docname)[name], f"def-{name}"
    if name in methods(docname) and not found[2]: return docname, f"def-{methods(docname)[name]}"
    if name in definitions() and (called or unmistakable(name)): return definitions()[name][0], f"def-{name}"
    return None


# ---- code cells ----------------------------------------------------------------------------------------------------

def mark_cells(app, doctree:nodes.document)->None:
    "Take nbdev's directives out of the code; give cells that define something an address and a mark."
    docname, known = app.env.docname, set()
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") != "cell_code": continue
        block = next(iter(cell.findall(nodes.literal_block)), None)
        if block is None: continue
        lines = block.astext().split("\n")
        code = "\n".join(line for line in lines if not line.startswith("#|")).strip("\n")
        if not code: cell.parent.remove(cell); continue
        if "parameters" in cell["cell_metadata"].get("tags", []): cell["classes"].append("parameters")
        if "injected-parameters" in cell["cell_metadata"].get("tags", []): cell["classes"].append("injected")
        if (words := set_up(code)) and docname != TUTORIAL:
            cell.attributes.update(hide_mode="input", prompt_show=words, prompt_hide=words)
        block.rawsource, block[:] = code, [nodes.Text(code)]
        if not lines[0].startswith("#| export"): continue
        cell["classes"].append("exported")
        for name in defined_in(code):
            if name not in known: cell["ids"].append(f"def-{name}")
            known.add(name)


def skipped(node:nodes.Node)->bool:
    "Whether a node is where no link belongs."
    return any(isinstance(p, nodes.reference | nodes.title | nodes.literal_block | nodes.raw) for p in ancestors(node))


def ancestors(node:nodes.Node):
    while (node := node.parent) is not None: yield node


PAGE = re.compile(r"(?<![\w/.])((?:nbs/)?(?:experiments/)?\d\d_[a-z][a-z_]*|[A-Z]+\.md)(?![\w/.]\w)")


class LinkNames(SphinxPostTransform):
    "Turn inline code that names something, and names of notebooks in plain text, into links."
    default_priority = 200
    formats = ("html",)

    def reference(self, page:str, id:str, child:nodes.Node)->nodes.Node:
        return make_refnode(self.app.builder, self.env.docname, page, id, [child])

    def run(self)->None:
        for literal in list(self.document.findall(nodes.literal)):
            aim = target(literal.astext(), self.env.docname)
            if aim is None or aim == (self.env.docname, "") or skipped(literal): continue
            literal.replace_self(self.reference(*aim, literal.deepcopy()))
        for text in list(self.document.findall(nodes.Text)):
            if isinstance(text.parent, nodes.literal) or skipped(text): continue
            pieces = PAGE.split(text.astext())
            pages = [notebooks().get(p.removeprefix("nbs/")) for p in pieces]
            if any(p and p != self.env.docname for p in pages): self.split(text, pieces, pages)

    def split(self, text:nodes.Text, pieces:list[str], pages:list[str|None])->None:
        "Put links between the pieces of a text."
        new = [self.reference(page, "", nodes.Text(piece)) if page and page != self.env.docname else nodes.Text(piece)
               for piece, page in zip(pieces, pages) if piece]
        text.parent.replace(text, new)


CODE = re.compile(r'<div class="highlight">.*?</div>', re.DOTALL)
TOKEN = re.compile(r'(?<!<span class="o">\.</span>)<span class="(n|nf|nc|nb)">(\w+)</span>(?!<span class="o">=</span>)')


def link_code(app, pagename:str, template:str, context:dict, doctree)->None:
    "In highlighted code, a use of a name leads to its definition, and a definition to the reference."
    names = here(pagename)
    if not names or "body" not in context: return
    def linked(token:re.Match)->str:
        kind, name = token.groups()
        if name not in names: return token[0]
        if kind in ("nf", "nc"):
            module = definitions()[name][1]
            if name.startswith("_") or names[name] != pagename: return token[0]
            goal = app.builder.get_relative_uri(pagename, f"docs/api/{module.split('.')[1]}")+f"#{module}.{name}"
        else: goal = app.builder.get_relative_uri(pagename, names[name])+f"#def-{name}"
        return f'<a class="name" href="{goal}">{token[0]}</a>'
    context["body"] = CODE.sub(lambda block: TOKEN.sub(linked, block[0]), context["body"])


def setup(app)->dict:
    app.connect("doctree-read", mark_cells)
    app.connect("html-page-context", link_code)
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True}
