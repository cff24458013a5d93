"""The split report says what balance.json says, shows every picture, and needs nothing but itself."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import Audit, BalanceReport, decide, extend, measure
from evenfold.reports import Verdict, report_html, verdict_of
from evenfold.reports.splits.data import SplitData, cumulative, evenness, group_sizes, split_data, target_gap
from pages import Page, require_silent

FOLDED = ["folds", "balance", "codes", "asked", "identity"]


def frame(n: int = 600, n_groups: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    group = rng.integers(0, n_groups, n)
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "class": np.where(rng.random(n) < 0.2 + 0.01 * group, "<b>ill</b>", "well"),
            "amount": rng.lognormal(size=n),
            "ward": [f"ward {g}" for g in group],
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 200, n), "D"),
        }
    )


def spec(strategy: str, target: str | None = None, group: str | None = None, **params: Any) -> dict[str, Any]:
    time = params.pop("time", None)
    columns = {"key": "row", "target": target, "group": group, "time": time}
    return {"name": "beds", "strategy": strategy, "params": params, "columns": {k: v for k, v in columns.items() if v}}


CASES = {
    "classes": (spec("StratifiedKFold", "class"), ["classes", "map"]),
    "numbers": (spec("SortedStratifiedKFold", "amount"), ["target", "map"]),
    "groups": (spec("BalancedGroupKFold", "class", "ward"), ["classes", "map", "groups"]),
    "nothing": (spec("KFold"), ["map"]),
    "group draws": (spec("GroupStratifiedShuffleSplit", "class", "ward", n_splits=10), ["classes", "map", "picks"]),
    "bootstrap": (spec("Bootstrap", "amount", n_splits=12), ["target", "map", "inclusion"]),
    "parts": (
        spec("FractionalStratifiedSplit", "amount", parts={"train": 0.7, "validation": 0.15, "test": 0.15}),
        ["parts", "target"],
    ),
    "time": (spec("ForwardChaining", "amount", time="day"), ["target", "map"]),
}


def made(asked: dict[str, Any], data: pd.DataFrame) -> tuple[str, Any]:
    manifest = decide(asked, data)
    balance = measure(manifest, data)
    return report_html(manifest, balance, data), balance


def told_of(balance: BalanceReport) -> list[float]:
    """Return the numbers of the balance section: what came out, beside what is reachable, in their order."""
    beside = [[value, *([balance.reachable[name]] if name in balance.reachable else [])]
              for name, value in balance.worst.items()]  # fmt: skip
    return [value for values in beside for value in values]


@pytest.mark.parametrize("name", CASES)
def test_every_section_is_there_and_its_numbers_are_those_of_the_balance(name: str) -> None:
    asked, pictures = CASES[name]
    html, balance = made(asked, frame())
    page = Page(html)
    assert page.open == page.addresses == []
    assert not re.search(r"url\(|@import|https?://", html)
    folded = FOLDED[1:] if name == "parts" else FOLDED
    assert [section for section in page.sections if section not in ("checks", "sizes")] == pictures + folded
    assert page.numbers["balance"] == told_of(balance)
    assert sum(page.numbers["codes"]) == balance.n_rows
    if name == "parts":
        return
    told = [fold.rows for fold in balance.folds]
    per_fold = len(page.numbers["folds"]) // len(told)
    assert page.numbers["folds"][::per_fold] == told
    wanted = [fold.wanted for fold in balance.folds]
    assert wanted[0] is None or page.numbers["folds"][1::per_fold] == wanted


def test_what_comes_from_the_data_is_text_and_not_markup() -> None:
    data = frame()
    manifest = decide(CASES["classes"][0], data)
    message = "3 rows are <doubled> & tested; drop them."
    html = report_html(manifest, measure(manifest, data), data, audited("warning", message))
    page = Page(html)
    assert "<b>ill</b>" not in html
    assert any("<b>ill</b>" in words for words in page.words)
    assert any("<doubled>" in words for words in page.words)


def test_a_grown_split_shows_its_generations_first() -> None:
    """Each generation has a bar, and the rows that joined add up; how even the folds were stands below."""
    data = frame(900)
    manifest = decide(CASES["groups"][0], data.head(600))
    for n in (700, 900):
        manifest = extend(manifest, data.head(n)).manifest
    page = Page(report_html(manifest, measure(manifest, data), data))
    assert page.sections[:3] == ["generations", "growth", "classes"]
    assert page.headings[0] == "1.2: 200 rows joined, and none has moved since 1.0"
    wide = page.words[page.words.index(page.headings[0]) : page.words.index(page.headings[1])]
    joined = [
        int(words.removesuffix(" rows").replace(",", "")) for words in wide if re.fullmatch(r"[\d,]+ rows", words)
    ]
    assert joined == [600, 100, 200] * 2  # the wide picture and the narrow one


@pytest.mark.parametrize("target", ["class", "amount"])
def test_rows_that_left_a_grown_split_are_in_none_of_its_figures(target: str) -> None:
    data = frame(660, 40)
    data["ward"] = data["row"] // 10
    first, now = data.head(600), data[data["row"] >= 300].iloc[::-1]
    manifest = decide(spec("BalancedGroupKFold", target, "ward"), first)
    grown = extend(manifest, now, max_missing=1.0).manifest
    balance = measure(grown, now)
    seen = split_data(grown, balance, now)
    groups, gap, (numbers, whole, _) = group_sizes(seen), target_gap(balance), cumulative(seen)
    assert sorted(size for sizes in groups.values() for size in sizes) == [10] * 36
    assert np.isin(grown.keys.column("row").to_numpy()[seen.order], now["row"]).all()
    assert (numbers.size == 0) == (target == "class")
    if numbers.size:
        assert whole == pytest.approx([(now["amount"] <= value).mean() for value in numbers])
    before, after = evenness(seen)
    assert before == (pytest.approx(measure(manifest, first).worst["size"]), None)
    assert after == (pytest.approx(balance.worst["size"]), pytest.approx(gap.largest))
    page = Page(report_html(grown, balance, now))
    assert "36 groups; the largest has 10 rows, 14 % of a fold" in page.words
    assert "360 rows in 5 folds, no ward on both sides (BalancedGroupKFold)." in page.words
    assert not any(words.startswith("660 rows") for words in page.words)  # nor in the footer


def audited(severity: str, message: str = "") -> Audit:
    """Return an audit with one finding, or none."""
    finding = {"check": "duplicate_rows", "severity": severity, "message": message}
    finding["gate"] = "failed" if severity == "error" else "passed"
    findings = [finding] if severity else []
    failed = ["duplicate_rows"] if severity == "error" else []
    empty: dict[str, Any] = {"passed": {}, "not_asked": {}, "off": [], "features": []}
    return Audit(name="beds", version="1.0", split_id="", n_rows=1, failed=failed, findings=findings, **empty)


@pytest.mark.parametrize(
    ("severity", "verdict"),
    [("error", Verdict.STOP), ("warning", Verdict.LOOK), ("note", Verdict.GOOD), ("", Verdict.GOOD)],
)
def test_the_page_opens_with_a_verdict_in_words(severity: str, verdict: Verdict) -> None:
    data = frame()
    manifest = decide(CASES["classes"][0], data)
    balance = measure(manifest, data)
    words = Page(report_html(manifest, balance, data, audited(severity, "Rows are doubled."))).words
    assert verdict_of(balance, audited(severity)) is verdict
    assert words.index(f"{verdict.mark} {verdict.word}") < words.index("rows in every fold")
    assert (": Rows are doubled. " in words) == bool(severity)


def test_folds_less_even_than_random_ones_deserve_a_look() -> None:
    """The band holds all five folds of 95 % of random splits; beyond it a split deserves a look, whatever the audit."""
    data = frame()
    balance = measure(decide(CASES["classes"][0], data), data)
    gap = target_gap(balance)
    ill = (data["class"] != "well").to_numpy()
    rng = np.random.default_rng(0)
    worst = [np.abs(rng.permutation(ill).reshape(5, 120).mean(axis=1) - ill.mean()).max() for _ in range(4000)]
    assert np.mean(np.array(worst) <= gap.random) == pytest.approx(0.955, abs=0.015)
    for share, verdict in ((gap.random - 0.01, Verdict.GOOD), (gap.random + 0.01, Verdict.LOOK)):
        off = [balance.shares[0] + share, balance.shares[1] - share, *balance.shares[2:]]
        folds = [balance.folds[0].model_copy(update={"shares": off}), *balance.folds[1:]]
        assert verdict_of(balance.model_copy(update={"folds": folds}), audited("")) is verdict


def test_a_browser_shows_it_without_a_complaint(tmp_path: Path) -> None:
    html, balance = made(CASES["group draws"][0], frame())
    document = require_silent(html, tmp_path, "dark")
    assert [f'value="{value!r}"' in document for value in balance.worst.values()] == [True] * len(balance.worst)


@pytest.mark.parametrize("target", ["class", None])
def test_a_grouped_split_stands_beside_what_whole_groups_can_reach(target: str | None) -> None:
    data = frame(600, 12)
    manifest = decide(spec("BalancedGroupKFold", target, "ward", n_splits=4), data)
    balance = measure(manifest, data.sample(frac=1, random_state=0))
    y = None if target is None else data[target]
    own = manifest.splitter.report(data[["row"]], y, data["ward"])  # type: ignore[attr-defined]
    assert balance.reach == own
    page = Page(report_html(manifest, balance, data))
    assert page.numbers["balance"] == told_of(balance)
    assert ("Could whole groups be more even? No: that is proved." in page.words) == own.optimal


def test_parts_and_locked_rows_are_judged_by_their_own_shares() -> None:
    data = frame(600, 12)
    parts = decide(spec("BalancedGroupSplit", "class", "ward", parts={"train": 0.7, "validation": 0.3}), data)
    reach = measure(parts, data).reach
    train = (parts.codes == -1).mean()
    assert reach.size_term == pytest.approx((train / 0.7 - 1) ** 2 + ((1 - train) / 0.3 - 1) ** 2)
    locked = decide(spec("BalancedGroupKFold", "class", "ward", n_splits=3) | {"holdout": {"fraction": 0.25}}, data)
    left = data[locked.codes[np.argsort(data["row"])] >= 0]
    own = locked.splitter.report(  # type: ignore[attr-defined]
        locked.splitter.rows(left[["row"]], left["class"], left["ward"]), labels=locked.codes[locked.codes >= 0]
    )
    assert measure(locked, data).reach == own


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


PARTS = {"strategy": "HashSplit", "params": {"parts": {"train": 0.8, "validation": 0.1, "test": 0.1}}}


def rows(n: int = 200) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": range(n),
            "class": draw.choice(list("aab"), n),
            "amount": draw.normal(size=n),
            "ward": draw.integers(1, 20, n),
            "when": pd.date_range("2024-01-01", periods=n, freq="h"),
            "year": np.arange(n) * 4 // n,
        }
    )


def seen(data: pd.DataFrame, target: str = "class", **spec: Any) -> SplitData:
    spec["columns"] = {"key": "id", "target": target} | spec.get("columns", {})
    manifest = decide(spec, data)
    return split_data(manifest, measure(manifest, data), data)


def tiles(page: Any) -> dict[str, tuple[str, str]]:
    return {tile.label: (tile.value, tile.note) for tile in page.tiles}
