"""Whether a candidate's recipe replaces the champion's: a rule whose error over a year of looks is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, Literal

import pandas as pd
from evenfold.estimates.intervals.splits import corrected_resampled_t
from scipy import stats

from .comparison import compare

# The chance, over any twelve months of one name, that a recipe that is no better is promoted.
YEARLY = 0.10
YEAR = timedelta(days=365)
RULE = (
    "The champion's recipe stays unless the candidate is shown to be better: the lower end of the difference, at the "
    "level that is left of a yearly chance of {budget:.0%} of promoting one that is no better, must lie above "
    "{least:g}. Each comparison spends half of what the last twelve months have left, so that looking every month "
    "does not add up. Where there are rows that the champion has not seen, the winner is refitted and becomes the "
    "champion."
)


def to_spend(spent: Sequence[tuple[date, float]], today: date, budget: float = YEARLY) -> float:
    """Return the one-sided error that a comparison may have today: half of what the last twelve months left.

    ``spent``: the day and the error of earlier comparisons of the name. Whatever their dependence, the errors of any
    twelve months add up to at most ``budget`` (Bonferroni, spent as in Lan and DeMets 1983).
    """
    used = sum(error for day, error in spent if today - day < YEAR)
    return max(budget - used, 0.0) / 2


@dataclass(frozen=True)
class Decision:
    """What a comparison of recipes came to.

    ``winner``: whose recipe is refitted. ``promote``: whether the refitted model becomes the champion. ``difference``:
    the candidate's score minus the champion's (higher is better), None without a comparison. ``low``, ``high``: its
    two-sided interval at ``level``, 1 - 2 x ``spent``, the one-sided error that the comparison has used up.
    ``margin``: how much worse a candidate may be.
    """

    winner: Literal["candidate", "champion"]
    promote: bool
    why: str
    metric: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    words: str = ""
    rule: str = ""
    level: float | None = None
    spent: float = 0.0
    margin: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


def without_champion(metric: str, why: str) -> Decision:
    """Return the decision where there is no champion, or none that can be compared."""
    return Decision("candidate", True, why, metric)


def same_recipe(metric: str, newer: bool) -> Decision:
    """Return the decision where candidate and champion are one recipe."""
    why = "the recipe is the champion's, refitted on newer rows" if newer else "recipe and rows are the champion's"
    return Decision("champion", newer, why, metric)


@dataclass(frozen=True)
class Difference:
    """The candidate's score minus the champion's with its standard error and degrees of freedom (None: unknown)."""

    difference: float
    se: float | None = None
    df: float = 1.0
    words: str = ""

    def interval(self, error: float) -> tuple[float, float] | None:
        """Return the ends that the difference passes with this chance on each side; None where nothing says."""
        if self.se is None or error <= 0:
            return None
        half = float(stats.t.isf(error, self.df)) * self.se
        return self.difference - half, self.difference + half


def decide(
    metric: str, compared: Difference, newer: bool, *, error: float = YEARLY / 2, margin: float = 0.0
) -> Decision:
    """Return the decision by RULE; ``error``: see ``to_spend``; ``margin``: how much worse a candidate may be.

    A margin of 0 promotes only what is shown to be better; with a margin also what is shown to be no worse than that.
    """
    ends = compared.interval(error)
    low, high = ends if ends is not None else (None, None)
    p = None if compared.se is None else _p(compared)
    told: dict[str, Any] = {
        "difference": compared.difference, "low": low, "high": high, "p": p, "words": compared.words,
        "rule": RULE.format(budget=YEARLY, least=-margin), "level": 1 - 2 * error, "spent": error, "margin": margin,
    }  # fmt: skip
    if low is not None and low > -margin:
        why = "the candidate is better" if low > 0 else f"the candidate is not worse by more than {margin:g}"
        return Decision("candidate", True, why, metric, **told)
    if high is not None and high < 0:
        why = "the candidate is worse"
    else:
        why = "the candidate is not shown to be better" if margin == 0 else "the candidate may be worse by more than "
        why += "" if margin == 0 else f"{margin:g}"
    refitted = "; the champion's recipe is refitted on newer rows" if newer else ""
    return Decision("champion", newer, f"{why}{refitted}", metric, **told)


def _p(compared: Difference) -> float:
    if not compared.se:
        return 1.0 if compared.difference == 0 else 0.0
    return float(2 * stats.t.sf(abs(compared.difference) / compared.se, compared.df))


def compare_predictions(
    champion: pd.DataFrame, candidate: pd.DataFrame, metric: str, on: Sequence[str], stratified: bool
) -> Difference:
    """Return the candidate's score minus the champion's over the same rows and folds; groups count as one each."""
    names = ("the champion", "the candidate")
    made = compare(champion, candidate, metric, on=on, stratified=stratified, names=names)
    if made.se is None:
        return Difference(made.difference, words=made.words)
    return Difference(made.difference, *made.se, made.words)


def compare_draws(
    champion: pd.DataFrame, candidate: pd.DataFrame, metric: str, *, n_rows: int | None = None
) -> Difference:
    """Return the same from two tables of scores of the same draws.

    ``n_rows``: for draws with replacement, how many rows they are drawn from; their models have seen n_rows - n_test
    different ones, however many draws that was.
    """
    both = champion.merge(candidate, on="draw", suffixes=("_a", "_b"))
    differences = (both[f"{metric}_b"] - both[f"{metric}_a"]).dropna()
    if len(differences) < 2:
        return Difference(float(differences.mean()))
    n_test = both["n_test_a"].to_numpy(dtype=float)
    trained = both["n_train_a"].to_numpy(dtype=float) if n_rows is None else n_rows - n_test
    test = corrected_resampled_t(differences, float(trained.mean()), float(n_test.mean()))
    return Difference(test.mean, test.se, test.df)
