"""The rule of promotion: its boundaries, what it may spend, and the pairs that it compares."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates.comparison import compare
from evenfold.estimates.intervals.splits import corrected_resampled_t
from evenfold.estimates.promotion import (
    YEARLY,
    Difference,
    compare_draws,
    compare_predictions,
    decide,
    same_recipe,
    to_spend,
    without_champion,
)
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


@pytest.mark.parametrize(("days", "left"), [(364, 0.025), (365, 0.05), (366, 0.05)])
def test_an_error_is_free_again_after_a_year_to_the_day(days: int, left: float) -> None:
    """On its anniversary, not the day before."""
    assert to_spend([(TODAY - timedelta(days=days), 0.05)], TODAY) == pytest.approx(left)
    assert to_spend([], TODAY, budget=0.4) == pytest.approx(0.2)


def test_without_a_comparison_nothing_is_spent() -> None:
    """No champion: the candidate is taken. One recipe: the champion stays, refitted where there are newer rows."""
    first = without_champion("r2", "there is no champion")
    assert (first.winner, first.promote, first.why) == ("candidate", True, "there is no champion")
    assert (first.spent, first.margin, first.difference, first.level) == (0.0, 0.0, None, None)
    refitted, nothing = same_recipe("r2", newer=True), same_recipe("r2", newer=False)
    assert (refitted.winner, refitted.promote, nothing.winner, nothing.promote) == ("champion", True, "champion", False)
    assert refitted.why == "the recipe is the champion's, refitted on newer rows"
    assert nothing.why == "recipe and rows are the champion's"


def test_an_interval_needs_an_error_and_a_standard_error() -> None:
    """Neither can be made up; degrees of freedom that nobody gave are the fewest."""
    assert Difference(0.1).interval(0.05) is None
    assert Difference(0.1, 0.05).interval(0.0) is None
    half = 0.05 * stats.t.isf(0.05, 1)
    assert Difference(0.1, 0.05).interval(0.05) == pytest.approx((0.1 - half, 0.1 + half))


@pytest.mark.parametrize(
    ("difference", "margin", "winner", "why"),
    [
        (0.5, 0.0, "candidate", "the candidate is better"),
        (0.5, 0.1, "candidate", "the candidate is better"),
        (0.0, 0.5, "candidate", "the candidate is not worse by more than 0.5"),
        (-0.5, 0.0, "champion", "the candidate is worse"),
        (0.01, 0.0, "champion", "the candidate is not shown to be better"),
        (-0.01, 0.1, "champion", "the candidate may be worse by more than 0.1"),
    ],
)
def test_a_decision_says_what_was_shown(difference: float, margin: float, winner: str, why: str) -> None:
    """In words, and whether rows that the champion has not seen are a reason to refit it."""
    compared = Difference(difference, 0.1, 30, words="over 30 rows")
    for newer in (False, True):
        made = decide("r2", compared, newer, margin=margin)
        assert made.winner == winner
        assert made.promote == (winner == "candidate" or newer)
        more = "; the champion's recipe is refitted on newer rows" if newer and winner == "champion" else ""
        assert made.why == why + more
        assert (made.difference, made.margin, made.metric, made.words) == (difference, margin, "r2", "over 30 rows")
        assert (made.low, made.high) == compared.interval(YEARLY / 2)
        assert made.p == pytest.approx(2 * stats.t.sf(abs(difference) / 0.1, 30))
        assert (made.spent, made.level) == (pytest.approx(0.05), pytest.approx(0.9))
        assert "10%" in made.rule
        assert f"above {-margin:g}" in made.rule


def test_a_difference_without_scatter_is_certain_or_none() -> None:
    """Its p is 0, or 1 where there is no difference at all; without a standard error there is none."""
    assert decide("r2", Difference(0.1, 0.0), newer=False).p == 0.0
    assert decide("r2", Difference(0.0, 0.0), newer=False).p == 1.0
    unknown = decide("r2", Difference(0.1), newer=False)
    assert (unknown.p, unknown.low, unknown.high, unknown.promote) == (None, None, None, False)
    assert unknown.why == "the candidate is not shown to be better"


def test_draws_that_both_have_scores_of_are_compared() -> None:
    """Draw by draw, candidate minus champion; a draw without a score is none, and one alone has no scatter."""
    table = pd.DataFrame({"draw": range(4), "n_train": [60, 64, 60, 64], "n_test": [40, 36, 40, 36]})
    champion, candidate = table.assign(r2=[0.1, 0.2, 0.3, 0.4]), table.assign(r2=[0.3, 0.3, 0.3, np.nan])
    found = compare_draws(champion, candidate, "r2")
    wanted = corrected_resampled_t(pd.Series([0.2, 0.1, 0.0]), 62.0, 38.0)
    assert (found.difference, found.se, found.df) == pytest.approx((wanted.mean, wanted.se, wanted.df))
    two = compare_draws(champion, candidate[1:3], "r2")
    assert two.se is not None
    alone = compare_draws(champion, candidate[:1], "r2")
    assert (alone.difference, alone.se) == (pytest.approx(0.2), None)


def test_predictions_are_compared_over_the_same_rows() -> None:
    """As ``compare`` compares them: candidate minus champion, with its standard error and degrees of freedom."""
    draw = np.random.default_rng(0)
    y = draw.normal(size=60)
    rows = pd.DataFrame({"id": range(60), "row": range(60), "repeat": 0, "fold": np.arange(60) % 3, "y": y})
    champion, candidate = rows.assign(prediction=y + 1.0), rows.assign(prediction=y + draw.normal(size=60) / 10)
    metric = "neg_mean_absolute_error"
    found = compare_predictions(champion, candidate, metric, ["id"], stratified=False)
    made = compare(champion, candidate, metric, on=["id"], stratified=False, names=("the champion", "the candidate"))
    assert made.se is not None
    assert (found.difference, found.se, found.df, found.words) == (made.difference, *made.se, made.words)
    assert found.difference > 0.8
