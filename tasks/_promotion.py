"""Which recipe wins, and whether its model becomes the champion: one stated rule. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd
from evenfold.estimates import Comparison, compare, corrected_resampled_t

RULE = (
    "The candidate's recipe wins where the corrected t test over the same folds finds it better, or where it scores no "
    "lower than the champion's recipe and there are rows that the champion has not seen. Otherwise the champion's "
    "recipe stays, and is refitted where there are such rows. A winner that was refitted becomes the champion."
)


@dataclass(frozen=True)
class Decision:
    """What a comparison of recipes came to.

    ``winner``: whose recipe is refitted. ``promote``: whether the refitted model becomes the champion. ``difference``:
    the candidate's score minus the champion's (higher is better), with its interval, None without a comparison.
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
    rule: str = RULE

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


def decide(metric: str, compared: dict[str, Any], newer: bool) -> Decision:
    """Return the decision by RULE; ``compared`` is what ``compare_predictions`` or ``compare_draws`` returned."""
    low, high, difference = compared["low"], compared["high"], compared["difference"]
    told = {name: compared[name] for name in ("difference", "low", "high", "p", "words")}
    if low is not None and low > 0:
        return Decision("candidate", True, "the candidate is better by the corrected test", metric, **told)
    if high is not None and high < 0:
        why = "the candidate is worse by the corrected test"
        return Decision("champion", newer, f"{why}{_refitted(newer)}", metric, **told)
    if newer and difference >= 0:
        return Decision("candidate", True, "the candidate is not worse, and newer", metric, **told)
    why = "the test cannot tell them apart, and the candidate " + (
        "scores lower" if newer else "has seen no newer rows"
    )
    return Decision("champion", newer, f"{why}{_refitted(newer)}", metric, **told)


def _refitted(newer: bool) -> str:
    return "; the champion's recipe is refitted on newer rows" if newer else ""


def compare_predictions(
    champion: pd.DataFrame, candidate: pd.DataFrame, metric: str, on: list[str], stratified: bool
) -> dict[str, Any]:
    """Return the candidate's score minus the champion's over the same rows and folds, with the corrected interval."""
    names = ("the champion", "the candidate")
    found = compare(champion, candidate, metric, on=on, stratified=stratified, names=names)
    return _of_test(found.difference, found.test, found)


def compare_draws(champion: pd.DataFrame, candidate: pd.DataFrame, metric: str) -> dict[str, Any]:
    """Return the same from two tables of scores of the same draws."""
    both = champion.merge(candidate, on="draw", suffixes=("_a", "_b"))
    differences = (both[f"{metric}_b"] - both[f"{metric}_a"]).dropna()
    test = (
        corrected_resampled_t(differences, both["n_train_a"].mean(), both["n_test_a"].mean()) if len(both) > 1 else None
    )
    return _of_test(float(differences.mean()), test, None)


def _of_test(difference: float, test: Any, found: Comparison | None) -> dict[str, Any]:
    interval = test.interval if test is not None else None
    return {
        "difference": difference,
        "low": interval.low if interval is not None else None,
        "high": interval.high if interval is not None else None,
        "p": test.p if test is not None else None,
        "words": found.words if found is not None else "",
    }
