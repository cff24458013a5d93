"""The rule of promotion: its boundaries, what it may spend, and the pairs that it compares."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates.promotion import (
    YEARLY,
    Decision,
    Difference,
    EarlierLook,
    bound_of,
    compare_draws,
    compare_predictions,
    decide,
    same_pair,
    to_spend,
)
from scipy import stats

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 21)


def test_a_lower_end_of_exactly_nothing_promotes_nobody() -> None:
    """Better means above; a difference of 0 that is quite sure is none."""
    assert decide("r2", Difference(0.0, 0.0, 10), newer=True).winner == "champion"
    assert decide("r2", Difference(1e-9, 0.0, 10), newer=True).winner == "candidate"


def test_a_margin_lets_in_what_is_not_worse_by_more() -> None:
    """The lower end must lie above -margin."""
    compared = Difference(0.0, 0.01, 1_000)
    low = stats.t.isf(0.05, 1_000) * 0.01
    assert decide("r2", compared, newer=False, margin=low + 1e-6).promote
    assert not decide("r2", compared, newer=False, margin=low - 1e-6).promote
    assert "not worse by more than" in decide("r2", compared, newer=False, margin=low + 1e-6).why


def test_twelve_months_never_spend_more_than_the_year_may() -> None:
    """Half of what is left each time; what is older than a year is free again."""
    spent: list[EarlierLook] = []
    for month in range(36):
        day = TODAY + timedelta(days=30 * month)
        spent.append(EarlierLook(day, to_spend(spent, day)))
        within = sum(look.error for look in spent if day - look.day < timedelta(days=365))
        assert within <= YEARLY + 1e-12
    assert [look.error for look in spent[:3]] == pytest.approx([0.05, 0.025, 0.0125])
    assert spent[13].error > spent[12].error * 0.5
    assert to_spend([EarlierLook(TODAY, 1.0)], TODAY) == 0


def test_nothing_left_to_spend_promotes_nobody() -> None:
    """However large the difference: an error of 0 cannot be had."""
    assert not decide("r2", Difference(9.0, 0.1, 10), newer=False, error=0.0).promote


def test_the_interval_is_at_the_level_that_was_spent() -> None:
    """Two-sided at 1 - 2 x error."""
    told = decide("r2", Difference(0.1, 0.05, 20), newer=False, error=0.025)
    assert told.level == pytest.approx(0.95)
    assert told.low == pytest.approx(0.1 - stats.t.ppf(0.975, 20) * 0.05)
    assert told.spent == 0.025


LOOKS = {"rows grow from 350 to 900": np.linspace(350, 900, 12), "hardly any join": np.linspace(350, 360, 12),
         "rows double each month": 350 * 2.0 ** np.arange(12)}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_looks_at_growing_rows_spend_what_they_say(name: str) -> None:
    """Of many years without a difference, each look is the first to promote in the share that it was given."""
    rows, looks = LOOKS[name], []
    for month, n in enumerate(rows):
        error = 0.05 * 0.5**month
        looks.append(EarlierLook(TODAY, error, "a", n, bound_of(error, n, looks)))
    rng, years = np.random.default_rng(0), 100_000
    steps = rng.normal(size=(years, 12)) * np.sqrt(np.diff(rows, prepend=0.0))
    crosses = np.cumsum(steps, axis=1) / np.sqrt(rows) >= [look.bound for look in looks]
    first = crosses & (np.cumsum(crosses, axis=1) == 1)
    assert first.mean(axis=0)[:5] == pytest.approx([look.error for look in looks[:5]], abs=0.0025)
    assert crosses.any(axis=1).mean() == pytest.approx(0.1, abs=0.004)
    apart = [float(stats.norm.isf(look.error)) for look in looks]
    assert all(look.bound < bound for look, bound in zip(looks[1:], apart[1:], strict=True)), "less than Bonferroni's"


def test_a_chain_of_looks_is_of_one_pair_and_ends_with_a_promotion() -> None:
    """Other recipes start anew, and so does the pair after the candidate was promoted; old records have no chain."""
    looks = [
        EarlierLook(TODAY, 0.05, "a", 100.0, 1.6, promoted=True), EarlierLook(TODAY, 0.02, "b", 100.0, 1.7),
        EarlierLook(TODAY, 0.01, "a", 110.0, 1.8), EarlierLook(TODAY, 0.005, "a"), EarlierLook(TODAY, 0.1),
    ]  # fmt: skip
    assert same_pair(looks, "a") == [looks[2]]
    assert same_pair(looks, "b") == [looks[1]]
    assert same_pair(looks, "c") == same_pair(looks, "") == []
    told = decide("r2", Difference(0.0, 0.1, 50), newer=True, error=0.01, pair="b", earlier=looks)
    assert told.information == pytest.approx(100)
    assert EarlierLook.of(told, TODAY) == EarlierLook(TODAY, 0.01, "b", told.information, told.bound)
    assert told.level is not None
    assert (1 - told.level) / 2 > 0.01, "a second look at the same rows is made at more than it spends"
    assert EarlierLook.of(Decision("candidate", True, "", "r2"), TODAY).promoted


def test_draws_have_trained_on_different_rows_only() -> None:
    """Of 100 rows drawn with replacement 63 are different: n_test/n_train is 37/63, not 37/100."""
    scores = np.linspace(0, 1, 20)
    table = pd.DataFrame({"draw": range(20), "n_train": 100, "n_test": 37, "r2": scores})
    other = table.assign(r2=scores + np.sin(np.arange(20)))
    variance = np.var(np.sin(np.arange(20)), ddof=1)
    assert compare_draws(table, other, "r2", n_rows=100).se == pytest.approx((variance * (1 / 20 + 37 / 63)) ** 0.5)
    assert compare_draws(table, other, "r2").se == pytest.approx((variance * (1 / 20 + 37 / 100)) ** 0.5)


def test_the_simulation_compares_as_the_product_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arithmetic on arrays is that of the comparison of tables, with one repeat of the folds and with several."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import promotion

    rng = np.random.default_rng(0)
    y, said = rng.integers(0, 2, 120), rng.integers(0, 2, (2, 3, 120))
    labels = np.stack([rng.permutation(np.arange(120) % 5) for _ in range(3)])
    for repeats in (1, 3):
        frames = [
            pd.concat(
                pd.DataFrame({"row": range(120), "repeat": i, "fold": labels[i], "y": y, "prediction": side[i]})
                for i in range(repeats)
            )
            for side in said
        ]
        theirs = compare_predictions(*frames, "accuracy", ["row"], stratified=True)
        right = (said == y).astype(float)
        ours = promotion.compared((right[1] - right[0])[:repeats], labels[:repeats]).difference
        assert (ours.difference, ours.se, ours.df) == pytest.approx((theirs.difference, theirs.se, theirs.df))


def test_the_frontier_in_the_docs_is_that_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table is made of docs/promotion.json, and the rule keeps to what it promises of equal and worse recipes."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import promotion

    found = json.loads((ROOT / "docs" / "promotion.json").read_text(encoding="utf-8"))["rows"]
    assert promotion.table(found) in (ROOT / "docs" / "estimates.md").read_text(encoding="utf-8")
    ours = [each for each in found if each["rule"] == promotion.OURS]
    assert len(ours) == 2 * 4 * 3
    for each in ours:
        if each["case"] in ("equal", "2.7 points worse"):
            assert each["year"] <= promotion.AIMS[each["case"]], each
