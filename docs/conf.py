"Settings of `make site`. The repository itself is the source: README.md is the front page, notebooks are pages."
import sys
from configparser import ConfigParser
from pathlib import Path

here = Path(__file__).parent
sys.path[:0] = [str(here), str(here.parent)]

settings = ConfigParser(delimiters=["="])
settings.read(here.parent/"settings.ini", encoding="utf-8")
project, author = settings["DEFAULT"]["title"], settings["DEFAULT"]["author"]
version = release = settings["DEFAULT"]["version"]
copyright = settings["DEFAULT"]["copyright"]

extensions = ["myst_nb", "sphinx.ext.mathjax", "sphinx-mathjax-offline", "pages", "cells", "links"]
root_doc = "README"
include_patterns = ["*.md", "nbs/*.ipynb", "nbs/experiments/*.ipynb", "docs/*.md", "docs/api/*.md", "runs/*.md"]
exclude_patterns = [".venv", "**/.ipynb_checkpoints"]

nb_execution_mode = "off"               # pages show what was committed
nb_merge_streams = True
nb_ipywidgets_js = {}                   # nothing is fetched from elsewhere
myst_enable_extensions = ["dollarmath", "amsmath", "fieldlist", "attrs_inline"]
myst_dmath_double_inline = True         # $$...$$ inside a paragraph
myst_heading_anchors = 3
myst_links_external_new_tab = True
mathjax3_config = {"options": {"enableMenu": False}}

add_module_names = False
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

html_theme = "sphinx_book_theme"
html_title = project
html_favicon = "static/favicon.svg"
html_context = {"default_mode": "auto"}     # light or dark as the reader's system is
html_static_path = ["static"]
html_css_files, html_js_files = ["site.css"], [("ledger.js", {"defer": "defer"})]
html_show_sourcelink = html_copy_source = False
html_theme_options = {"use_download_button": False, "use_fullscreen_button": False, "use_sidenotes": False,
                      "show_navbar_depth": 1, "show_toc_level": 2, "navigation_with_keys": True,
                      "home_page_in_toc": False, "navbar_persistent": [],
                      "pygments_light_style": "a11y-high-contrast-light",
                      "pygments_dark_style": "a11y-high-contrast-dark"}
