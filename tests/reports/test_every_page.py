"""Every kind of page is whole, opens with what it comes to, and fits a phone, whatever its names are."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path

import pytest
from pages import Page, browse
from pages_of_every_kind import PAGES

made = cache(lambda name: PAGES[name]())


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_opens_with_what_it_comes_to(name: str) -> None:
    """One title, a lead before any picture, headings without gaps, alternatives for pictures, under 1 MB, no script."""
    html = made(name)
    page = Page(html)
    assert page.open == []
    assert len(html.encode()) < 1_000_000
    assert not page.tags & {"script", "link", "iframe", "img", "object"}
    policy = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
    assert policy in html[: html.index("<title>")]
    assert set(page.addresses) <= {"split/report.html"}
    assert len(re.findall("<h1>", html)) == 1
    assert html.index('class="lead"') < html.index("<section")
    assert "<h3" not in html
    pictures = re.findall(r"<svg ([^>]*)>", html)
    assert [one for one in pictures if "aria-label=" not in one and "aria-hidden" not in one] == []
    assert len(page.sections) == len(set(page.sections))
    assert not re.search(r"\b1 (folds|splits|rows|draws|groups|checks|parts)\b", " ".join(page.words))
    assert "neg_mean" not in html[: html.index(">Details<")]


def test_every_page_fits_a_phone(tmp_path: Path) -> None:
    """In a window of 400 pixels no page is wider than it, with every detail open."""
    opened = {name: escape(made(name).replace("<details>", "<details open>")) for name in PAGES}
    frames = (
        f'<iframe name="{name}" style="width:400px;height:900px;border:0" srcdoc="{html}"></iframe>'
        for name, html in opened.items()
    )
    measure = """addEventListener("load", () => { document.title = [...document.querySelectorAll("iframe")].map(frame =>
      frame.name + "=" + frame.contentDocument.documentElement.scrollWidth).join(";") })"""
    page = tmp_path / "phones.html"
    page.write_text(f"<body>{''.join(frames)}<script>{measure}</script></body>", encoding="utf-8")
    seen = browse(page, tmp_path / "profile", "--virtual-time-budget=20000", "--dump-dom")
    widths = re.search(r"<title>(.*?)</title>", seen.stdout)
    found = dict(pair.split("=") for pair in widths[1].split(";"))
    assert set(found) == set(PAGES)
    assert {name: width for name, width in found.items() if int(width) > 400} == {}
