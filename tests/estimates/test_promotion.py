"""The rule of promotion: its boundaries, what it may spend, and the pairs that it compares."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates.promotion import YEARLY, Difference, compare_draws, decide, to_spend
from scipy import stats

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
    spent: list[tuple[date, float]] = []
    for month in range(36):
        day = TODAY + timedelta(days=30 * month)
        spent.append((day, to_spend(spent, day)))
        within = sum(error for other, error in spent if day - other < timedelta(days=365))
        assert within <= YEARLY + 1e-12
    assert [error for _, error in spent[:3]] == pytest.approx([0.05, 0.025, 0.0125])
    assert spent[13][1] > spent[12][1] * 0.5
    assert to_spend([(TODAY, 1.0)], TODAY) == 0


def test_nothing_left_to_spend_promotes_nobody() -> None:
    """However large the difference: an error of 0 cannot be had."""
    assert not decide("r2", Difference(9.0, 0.1, 10), newer=False, error=0.0).promote


def test_the_interval_is_at_the_level_that_was_spent() -> None:
    """Two-sided at 1 - 2 x error."""
    told = decide("r2", Difference(0.1, 0.05, 20), newer=False, error=0.025)
    assert told.level == pytest.approx(0.95)
    assert told.low == pytest.approx(0.1 - stats.t.ppf(0.975, 20) * 0.05)
    assert told.spent == 0.025


def test_draws_have_trained_on_different_rows_only() -> None:
    """Of 100 rows drawn with replacement 63 are different: n_test/n_train is 37/63, not 37/100."""
    scores = np.linspace(0, 1, 20)
    table = pd.DataFrame({"draw": range(20), "n_train": 100, "n_test": 37, "r2": scores})
    other = table.assign(r2=scores + np.sin(np.arange(20)))
    variance = np.var(np.sin(np.arange(20)), ddof=1)
    assert compare_draws(table, other, "r2", n_rows=100).se == pytest.approx((variance * (1 / 20 + 37 / 63)) ** 0.5)
    assert compare_draws(table, other, "r2").se == pytest.approx((variance * (1 / 20 + 37 / 100)) ** 0.5)
