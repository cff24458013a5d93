"""The split report says what balance.json says, shows every picture, and needs nothing but itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import decide, extend, measure, report_html, split_figures
from pages import CHROMIUM, Page, browse

ALWAYS = ["asked", "identity", "sizes", "balance", "audit", "sizes-picture", "map"]
FINDINGS = {"findings": [{"severity": "warning", "message": "3 rows are <doubled> & tested; drop them."}]}


def frame(n: int = 600, n_groups: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    group = rng.integers(0, n_groups, n)
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "class": np.where(rng.random(n) < 0.2 + 0.01 * group, "<b>ill</b>", "well"),
            "amount": rng.lognormal(size=n),
            "ward": [f"ward {g}" for g in group],
        }
    )


def spec(strategy: str, target: str | None = None, group: str | None = None, **params: Any) -> dict[str, Any]:
    columns = {"key": "row", "target": target, "group": group}
    return {"name": "beds", "strategy": strategy, "params": params, "columns": {k: v for k, v in columns.items() if v}}


CASES = {
    "classes": (spec("StratifiedKFold", "class"), ["classes", "folds"]),
    "numbers": (spec("SortedStratifiedKFold", "amount"), ["target", "folds"]),
    "groups": (spec("BalancedGroupKFold", "class", "ward"), ["classes", "groups", "folds"]),
    "nothing": (spec("KFold"), ["folds"]),
    "group draws": (
        spec("GroupStratifiedShuffleSplit", "class", "ward", n_splits=10),
        ["classes", "picks", "folds"],
    ),
    "bootstrap": (spec("Bootstrap", "amount", n_splits=12), ["target", "inclusion", "folds"]),
}


def made(asked: dict[str, Any], data: pd.DataFrame) -> tuple[str, Any]:
    manifest = decide(asked, data)
    balance = measure(manifest, data)
    return report_html(manifest, balance, data, FINDINGS), balance


@pytest.mark.parametrize("name", CASES)
def test_every_section_is_there_and_its_numbers_are_those_of_the_balance(name: str) -> None:
    """What people read is what programs read."""
    asked, sections = CASES[name]
    html, balance = made(asked, frame())
    page = Page(html)
    assert page.sections == ALWAYS + sections
    assert page.numbers["balance"] == list(balance.worst.values())
    told = [fold.rows for fold in balance.folds]
    per_fold = len(page.numbers["folds"]) // len(told)
    assert page.numbers["folds"][::per_fold] == told
    assert sum(page.numbers["sizes"]) == balance.n_rows


@pytest.mark.parametrize("name", CASES)
def test_the_page_needs_nothing_but_itself(name: str) -> None:
    """No address, no script, no style sheet from elsewhere; every axis says its unit; nothing is left open."""
    html, _ = made(CASES[name][0], frame())
    page = Page(html)
    assert page.addresses == []
    assert not page.tags & {"script", "link", "iframe", "img", "object"}
    assert not re.search(r"url\(|@import|https?://", html)
    assert page.labels
    assert all(label.rstrip().endswith(")") or label == "fold or part" for label in page.labels), page.labels
    assert page.open == []


def test_what_comes_from_the_data_is_text_and_not_markup() -> None:
    """A class called <b>ill</b> is shown as it is called."""
    html, _ = made(CASES["classes"][0], frame())
    page = Page(html)
    assert "<b>ill</b>" not in html
    assert any("<b>ill</b>" in words for words in page.words)
    assert any("<doubled>" in words for words in page.words)


def test_a_grown_split_shows_its_generations() -> None:
    """Each generation has a bar, and the rows of each fold add up."""
    data = frame(900)
    manifest = extend(decide(CASES["groups"][0], data.head(600)), data).manifest
    page = Page(report_html(manifest, measure(manifest, data), data))
    assert page.sections == [*ALWAYS, "classes", "groups", "generations", "folds"]
    said = " ".join(page.words)
    assert sum(int(rows.replace(",", "")) for rows in re.findall(r"fold \d: ([\d,]+) rows", said)) == 900


def test_without_the_rows_the_report_says_what_the_manifest_knows() -> None:
    """A split of which only the manifest is at hand still has a report."""
    manifest = decide(CASES["groups"][0], frame())
    page = Page(report_html(manifest, measure(manifest)))
    assert page.sections == [*ALWAYS, "groups", "folds"]


def test_ten_thousand_groups_make_less_than_a_megabyte() -> None:
    """A page that opens at once."""
    html, _ = made(CASES["groups"][0], frame(40_000, 10_000))
    assert len(html.encode()) < 1_000_000
    html, _ = made(spec("GroupShuffleSplit", "class", "ward", n_splits=20), frame(40_000, 10_000))
    assert len(html.encode()) < 1_000_000


def test_more_splits_than_a_page_shows_are_counted() -> None:
    """What is cut says so."""
    data = frame(700)
    html, _ = made(spec("LeaveOneOut"), data)
    assert "The first 60 of 700." in html
    assert len(html) < 1_000_000


@pytest.mark.parametrize(("name", "wanted"), [("numbers", {"target"}), ("classes", {"classes"}), ("nothing", set())])
def test_the_main_pictures_are_files_too(name: str, wanted: set[str], tmp_path: Path) -> None:
    """Each is a figure with a title and named axes, and saves as a PNG."""
    data = frame()
    manifest = decide(CASES[name][0], data)
    figures = split_figures(manifest, measure(manifest, data), data)
    assert set(figures) == {"sizes", "map"} | wanted
    for title, figure in figures.items():
        axes = figure.axes[0]
        assert axes.get_xlabel().endswith(")")
        assert axes.get_ylabel().endswith(")")
        figure.savefig(tmp_path / f"{title}.png")
        assert (tmp_path / f"{title}.png").read_bytes()[:4] == b"\x89PNG"


def test_a_report_of_other_rows_is_refused() -> None:
    """Pictures of rows that were not split would lie."""
    data = frame()
    manifest = decide(CASES["classes"][0], data)
    balance = measure(manifest, data)
    with pytest.raises(ValueError, match="rows of the manifest are not in the data"):
        report_html(manifest, balance, data.head(10))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; apt-get install chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_without_a_complaint(scheme: str, tmp_path: Path) -> None:
    """Chromium draws every section, wide enough and no wider, and its console stays silent."""
    html, balance = made(CASES["groups"][0], frame())
    path = tmp_path / "report.html"
    shown = "[document.documentElement.scrollWidth,getComputedStyle(document.body).backgroundColor].join(' ')"
    probe = f"<script>document.title={shown}</script>"
    path.write_text(html.replace("</body>", f"{probe}</body>"))
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    seen = browse(path, tmp_path / "profile", "--window-size=800,900", "--enable-logging=stderr", "--dump-dom", *dark)
    assert "CONSOLE" not in seen.stderr
    title = re.search(r"<title>(\d+) (.*?)</title>", seen.stdout)
    assert title is not None
    assert int(title[1]) <= 800
    assert title[2] == ("rgb(18, 22, 27)" if scheme == "dark" else "rgb(255, 255, 255)")
    assert len(re.findall("<section", seen.stdout)) == html.count("<section")
    assert [f'value="{value!r}"' in seen.stdout for value in balance.worst.values()] == [True] * len(balance.worst)
