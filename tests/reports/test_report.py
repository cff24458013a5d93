"""The split report says what balance.json says, shows every picture, and needs nothing but itself."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import BalanceReport, decide, extend, measure
from evenfold.reports import report_html, split_figures
from pages import Page, require_silent

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


def told_of(balance: BalanceReport) -> list[float]:
    """Return the numbers of the balance section: what came out, beside what is reachable, in their order."""
    beside = [[value, *([balance.reachable[name]] if name in balance.reachable else [])]
              for name, value in balance.worst.items()]  # fmt: skip
    names = ("size_term", "class_term", "missing", "cost", "lower_bound", "gap")
    reach = [] if balance.reach is None else [getattr(balance.reach, name) for name in names]
    return [*(value for values in beside for value in values), *reach]


@pytest.mark.parametrize("name", CASES)
def test_every_section_is_there_and_its_numbers_are_those_of_the_balance(name: str) -> None:
    """What people read is what programs read."""
    asked, sections = CASES[name]
    html, balance = made(asked, frame())
    page = Page(html)
    assert page.sections == ALWAYS + sections
    assert page.numbers["balance"] == told_of(balance)
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


@pytest.mark.parametrize(("name", "scheme"), [("groups", "light"), ("bootstrap", "dark"), ("group draws", "light")])
def test_a_browser_shows_it_without_a_complaint(name: str, scheme: str, tmp_path: Path) -> None:
    """Chromium draws every section, wide enough and no wider, and its console stays silent."""
    html, balance = made(CASES[name][0], frame())
    document = require_silent(html, tmp_path, scheme)
    assert [f'value="{value!r}"' in document for value in balance.worst.values()] == [True] * len(balance.worst)


def test_a_class_has_one_colour_on_the_whole_page() -> None:
    """The legend of the map and that of the shares agree, also where the first class is not the largest."""
    html, _ = made(CASES["classes"][0], frame())
    named = re.findall(r'class="f(\d)"[^>]*/></svg>(?:class = )?((?:&lt;b&gt;ill|well)[^<]*)', html)
    colours = {(colour, name.partition(" (")[0]) for colour, name in named}
    assert len(named) == 4
    assert len(colours) == 2


@pytest.mark.parametrize("target", ["class", "amount", None])
def test_a_grouped_split_stands_beside_what_whole_groups_can_reach(target: str | None) -> None:
    """The same figures as the strategy's own report on the same rows, and the page says them."""
    data = frame(600, 12)
    manifest = decide(spec("BalancedGroupKFold", target, "ward", n_splits=4), data)
    balance = measure(manifest, data.sample(frac=1, random_state=0))
    y = None if target is None else data[target]
    own = manifest.splitter.report(data[["row"]], y, data["ward"])  # type: ignore[attr-defined]
    assert balance.reach is not None
    assert balance.reach.model_dump() == asdict(own)
    page = Page(report_html(manifest, balance, data))
    assert page.numbers["balance"] == told_of(balance)
    assert ("Proved: no assignment of these groups is more even." in page.words) == own.optimal


def test_parts_and_locked_rows_are_judged_by_their_own_shares() -> None:
    """The bound is that of the parts as asked, and of the rows that are left where some are locked."""
    data = frame(600, 12)
    parts = decide(spec("BalancedGroupSplit", "class", "ward", parts={"train": 0.7, "validation": 0.3}), data)
    reach = measure(parts, data).reach
    assert reach is not None
    train = (parts.codes == -1).mean()
    assert reach.size_term == pytest.approx((train / 0.7 - 1) ** 2 + ((1 - train) / 0.3 - 1) ** 2)
    locked = decide(spec("BalancedGroupKFold", "class", "ward", n_splits=3) | {"holdout": {"fraction": 0.25}}, data)
    left = data[locked.codes[np.argsort(data["row"])] >= 0]
    own = locked.splitter.judge(  # type: ignore[attr-defined]
        locked.splitter.rows(left[["row"]], left["class"], left["ward"]), locked.codes[locked.codes >= 0]
    )
    assert measure(locked, data).reach.model_dump() == asdict(own)  # type: ignore[union-attr]


def test_what_no_split_can_be_below_is_not_crossed_and_is_reached() -> None:
    """Seven folds of 600 rows cannot be equal; one group of 300 rows makes a fold of at least 300."""
    data = frame()
    plain = measure(decide(spec("KFold", n_splits=7), data), data)
    assert plain.worst["size"] == pytest.approx(plain.reachable["size"])
    assert plain.reachable["size"] == pytest.approx((600 / 7 - 85) / (600 / 7))
    giant = data.assign(ward=np.where(np.arange(600) < 300, "giant", data["ward"]))
    grouped = measure(decide(spec("BalancedGroupKFold", "class", "ward", n_splits=4), giant), giant)
    assert grouped.reachable["size"] == pytest.approx(1.0)
    assert grouped.worst["size"] == pytest.approx(1.0, abs=0.02)
    assert measure(decide(spec("Bootstrap", n_splits=3), data), data).reachable == {}


def test_groups_that_became_one_are_not_judged() -> None:
    """A group in two folds is no assignment of whole groups."""
    data = frame(600, 12)
    manifest = decide(spec("BalancedGroupKFold", "class", "ward", n_splits=3), data)
    merged = data.assign(ward=data["ward"].replace({f"ward {g}": "ward 0" for g in range(11)}))
    assert measure(manifest, merged).reach is None
    assert measure(manifest).reach is None
