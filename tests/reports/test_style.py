"""What people see can be told apart: in light and in dark, with any colour vision, and as narrow as a phone."""

import re
from functools import cache
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from evenfold.reports import Picture
from evenfold.reports.charts import around, ends
from evenfold.reports.page import style
from pages import Page, browse
from pages_of_every_kind import PAGES

SERIES = [f"c{i}" for i in range(7)]


def colours(scheme: str) -> dict[str, str]:
    """Return the colours of a scheme by their names."""
    blocks = re.findall(r":root\{(.*?)\}", style(), re.S)
    return dict(re.findall(r"--([\w]+):(#[0-9a-fA-F]{3,6})", blocks[scheme == "dark"]))


def linear(colour: str) -> Any:
    """Return the linear red, green and blue of a colour, 0 to 1 (sRGB)."""
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    parts = np.array([int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def as_seen(colour: str, matrix: Any) -> Any:
    """Return the sRGB values, 0 to 255, of a colour as somebody sees it whose vision mixes by ``matrix``."""
    light = np.clip(matrix @ linear(colour), 0, 1)
    return 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    """Return the contrast of two colours, 1 to 21."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_stand_out_from_the_paper_and_words_can_be_read(scheme: str) -> None:
    """Graphics have 3:1 at least, words 4.5:1, on the page and on boxes; tested rows stand out from trained ones."""
    of = colours(scheme)
    assert [name for name in [*SERIES, "train", "test"] if contrast(of[name], of["paper"]) < 3] == []
    words = ("ink", "soft", "good", "look", "stop", "open")
    assert [name for name in words if min(contrast(of[name], of[ground]) for ground in ("paper", "box")) < 4.5] == []
    assert contrast(of["train"], of["test"]) >= 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_two_series_have_one_colour_for_anybody(scheme: str) -> None:
    of = colours(scheme)
    deficient = {  # Machado, Oliveira and Fernandes (2009), severity 1.0
        "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        "protan": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
        "deutan": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    }
    for matrix in deficient.values():
        seen = [as_seen(of[name], np.array(matrix)) for name in SERIES[:5]]
        distances = [float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)]
        assert min(distances) > 50, distances


@pytest.mark.parametrize(
    "values", [[1e17], [-1e300], [1e308, -1e308], [1.7e308], [5e-324, 1e-323], [0.0, 1e-320], [float("inf"), 1e16]]
)
def test_any_number_has_a_place_on_an_axis(values: list[float]) -> None:
    for limits in (around(values), ends(np.array([value for value in values if np.isfinite(value)]))):
        picture = Picture("x", "x", "y", limits, limits)
        picture.dots([(value, value, "") for value in values if np.isfinite(value)], 0)
        drawn = picture.svg()
        places = [float(place) for place in re.findall(r'c[xy]="([^"]+)"', drawn)]
        assert len(places) == 2 * sum(map(np.isfinite, values))
        assert all(0 <= place <= 720 for place in places)
        names = [words.replace(",", "") for words in re.findall(r'text-anchor="middle">([^<]+)', drawn)]
        assert names
        assert max(map(len, names)) <= 22


def test_a_picture_is_xml_whatever_a_class_is_called() -> None:
    """Control characters and halves of pairs have no place in XML 1.0, and no browser would show the file."""
    picture = Picture("a\x01", "x\x00", "y", (0, 1), (0, 1), y_ticks=[(0.5, "b\x1b<&")])
    picture.name("c\ud800\ufffe\t", 0)
    file = picture.file()
    file.encode()
    assert "b\ufffd<&" in "".join(ElementTree.fromstring(file).itertext())


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
