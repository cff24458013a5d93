"""What tests of pages share: a reader of HTML, and a real browser where there is one."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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
            self.numbers.setdefault(self.sections[-1], []).append(float(str(given["value"])))
        self.addresses += [str(given[name]) for name in ("src", "href", "xlink:href", "action") if name in given]
        self.in_label = tag == "text" and given.get("class") == "label"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.in_label:
            self.labels.append(data)
            self.in_label = False


def browse(page: Path, profile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open a page in headless Chromium with a profile of its own."""
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    quiet += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
    command = [str(CHROMIUM), *quiet, f"--user-data-dir={profile}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
