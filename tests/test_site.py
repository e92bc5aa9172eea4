"`make site`: the pages are complete, everything leads somewhere, and a real browser shows what a reader needs."
import re, subprocess, sys
from html import unescape
from pathlib import Path

import pytest
from browser import browser, hosts_asked, needs_browser, served

root = Path(__file__).parents[1]
sys.path.insert(0, str(root/"docs"))
pytest.importorskip("sphinx", reason="the extra `site` is not installed")
KINDS = ["index.html", "CLAIMS.html", "DIFFERENCES.html", "docs/gallery.html", "docs/api/index.html",
         "docs/api/objective.html", "docs/api/reproduce.html", "nbs/index.html", "nbs/21_objective.html",
         "nbs/53_study.html", "nbs/experiments/06_scatter.html", "search.html?q=shearlet"]


@pytest.fixture(scope="module")
def site(tmp_path_factory)->Path:
    "The site, built as `make site` does: a warning, a broken link among them, is an error."
    folder = tmp_path_factory.mktemp("site")
    options = ["-q", "-E", "-W", "-c", "docs", "-d", folder/"doctrees"]
    done = subprocess.run([sys.executable, "-m", "sphinx", *options, ".", folder/"site"], cwd=root, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder/"site"


def page(site:Path, name:str)->str: return (site/name).read_text(encoding="utf-8")
def visible(html:str)->str: return unescape(re.sub(r"<[^>]+>", "", html))


def test_a_broken_link_is_noticed(tmp_path):
    from links import broken_links
    (tmp_path/"a.html").write_text('<p id="here"><a href="#here">1</a><a href="b.html#there">2</a>'
                                   '<a href="c.html">3</a><a href="https://example.org">4</a>'
                                   '<img src="https://example.org/x.png"></p>')
    (tmp_path/"b.html").write_text('<p id="elsewhere"><img src="x.png"></p>')
    assert broken_links(tmp_path) == [
        "a.html links to b.html#there: the page has no such place", "a.html links to c.html, which is not there",
        "a.html loads https://example.org/x.png from another host", "b.html links to x.png, which is not there"]


def test_every_notebook_is_a_page_without_directives(site):
    for path in sorted((root/"nbs").rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts: continue
        name = path.relative_to(root).with_suffix(".html").as_posix()
        assert "#| " not in visible(page(site, name)), name


def test_names_lead_to_their_definitions(site):
    "In prose, in code, by a method, by a notebook's name; a common word only where the page means it."
    html = page(site, "nbs/22_optimise.html")
    assert 'id="def-optimise_mask"' in html
    assert re.search(r'<a class="name" href="21_objective.html#def-Objective"><span class="n">Objective</span>', html)
    assert re.search(r'<a class="name" href="../docs/api/optimise.html#shearletx_nb.optimise.optimise_mask">'
                     r'<span class="nf">optimise_mask</span>', html)
    from cells import target
    assert target("optimise_mask(T, model, x)", "README") == ("nbs/22_optimise", "def-optimise_mask")
    assert target("analyse", "nbs/10_representation") == ("nbs/10_representation", "def-Representation")
    assert target("experiments/06_scatter", "README") == ("nbs/experiments/06_scatter", "")
    assert target("shearletx explain photo.jpg", "README") == ("nbs/56_commands", "")
    assert target("study", "nbs/01_images") is None and target("study(grid, scores)", "README")[1] == "def-study"
    assert target("x.shape", "nbs/01_images") is None and target("steps=", "nbs/21_objective") is None


def test_the_reference_has_signatures_and_comments(site):
    html = visible(page(site, "docs/api/metrics.html"))
    assert re.search(r"cp_entropy\(.*?\)", html, re.DOTALL) and "Source and tests" in html
    html = visible(page(site, "docs/api/objective.html"))
    assert "share of the samples that are shown without noise" in html          # of a field of Protocol
    assert "max_samples_per_pass: int = 8" in re.sub(r"\s+", " ", html)


def test_experiments_are_shown_as_they_were_run(site):
    html = visible(page(site, "nbs/experiments/06_scatter.html"))
    assert "This page shows the run that is kept in figures/06_scatter" in html and "# Parameters" in html


def test_ledger_and_gallery_are_complete(site):
    from shearletx_nb.claims import ledger
    book, html = ledger(root/"figures"), page(site, "CLAIMS.html")
    assert html.count('class="claim"') == book.id.nunique() and html.count('class="finding"') == len(book)
    pictures = {p.name for p in (root/"figures").glob("*/*.png")}
    shown = page(site, "docs/gallery.html")
    assert all(name in shown for name in pictures)
    assert shown.count("<figure") == len([*(root/"figures").glob("*/*.png")])


@needs_browser
def test_in_a_browser(site):
    "Every kind of page: no other host, no sideways scrolling on a phone, mathematics, light and dark."
    with served(site) as address:
        for width, dark in ((1300, False), (400, True)):
            with browser(width, dark=dark) as driver:
                formulas = 0
                for name in KINDS:
                    driver.get(f"{address}/{name}")
                    driver.execute_async_script("const done = arguments[0], m = window.MathJax?.startup?.promise; "
                                                "(m || Promise.resolve()).then(() => done())")
                    shown = driver.execute_script("return document.documentElement.scrollWidth")
                    assert shown <= width, f"{name} is {shown} pixels wide where {width} are there"
                    assert not driver.find_elements("css selector", "mjx-merror"), name
                    formulas += len(driver.find_elements("css selector", "mjx-container"))
                    theme = driver.execute_script("return document.documentElement.dataset.theme")
                    assert theme == ("dark" if dark else "light")
                assert formulas > 30
                assert hosts_asked(driver) == {address.split("//")[1]}


@needs_browser
def test_search_finds_a_word(site):
    from selenium.webdriver.support.ui import WebDriverWait
    with served(site) as address, browser() as driver:
        driver.get(f"{address}/search.html?q=hallucination")
        WebDriverWait(driver, 30).until(lambda d: "found" in d.find_element("css selector", "#search-results").text)
        links = driver.find_elements("css selector", "ul.search li a")
        found = {a.get_attribute("href").split(address+"/")[1].split("?")[0].split("#")[0] for a in links}
        assert {"nbs/42_metrics.html", "CLAIMS.html"} <= found


@needs_browser
def test_the_ledger_filters(site):
    from selenium.webdriver.support.ui import Select
    from shearletx_nb.claims import ledger
    book = ledger(root/"figures")
    with served(site) as address, browser() as driver:
        def shown(): return len([a for a in driver.find_elements("css selector", ".claim") if a.is_displayed()])
        driver.get(f"{address}/CLAIMS.html")
        assert shown() == book.id.nunique()
        for verdict in ("holds", "undecided", "not tested"):
            driver.find_element("css selector", f"[value='{verdict}']").click()
        refuted = book[book.verdict == "does not hold"]
        assert shown() == refuted.id.nunique()
        part = refuted.part.iloc[0]
        Select(driver.find_element("name", "part")).select_by_value(part)
        assert shown() == refuted[refuted.part == part].id.nunique()
        assert "does+not+hold" in driver.current_url
        driver.get(driver.current_url)                                          # the address keeps the selection
        assert shown() == refuted[refuted.part == part].id.nunique()
        driver.find_element("name", "words").send_keys("no such words anywhere")
        assert shown() == 0
