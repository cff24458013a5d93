"""What tests of pages share: a reader of HTML, and a real browser where there is one."""

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from filelock import FileLock

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """A page taken apart: its sections, numbers, text, axis labels, and every address it would fetch."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: list[str] = []
        self.numbers: dict[str, list[float]] = {}
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.labels: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.headings: list[str] = []
        self.in_label = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.sections.append(str(given["id"]))
        if tag == "data":
            self.numbers.setdefault(self.sections[-1] if self.sections else "", []).append(float(str(given["value"])))
        self.addresses += [str(given[name]) for name in ("src", "href", "xlink:href", "action") if name in given]
        self.in_label = tag == "text" and given.get("class") == "label"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if self.in_label:
            self.labels.append(data)
            self.in_label = False


@cache
def chromium() -> tuple[str | None, str]:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found:
        return found, ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None, "there is no Chromium, and only root may install it: apt-get install chromium"
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with FileLock(Path(tempfile.gettempdir()) / "evenfold-chromium.lock"):  # tests run in several processes
        subprocess.run(["apt-get", "update"], capture_output=True, timeout=300)
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]
        done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=300)
    return shutil.which("chromium"), f"Chromium could not be installed: {done.stderr.strip()[-200:]}"


def browse(page: Path, profile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open a page in headless Chromium with a profile of its own; the test is skipped where there is no Chromium."""
    program, why = chromium()
    if program is None:
        pytest.skip(why)
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    quiet += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
    command = [program, *quiet, f"--user-data-dir={profile}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)


def require_silent(html: str, folder: Path, scheme: str) -> str:
    """Show a page 800 pixels wide in a real browser, and return the document that it made of it.

    The console stays silent, nothing is wider than the window, the colours are those of the scheme, and it prints.
    """
    path = folder / "report.html"
    shown = "[document.documentElement.scrollWidth,getComputedStyle(document.body).backgroundColor].join(' ')"
    # The page's own policy holds but for the script that measures it here.
    assert "default-src 'none'" in html
    measured = html.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    path.write_text(measured.replace("</body>", f"<script>document.title={shown}</script></body>"))
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    both = ["--dump-dom", f"--print-to-pdf={folder / 'report.pdf'}"]  # in this order, by one browser
    seen = browse(path, folder / "profile", "--window-size=800,900", "--enable-logging=stderr", *both, *dark)
    assert "CONSOLE" not in seen.stderr
    title = re.search(r"<title>(\d+) (.*?)</title>", seen.stdout)
    assert int(title[1]) <= 800
    assert title[2] == ("rgb(18, 22, 27)" if scheme == "dark" else "rgb(255, 255, 255)")
    assert re.findall(r'<section id="([\w-]+)"', seen.stdout) == Page(html).sections
    assert (folder / "report.pdf").read_bytes()[:4] == b"%PDF"
    return seen.stdout
