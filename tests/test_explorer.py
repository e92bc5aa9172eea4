"The explorer as somebody uses it: `shearletx explore` in a shell, a real browser before it."
import contextlib, re, signal, socket, subprocess, sys, time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil, pytest
from browser import browser, hosts_asked, needs_browser
from PIL import Image

from shearletx_nb.images import sample_images

pytest.importorskip("voila", reason="the extra `explore` is not installed")
pytestmark = needs_browser


def until(what, seconds:float=90):
    "Wait for something to be true, and give it back."
    end = time.monotonic()+seconds
    while not (found := what()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(.1)
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    "The command, its folder and the address that it printed."
    folder = tmp_path_factory.mktemp("explore")
    command = [Path(sys.executable).parent/"shearletx", "explore", "--size", "96", "--no-browser"]
    with open(folder/"log", "w") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        address = until(lambda: re.search(r"http://\S+", (folder/"log").read_text()))[0]
        yield server, folder, address
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


class Page:
    "What a reader sees and clicks."
    def __init__(self, driver, address:str):
        self.driver = driver
        driver.get(address)
        until(lambda: self.all(".sx-page button"))

    def all(self, css:str)->list: return self.driver.find_elements("css selector", css)
    def text(self)->str: return self.driver.find_element("css selector", ".sx-page").text
    def button(self, words:str): return next(b for b in self.all("button") if b.text == words)
    def field(self, words:str):
        row = next(r for r in self.all(".widget-inline-hbox") if r.text.split("\n")[0] == words)
        return row.find_element("css selector", "input, select")
    def fill(self, words:str, value:str)->None:
        self.driver.execute_script("const [field, value] = arguments; field.value = value;"
                                   "field.dispatchEvent(new Event('input'));"
                                   "field.dispatchEvent(new Event('change', {bubbles: true}))",
                                   self.field(words), value)
    def send(self, path:Path)->None:
        "Choose a file; the widget's own input is not on the page, where the dialogue of the system would open."
        self.driver.execute_script("HTMLInputElement.prototype.click = function() {"
                                   "document.getElementById('chosen')?.remove();"
                                   "this.id = 'chosen'; document.body.append(this)}")
        next(b for b in self.all("button") if b.text.startswith("or one of yours")).click()
        self.driver.find_element("id", "chosen").send_keys(str(path))
    def probability(self)->str: return re.search(r"on its mean grey: p \d\.\d\d → (\d\.\d\d)", self.text())[1]


def kernels(server)->set[int]:
    "The kernels of a server, as processes."
    found = set()
    for process in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):                                      # it has just ended
            if "ipykernel_launcher" in process.cmdline(): found.add(process.pid)
    return found


def photograph(folder:Path, name:str)->Path:
    "A photograph's file."
    array = (sample_images(256, 14).images[13].movedim(0, -1)*255).byte().numpy()
    Image.fromarray(array).save(folder/name)
    return folder/name


def test_upload_explain_stop_switch_save(served):
    "The whole of it, once; and no other host is asked for anything."
    server, folder, address = served
    with browser(1300, 1100) as driver:
        page = Page(driver, address)
        assert "cannon, p 0." in page.text()
        page.send(photograph(folder, "mine.png"))
        until(lambda: page.field("photograph").get_attribute("value") == "mine.png")
        page.fill("steps", "2000")
        page.button("explain").click()
        until(lambda: re.search(r"step 1\d", page.text()))                   # ten steps were seen
        assert not page.button("explain").is_enabled()                      # what could change under the run waits
        page.button("stop").click()
        steps = int(until(lambda: re.search(r"stopped after (\d+) steps", page.text()))[1])
        assert 10 <= steps < 2000 and len(until(lambda: page.all(".sx-band"))) == 49
        until(lambda: "control: at random\np" in page.text())
        before = page.probability()
        page.all(".sx-band")[5].click()
        until(lambda: "bands off: 1\n" in page.text())
        for words in ("scale 1", "scale 2", "scale 3", "scale 4 (finest)"): page.button(words).click()
        until(lambda: "bands off: 48" in page.text())                        # all but the smooth part
        assert page.probability() != before
        page.button("all on").click()
        until(lambda: "bands off" not in page.text() and page.probability() == before)
        page.button("save").click()
        until(lambda: "saved" in page.text())
        kept = sorted(p.name for p in (folder/"explanations").iterdir())
        assert kept == ["mine_shearletx_1.npz", "mine_shearletx_1.png"]
        assert hosts_asked(driver) == {address.split("/")[2]}
        page.fill("or", "king penguin")
        until(lambda: page.field("class").text.startswith("king penguin"))
        driver.save_screenshot(str(folder/"page.png"))
        assert Image.open(folder/"page.png").convert("L").getextrema() == (0, 255)


@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
def test_colours_follow_the_browser(served, dark):
    "Dark words on a light page, or light ones on a dark page; and every list shows its first choice."
    server, folder, address = served
    with browser(dark=dark) as driver:
        page = Page(driver, address)
        def lightness(css:str, what:str)->float:
            colour = page.all(css)[0].value_of_css_property(what)
            return sum(map(float, re.findall(r"[\d.]+", colour)[:3]))/3
        words = [lightness(css, "color") for css in (".sx-caption", ".sx-page label", ".sx-page select",
                                                     ".sx-page button:not(.mod-primary)")]
        driver.save_screenshot(str(folder/"colours.png"))
        ground = Image.open(folder/"colours.png").convert("L").getpixel((1290, 990))
        field = lightness(".sx-page select", "background-color")
        if dark: assert max(ground, field) < 60 and min(words) > 180
        else: assert min(ground, field) > 230 and max(words) < 80
        assert all(e.get_property("selectedIndex") >= 0 for e in page.all(".sx-page select"))


def test_bad_uploads_are_refused_in_a_sentence(served):
    "A text, a picture of 100 megapixels; one of 50 is taken."
    server, folder, address = served
    (folder/"notes.jpg").write_text("no photograph")
    Image.new("L", (10_000, 10_000)).save(folder/"huge.png")
    Image.effect_noise((8660, 5774), 60).save(folder/"big.jpg", quality=90)          # 50 megapixels
    assert (folder/"big.jpg").stat().st_size > 12_000_000                            # tornado alone would take 10 MB
    with browser(400, 900) as driver:
        page = Page(driver, address)
        page.send(folder/"notes.jpg")
        until(lambda: "not a picture: notes.jpg is in no format" in page.text())
        page.send(folder/"huge.png")
        until(lambda: "huge.png has 100 megapixels" in page.text())
        page.send(folder/"big.jpg")
        until(lambda: page.field("photograph").get_attribute("value") == "big.jpg")
        page.fill("or", "pengiun")
        until(lambda: "near are king penguin" in page.text())
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 400


def test_two_tabs_and_a_closed_one(served):
    "Each tab has its own run; a tab that is closed during one takes its kernel along, and the other goes on."
    server, folder, address = served
    with browser() as driver:
        first = Page(driver, address)
        first.fill("steps", "2000"); first.button("explain").click()
        until(lambda: "step 1:" in first.text())
        one, tab = kernels(server), driver.current_window_handle
        driver.switch_to.new_window("tab")
        second = Page(driver, address)
        assert "step " not in second.text() and len(kernels(server)) == len(one)+1
        driver.switch_to.window(tab)
        driver.close()
        until(lambda: len(kernels(server)) == len(one), 60)
        driver.switch_to.window(driver.window_handles[0])
        second.fill("steps", "2"); second.button("explain").click()
        until(lambda: "done after 2 steps" in second.text())


def test_only_this_machine_and_only_with_the_token(served):
    server, folder, address = served
    port = int(address.split(":")[2].split("/")[0])
    listening = {c.laddr.ip for p in [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
                 for c in p.net_connections() if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    answer = urlopen(address.split("?")[0])
    assert "login" in answer.url and b"sx-page" not in answer.read()                # asked for the token
    assert "login" in urlopen(f"http://127.0.0.1:{port}/api/kernels").url
    with pytest.raises(HTTPError) as refused: urlopen(f"http://127.0.0.1:{port}/voila/api/shutdown/1", b"")
    assert refused.value.code == 403
    token = address.split("=")[1]
    assert not any(token in " ".join(p.cmdline()) for p in psutil.Process(server.pid).children(recursive=True))


def test_a_taken_port_is_said(served, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0)); taken.listen()
        command = [Path(sys.executable).parent/"shearletx", "explore", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90)
    assert done.returncode == 2 and "is taken" in done.stderr and len(done.stderr.splitlines()) == 1


def test_nothing_is_left_behind(tmp_path):
    "Ended by a signal, the command takes its server and all kernels along."
    command = [Path(sys.executable).parent/"shearletx", "explore", "--size", "96", "--no-browser"]
    with open(tmp_path/"log", "w") as log: server = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    address = until(lambda: re.search(r"http://\S+", (tmp_path/"log").read_text()))[0]
    with browser() as driver:
        Page(driver, address)
        below = psutil.Process(server.pid).children(recursive=True)
        assert len(below) >= 2
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in below), 30)
    said = (tmp_path/"log").read_text().splitlines()
    assert len(said) == 2, said                                                      # the address, and how to end it
