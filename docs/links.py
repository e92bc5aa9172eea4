"The last step of a build: every link leads somewhere, and no page asks another host for anything."
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util import logging

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}


class Page(HTMLParser):
    "The places inside a page, its links, and what a browser loads with it."
    def __init__(self, text:str):
        super().__init__()
        self.places, self.links, self.loaded = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag:str, attributes:list)->None:
        given = dict(attributes)
        self.places |= {given[k] for k in ("id", "name") if given.get(k)}
        if tag == "a" and given.get("href"): self.links.add(given["href"])
        if given.get(LOADED.get(tag)): self.loaded.add(given[LOADED[tag]])


def broken_links(site:Path)->list[str]:
    "What is wrong with the links of a site, one line each."
    files = [p for p in sorted(site.resolve().rglob("*.html")) if "_static" not in p.parts]
    pages, wrong = {p: Page(p.read_text(encoding="utf-8")) for p in files}, []
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        for address in sorted(page.links | page.loaded):
            parts = urlsplit(address)
            if parts.netloc and address in page.loaded: wrong.append(f"{name} loads {address} from another host")
            if parts.scheme or parts.netloc: continue
            goal = (file.parent/unquote(parts.path)).resolve() if parts.path else file
            if not goal.is_file(): wrong.append(f"{name} links to {address}, which is not there")
            elif parts.fragment and goal in pages and unquote(parts.fragment) not in pages[goal].places:
                wrong.append(f"{name} links to {address}: the page has no such place")
    return wrong


def finish(app, error)->None:
    "The front page under the name that a browser looks for, then the check."
    if error is not None or app.builder.name != "html": return
    site = Path(app.outdir)
    shutil.copy(site/f"{app.config.root_doc}.html", site/"index.html")
    for line in broken_links(site): logging.getLogger(__name__).warning(line)


def setup(app)->dict:
    app.connect("build-finished", finish, priority=900)     # after everything was copied
    return {"parallel_read_safe": True}
