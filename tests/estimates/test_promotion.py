"""The rule of promotion: its boundaries, what it may spend, and the pairs that it compares."""

import json
from datetime import date, timedelta
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evaluations import frame_of
from evenfold.estimates.comparison import compare
from evenfold.estimates.intervals.methods import corrected_resampled_t
from evenfold.estimates.promotion import (
    OTHER_WEIGHTS,
    ROLES,
    YEARLY,
    Contrast,
    Decision,
    EarlierLook,
    bound_of,
    compare_draws,
    decide,
    same_pair,
    same_recipe,
    to_spend,
    without_champion,
)
from scipy import stats

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 21)


def test_a_lower_end_of_exactly_nothing_promotes_nobody() -> None:
    """Better means above; a difference of 0 that is quite sure is none."""
    assert decide("r2", Contrast(0.0, 0.0, 10), newer=True).winner == "champion"
    assert decide("r2", Contrast(1e-9, 0.0, 10), newer=True).why == "the candidate is better"


def test_a_margin_lets_in_what_is_not_worse_by_more() -> None:
    compared = Contrast(0.0, 0.01, 1_000)
    low = stats.t.isf(0.05, 1_000) * 0.01
    assert decide("r2", compared, newer=False, margin=low + 1e-6).promote
    assert not decide("r2", compared, newer=False, margin=low - 1e-6).promote
    assert "not worse by more than" in decide("r2", compared, newer=False, margin=low + 1e-6).why
    unsure = Contrast(0.0, 0.1, 10)
    assert "chance of 10% of" in decide("r2", unsure, newer=False).rule
    assert "must lie above 0." in decide("r2", unsure, newer=False).rule
    assert "must lie above -0.02." in decide("r2", unsure, newer=False, margin=0.02).rule
    assert "not worse by more than" in decide("r2", Contrast(0.0, 0.0, 9), newer=False, margin=0.1).why


def test_twelve_months_never_spend_more_than_the_year_may() -> None:
    """A fifth of what is left each time, at least .10/24; what is older than a year is free again."""
    spent: list[EarlierLook] = []
    for month in range(36):
        day = TODAY + timedelta(days=30 * month)
        spent.append(EarlierLook(day, to_spend(spent, day)))
        within = sum(look.error for look in spent if day - look.day < timedelta(days=365))
        assert within <= YEARLY + 1e-12
    assert [look.error for look in spent[:3]] == pytest.approx([0.02, 0.016, 0.0128])
    assert [look.error for look in spent[8:11]] == pytest.approx([YEARLY / 24] * 3)
    assert min(look.error for look in spent) > YEARLY / 100, "the last months of a year are not starved"
    assert to_spend([EarlierLook(TODAY, 1.0)], TODAY) == 0
    for days, rest in ((364, 0.008), (365, 0.02)):
        assert to_spend([EarlierLook(TODAY - timedelta(days=days), 0.06)], TODAY) == pytest.approx(rest)


def test_a_candidate_that_is_shown_to_be_worse_is_called_so() -> None:
    certain, unsure = Contrast(-0.1, 0.01, 100), Contrast(-0.01, 0.01, 100)
    assert decide("r2", certain, newer=False).why == "the candidate is worse"
    assert decide("r2", unsure, newer=False).why == "the candidate is not shown to be better"
    assert decide("r2", Contrast(0.0, 0.0, 10), newer=False).why == "the candidate is not shown to be better"
    refitted = "the candidate is worse; the champion's recipe is refitted on newer rows"
    assert decide("r2", certain, newer=True).why == refitted


def test_a_first_look_is_made_at_what_it_spends() -> None:
    """Its bound is the normal one of its error, one-sided, its interval Student's t at 1 - 2 x error, its p two-sided.

    Without scatter or anything to spend there is none, and degrees of freedom that nobody gave are the fewest.
    """
    first = decide("r2", Contrast(0.1, 0.05, 20), newer=False, error=0.025)
    assert (first.level, first.low) == pytest.approx((0.95, 0.1 - stats.t.ppf(0.975, 20) * 0.05))
    assert first.spent == 0.025
    for difference in (0.1, -0.1):
        told = decide("r2", Contrast(difference, 0.05, 20), newer=False)
        assert told.p == pytest.approx(2 * stats.t.sf(2.0, 20))
    assert not decide("r2", Contrast(9.0, 0.1, 10), newer=False, error=0.0).promote, "an error of 0 cannot be had"
    assert decide("r2", Contrast(0.1, 0.05), newer=False, error=0.0).low is None
    half = 0.05 * stats.t.isf(0.05, 1)
    fewest = decide("r2", Contrast(0.1, 0.05), newer=False, error=0.05)
    assert (fewest.low, fewest.high) == pytest.approx((0.1 - half, 0.1 + half))
    assert [decide("r2", Contrast(each, 0.0), newer=False).p for each in (0.1, 0.0)] == [0.0, 1.0]
    unknown = decide("r2", Contrast(0.1), newer=False)
    assert (unknown.p, unknown.low, unknown.high, unknown.promote) == (None, None, None, False)
    assert unknown.why == "the candidate is not shown to be better"
    assert first.bound == pytest.approx(stats.norm.isf(0.025))
    assert first.information == pytest.approx(400)
    for compared, error in ((Contrast(0.1, 0.05, 20), 0.0), (Contrast(0.1, 0.0, 20), 0.05), (Contrast(0.1), 0.1)):
        told = decide("r2", compared, newer=False, error=error)
        assert (told.bound, told.level) == (None, pytest.approx(1 - 2 * error))


def test_a_look_that_may_spend_more_than_is_left_has_the_lowest_bound() -> None:
    """Of all years without a difference .95 reach a second look at all; with .999 to spend each of them may cross."""
    assert bound_of(0.999, 100.0, [EarlierLook(TODAY, 0.05, "a", 100.0, float(stats.norm.isf(0.05)))]) == 0.0


def test_looks_of_which_nothing_is_known_are_taken_for_unlike() -> None:
    bound = float(stats.norm.isf(0.05))
    alike, unlike = (bound_of(0.01, 100.0, [EarlierLook(TODAY, 0.05, "a", known, bound)]) for known in (99.0, 1e-9))
    assert alike < unlike
    assert unlike == pytest.approx(stats.norm.isf(0.01 / 0.95), abs=0.02)
    unknown = [EarlierLook(TODAY, 0.05, "a", 100.0), EarlierLook(TODAY, 0.05, "a", None, 1.6)]
    unknown += [EarlierLook(TODAY, 0.05, "a", known, 1.6) for known in (inf, inf, nan)]
    assert bound_of(0.01, 100.0, unknown) == pytest.approx(stats.norm.isf(0.01))
    known = EarlierLook(TODAY, 0.05, "a", 99.0, bound)
    assert bound_of(0.01, 100.0, [*unknown, known]) == bound_of(0.01, 100.0, [known])


@pytest.mark.parametrize(
    ("rows", "error", "later"),
    [((350, 360), 0.05, 0.025), ((350, 700), 0.05, 0.025), ((900, 100), 0.03, 0.01), ((350, 700), 0.05, 1e-30)],
)
def test_a_second_look_crosses_its_bound_first_as_often_as_it_spends(rows: Any, error: float, later: float) -> None:
    """The chance that it does and the first did not is the integral of two normals, within 0.2 % of it."""
    first = float(stats.norm.isf(error))
    bound = bound_of(later, rows[1], [EarlierLook(TODAY, error, "a", rows[0], first)])
    alike = (min(rows) / max(rows)) ** 0.5
    z = np.linspace(-8, first, 4001)
    chance = np.trapezoid(stats.norm.pdf(z) * stats.norm.sf((bound - alike * z) / (1 - alike**2) ** 0.5), z)
    assert chance == pytest.approx(later, rel=0.002)


LOOKS = {"rows grow from 350 to 900": np.linspace(350, 900, 12), "hardly any join": np.linspace(350, 360, 12),
         "rows double each month": 350 * 2.0 ** np.arange(12)}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_looks_at_growing_rows_spend_what_they_say(name: str) -> None:
    """Of many years without a difference, each look is the first to promote in the share that it was given."""
    rows, looks = LOOKS[name], []
    for month, n in enumerate(rows):
        error = 0.05 * 0.5**month
        looks.append(EarlierLook(TODAY, error, "a", n, bound_of(error, n, looks)))
    rng, years = np.random.default_rng(0), 60_000
    steps = rng.normal(size=(years, 12)) * np.sqrt(np.diff(rows, prepend=0.0))
    crosses = np.cumsum(steps, axis=1) / np.sqrt(rows) >= [look.bound for look in looks]
    first = crosses & (np.cumsum(crosses, axis=1) == 1)
    assert first.mean(axis=0)[:5] == pytest.approx([look.error for look in looks[:5]], abs=0.0025)
    assert crosses.any(axis=1).mean() == pytest.approx(0.1, abs=0.004)
    apart = [float(stats.norm.isf(look.error)) for look in looks]
    assert all(look.bound < bound for look, bound in zip(looks[1:], apart[1:], strict=True)), "less than Bonferroni's"


def test_a_year_of_weekly_looks_has_a_bound_at_each() -> None:
    looks: list[EarlierLook] = []
    for week in range(52):
        day = TODAY + timedelta(weeks=week)
        rows, error = 1_000.0 * (week + 1), to_spend(looks, day)
        looks.append(EarlierLook(day, error, "a", rows, bound_of(error, rows, looks)))
    apart = [float(stats.norm.isf(look.error)) for look in looks]
    assert all(0 < bound - look.bound < 1.2 for look, bound in zip(looks[1:], apart[1:], strict=True))


@pytest.mark.parametrize(("metric", "n"), [("accuracy", 4), ("mae", 40)])
def test_rows_that_all_show_the_same_difference_promote_nobody(metric: str, n: int) -> None:
    """Four rows in two folds, each wrong of one and right of the other: a standard error of 0 passed any bound."""
    y = np.arange(n) % 2 if metric == "accuracy" else np.arange(n) / 4
    wrong = 1 - y if metric == "accuracy" else y + 1
    champion, candidate = (frame_of(y, said, np.arange(n) % 2) for said in (wrong, y))
    found = Contrast.of(compare(champion, candidate, metric))
    assert (found.difference, found.se) == (1.0, None)
    assert decide(metric, found, newer=True, error=0.05).winner == "champion"
    (note,) = [note for note in compare(champion, candidate, metric).notes if "the same difference" in note]
    assert note == "every row shows the same difference, so nothing says how far another sample would be off."
    same = Contrast.of(compare(champion, champion, metric, names=ROLES))
    assert (same.se, same.words) == (0.0, "the champion and the candidate score alike on every row.")


def test_a_chain_of_looks_is_of_one_pair_and_ends_with_a_promotion() -> None:
    """Other recipes start anew, and so does the pair after the candidate was promoted; old records have no chain."""
    looks = [
        EarlierLook(TODAY, 0.05, "a", 100.0, 1.6, promoted=True), EarlierLook(TODAY, 0.02, "b", 100.0, 1.7),
        EarlierLook(TODAY, 0.01, "a", 110.0, 1.8), EarlierLook(TODAY, 0.005, "a"), EarlierLook(TODAY, 0.1),
    ]  # fmt: skip
    assert same_pair(looks, "a") == looks[2:4]
    assert same_pair(looks, "b") == [looks[1]]
    assert same_pair(looks, "c") == same_pair(looks, "") == []
    told = decide("r2", Contrast(0.0, 0.1, 50), newer=True, error=0.01, pair="b", earlier=looks)
    assert told.information == pytest.approx(100)
    assert EarlierLook.of(told, TODAY) == EarlierLook(TODAY, 0.01, "b", told.information, told.bound)
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


def test_without_a_comparison_nothing_is_spent() -> None:
    first = without_champion("r2", "there is no champion")
    assert (first.winner, first.promote, first.why) == ("candidate", True, "there is no champion")
    assert (first.spent, first.margin, first.difference, first.level) == (0.0, 0.0, None, None)
    refitted, nothing = same_recipe("r2", newer=True), same_recipe("r2", newer=False)
    assert (refitted.winner, refitted.promote, nothing.winner, nothing.promote) == ("champion", True, "champion", False)
    assert refitted.why == "the recipe is the champion's, refitted on newer rows"
    assert nothing.why == "recipe and rows are the champion's"


def test_draws_that_both_have_scores_of_are_compared() -> None:
    table = pd.DataFrame({"draw": range(4), "n_train": [60, 64, 60, 64], "n_test": [40, 36, 40, 36]})
    champion, candidate = table.assign(r2=[0.1, 0.2, 0.3, 0.4]), table.assign(r2=[0.3, 0.3, 0.3, np.nan])
    found = compare_draws(champion, candidate, "r2")
    wanted = corrected_resampled_t(pd.Series([0.2, 0.1, 0.0]), 62.0, 38.0)
    assert (found.difference, found.se, found.df) == pytest.approx((wanted.mean, wanted.se, wanted.df))
    two = compare_draws(champion, candidate[1:3], "r2")
    assert two.se is not None
    alone = compare_draws(champion, candidate[:1], "r2")
    assert (alone.difference, alone.se, alone.words) == (pytest.approx(0.2), None, "")
    weighed = compare_draws(champion, candidate, "r2", weights=("w", None))
    assert (weighed.se, weighed.words) == (None, OTHER_WEIGHTS.format("w", "no weights"))


def test_draws_that_all_show_the_same_difference_promote_nobody() -> None:
    table = pd.DataFrame({"draw": range(5), "n_train": 60, "n_test": 30, "r2": np.arange(5) / 10})
    for champion in (table.assign(r2=0.8), table):
        found = compare_draws(champion, champion.assign(r2=champion["r2"] + 0.1), "r2")
        assert (found.difference, found.se) == (pytest.approx(0.1), None)
        assert "Each of 5 draws shows the same difference" in decide("r2", found, newer=False).words
        assert not decide("r2", found, newer=False).promote


def test_predictions_are_compared_over_the_same_rows() -> None:
    draw = np.random.default_rng(0)
    y = draw.normal(size=60)
    rows = pd.DataFrame({"id": range(60), "row": range(60), "repeat": 0, "fold": np.arange(60) % 3, "y": y})
    champion, candidate = rows.assign(prediction=y + 1.0), rows.assign(prediction=y + draw.normal(size=60) / 10)
    metric = "neg_mean_absolute_error"
    found = Contrast.of(compare(champion, candidate, metric, on=["id"]))
    assert found.difference > 0.8
    learnt = Contrast.of(compare(champion, candidate, metric, on=["id"], n_train=20.0))
    assert learnt.se == pytest.approx(found.se * (4 / 2.5) ** 0.5), "1 + 60/20 in place of 1 + 60/40"
    assert Contrast.of(compare(champion, candidate, metric, on=["id"], apparent=(-1.0, -0.08))).se < found.se


def test_the_simulation_compares_as_the_product_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import promotion

    rng, rows = np.random.default_rng(0), np.arange(120)
    y = rng.integers(0, 2, 120)
    said = np.clip(rng.normal(0.3 + 0.4 * y, 0.2, (2, 120)), 0.01, 0.99)
    frames = [frame_of(y, (p > 0.5).astype(int), rows % 5, proba_0=1 - p, proba_1=p) for p in said]
    for name, metric in (("accuracy", "accuracy"), ("AUC", "roc_auc"), ("log loss", "neg_log_loss")):
        training = np.stack([rows % 5 != fold for fold in range(5)])
        apparent = [np.mean([promotion._influence(name, p[seen], y[seen])[0] for seen in training]) for p in said]
        theirs = Contrast.of(compare(*frames, metric, stratified=True, apparent=tuple(apparent)))
        ours = promotion.compared(name, list(said), [np.stack([p] * 5) for p in said], training, y)
        assert (ours.difference, ours.se, ours.df) == pytest.approx((theirs.difference, theirs.se, theirs.df))


def test_the_curve_in_the_docs_is_that_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import promotion

    found = json.loads((ROOT / "docs" / "results" / "promotion.json").read_text(encoding="utf-8"))["rows"]
    assert promotion.table(found) in (ROOT / "docs" / "estimates.md").read_text(encoding="utf-8")
    wrong = [row["12"] for row in found if row["rule"] == promotion.OURS and row["case"].startswith("equal")]
    assert len(wrong) == 2 * 3
    assert max(wrong) <= YEARLY
