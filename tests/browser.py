"A real browser for the tests of site and explorer: Debian's chromium, without a screen."
import functools, http.server, json, shutil, tempfile, threading
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

missing = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
needs_browser = pytest.mark.skipif(bool(missing),
                                   reason=f"no {', no '.join(missing)}: Debian's chromium, chromium-driver")
FLAGS = ("headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
         "disable-component-update disable-sync hide-scrollbars").split()


@contextmanager
def browser(width:int=1300, height:int=1000, dark:bool=False):
    "A browser with an empty profile."
    from selenium import webdriver
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"user-data-dir={profile}", f"window-size={width},{height}"):
            options.add_argument(f"--{flag}")
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            size = dict(width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            if dark:
                feature = dict(name="prefers-color-scheme", value="dark")
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dict(features=[feature]))
            yield driver
        finally: driver.quit()


def hosts_asked(driver)->set[str]:
    "The hosts that the pages so far sent requests to."
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return {urlsplit(url).netloc for url in urls if not url.startswith(("data:", "blob:", "chrome"))}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): pass


@contextmanager
def served(folder:Path):
    "A folder on this machine's loopback; gives its address."
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try: yield f"http://127.0.0.1:{server.server_port}"
    finally: server.shutdown()
