"""A month beside what a champion that never saw it predicts: broken ones are refused, good ones are not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenfold.estimates.intervals.months import EACH, YEARLY, Figure, blocks, interval, judge, month_of
from scipy import stats

from benchmarks.months import RESTLESS, STRENGTH, refused_in_a_year, table

ROWS, DAYS = 600, 30
Change = Callable[[Any, Any], Any]


def judged(change: Change, noise: float = 0.5, classes: int = 0, earlier: int = 12) -> Any:
    """Return the judgement of a month whose target was changed, after earlier months of the same kind."""
    rng, figures = np.random.default_rng(2), []
    for month in range(earlier + 1):
        p, days = rng.normal(size=ROWS), np.arange(ROWS) % DAYS
        y = p + noise * rng.normal(size=ROWS)
        if classes:
            p = 1 / (1 + np.exp(-3 * p / noise))
            y = (rng.uniform(size=ROWS) < p).astype(int)
        y = change(y, p) if month == earlier else y
        figures.append(month_of(y, np.column_stack([1 - p, p]) if classes else p, days, classes))
    return judge(figures[-1], figures[:-1], "delay")


def permuted(y: Any, share: float) -> Any:
    rng = np.random.default_rng(1)
    return np.where(rng.uniform(size=y.size) < share, rng.permutation(y), y)


BROKEN: dict[str, tuple[Change, int, str]] = {
    "shuffled": (lambda y, p: permuted(y, 1), 0, "this looks like shuffled targets"),
    "half shuffled": (lambda y, p: permuted(y, 0.5), 0, "the champion predicted is 0.414; a good month has 0.72"),
    "turned": (lambda y, p: -y, 0, "this looks turned"),
    "in other units": (lambda y, p: 60 * y, 0, "a target in other units"),
    "constant": (lambda y, p: 0 * y, 0, "shuffled targets"),
    "by a formula": (lambda y, p: p + 0.01 * y, 0, "too good to be true"),
    "by a formula without an error": (lambda y, p: p, 0, "squared error on the new rows is 0 times the usual"),
    "-999 in some": (lambda y, p: np.where(np.arange(y.size) % 10 == 0, -999, y), 0, "this is worse"),
    "classes swapped": (lambda y, p: 1 - y, 2, "this looks turned"),
    "classes shuffled": (lambda y, p: permuted(y, 1), 2, "shuffled targets"),
    "classes by a formula": (lambda y, p: (p > 0.5).astype(int), 2, "too good to be true"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_month_is_refused_with_its_numbers(kind: str) -> None:
    change, classes, words = BROKEN[kind]
    told = judged(change, classes=classes)
    assert told.verdict == "refused"
    assert words.lower() in " ".join(told.sentences).lower()
    assert all(sentence.startswith("The ") for sentence in told.sentences)


@pytest.mark.parametrize("classes", [0, 2])
def test_a_good_month_is_sound_and_so_is_one_that_is_a_bit_harder(classes: int) -> None:
    assert judged(lambda y, p: y, classes=classes).verdict == "sound"
    assert judged(lambda y, p: permuted(y, 0.03), classes=classes).verdict == "sound"


def test_a_weak_champion_says_that_it_cannot_tell() -> None:
    for change in (lambda y, p: y, lambda y, p: permuted(y, 1)):
        told = judged(change, noise=20)
        assert told.verdict == "unclear"
        assert "too weak to judge" in told.sentences[0]
    assert judged(lambda y, p: 60 * y, noise=20).verdict == "refused"


def test_what_says_nothing_is_unclear() -> None:
    assert judged(lambda y, p: y, earlier=0).verdict == "unclear"
    few = month_of(np.arange(9.0) ** 2, np.arange(9.0))
    assert "9 new rows" in judge(few, [few], "delay").sentences[0]
    rows = np.random.default_rng(0).normal(size=400)
    one_group = month_of(rows, rows + 1, np.zeros(400))
    assert judge(one_group, [month_of(rows, rows + 0.1 * rows[::-1])], "delay").verdict == "unclear"


def test_rows_of_one_group_count_as_one() -> None:
    rng = np.random.default_rng(0)
    p, y = rng.normal(size=(2, 60))
    once, tenfold = month_of(y, p), month_of(np.repeat(y, 10), np.repeat(p, 10), np.repeat(np.arange(60), 10))
    assert (tenfold.slope.se, tenfold.spread.se) == pytest.approx((once.slope.se, once.spread.se))


def test_blocks_are_of_the_size_of_a_month_and_hold_whole_groups() -> None:
    units = np.repeat(np.arange(40), 10)
    parts = blocks(units, 100, units)
    assert [part.size for part in parts] == [100] * 4
    assert [set(units[part]) for part in parts] == [set(range(i, i + 10)) for i in range(0, 40, 10)]
    assert len(blocks(np.arange(400), 1000)) == 1


def test_more_months_make_the_interval_narrower_and_restless_ones_wider() -> None:
    width = {}
    for n, apart in ((1, 0.0), (12, 0.0), (12, 0.5)):
        months = [type("F", (), {"value": 1 + apart * (-1) ** i, "se": 0.01}) for i in range(n)]
        low, high = interval(months, months[0], 0.08)
        width[n, apart] = high - low
    assert width[12, 0.0] < width[1, 0.0] < width[12, 0.5] * 2
    assert width[12, 0.0] < width[12, 0.5]
    known, unknown = [Figure(0.5, 0.1), Figure(0.6, 0.1)], [Figure(0.9, np.nan), Figure(np.nan, 0.1)]
    ends = interval(known, known[0], 0.08)
    assert interval(known + unknown, known[0], 0.08) == ends
    # Two months apart by less than their errors: a prior worth three, so four degrees of freedom.
    half = np.sqrt(3 * 0.08**2 / 4 * 1.5 + 0.1**2 + 0.1**2 / 2) * stats.t.isf(EACH / 2, 4)
    assert ends == pytest.approx((0.55 - half, 0.55 + half))


@pytest.mark.parametrize("champion", STRENGTH)
def test_good_months_are_let_in_and_a_weak_champion_judges_none(champion: str) -> None:
    year = refused_in_a_year(1, RESTLESS["as flights"], STRENGTH[champion], 0)
    assert year.count("unclear" if champion == "weak" else "sound") >= 11
    assert "refused" not in year


def test_at_most_one_year_in_twenty_has_a_good_month_refused() -> None:
    docs = Path(__file__).parents[2] / "docs"
    told = json.loads((docs / "results" / "months.json").read_text(encoding="utf-8"))
    assert f"<!-- months -->\n{table(told)}\n<!-- /months -->" in (docs / "operations.md").read_text(encoding="utf-8")
    assert max(row["refused"] for row in told["rate"]) <= YEARLY
    assert min(row["years"] for row in told["rate"]) >= 60
