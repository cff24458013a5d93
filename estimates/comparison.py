"""Two models on the same rows: which is better, by how much, and whether the data can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.rows import interval_of
from evenfold.estimates.intervals.splits import CorrectedT, corrected_resampled_t
from evenfold.estimates.metrics.record import Answered
from evenfold.estimates.metrics.registry import influence_of, metric_of
from evenfold.estimates.metrics.responses import replay
from evenfold.estimates.metrics.scoring import score
from evenfold.splitters.display import Displayed
from numpy.typing import NDArray

from .results import Interval, ModelError


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Two models' scores on the same rows. ``difference`` is B's score minus A's, so above 0 B is better.

    ``a``, ``b``: pooled scores (mean over repeats). ``interval``: of the difference, from paired differences of rows,
    None where the metric has no such form. ``test``: the corrected t of the folds' differences, None where the folds
    differ or there is one. ``words``: the result in a sentence. ``notes``: what to know of it.
    """

    metric: str
    a: float
    b: float
    difference: float
    interval: Interval | None
    test: CorrectedT | None
    n_rows: int
    words: str
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The result in a sentence."""
        return f"Comparison of {self.n_rows:,} rows: {self.words}"


def compare(
    predictions_a: pd.DataFrame,
    predictions_b: pd.DataFrame,
    metric: str,
    *,
    on: Sequence[str] = ("row",),
    groups: str | None = None,
    classes: tuple[Any, ...] | None = None,
    level: float = 0.95,
    stratified: bool = False,
    names: tuple[str, str] = ("A", "B"),
) -> Comparison:
    """Return the comparison of two frames of predictions, row by row.

    ``on``: the columns that name a row (the key); rows of one frame only are left out, and counted in a note.
    ``groups``: a column of both frames whose rows err together. ``stratified``: whether the folds are stratified on
    the target, which the corrected t is warned about. ``classes``: the labels, or None for those in y; a fractional y
    is regression. A paired comparison is sharper than two intervals: what is hard for both cancels out.
    Raises ModelError where no row is shared or the shared rows' targets differ.
    """
    a, b, notes = _paired(predictions_a, predictions_b, list(on), names)
    labels = _classes(a) if classes is None else classes
    values = [[_score(metric, part, labels) for _, part in frame.groupby("repeat")] for frame in (a, b)]
    score_a, score_b = (float(np.mean(each)) for each in values)
    difference = score_b - score_a
    interval = _by_rows(metric, a, b, labels, groups, list(on), difference, level)
    test = _by_folds(metric, a, b, labels, stratified, level)
    said = _words(metric, score_a, score_b, difference, interval or (test and test.interval) or None, names)
    return Comparison(metric, score_a, score_b, difference, interval, test, len(a), said, notes)


def _paired(
    a: pd.DataFrame, b: pd.DataFrame, on: list[str], names: tuple[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    by = [*on, "repeat"]
    for name, frame in zip(names, (a, b), strict=True):
        twice = int(frame.duplicated(by).sum())
        if twice:
            raise ModelError(f"{twice:,} rows of {name} have the same {', '.join(by)}; a key names one row.")
    left, right = (frame.set_index(by).sort_index() for frame in (a, b))
    shared = left.index.intersection(right.index)
    if not len(shared):
        raise ModelError(f"{names[0]} and {names[1]} share no row by {', '.join(on)}; compare runs of the same split.")
    left, right = left.loc[shared], right.loc[shared]
    differ = int((left["y"].to_numpy() != right["y"].to_numpy()).sum())
    if differ:
        raise ModelError(
            f"the target differs in {differ:,} of {len(shared):,} shared rows; compare runs on the same data."
        )
    notes = []
    if len(shared) < max(len(a), len(b)):
        sizes = f"{len(a):,} in {names[0]} and {len(b):,} in {names[1]}"
        notes.append(f"Compared on the {len(shared):,} shared rows of {sizes}.")
    if not np.array_equal(left["fold"].to_numpy(), right["fold"].to_numpy()):
        notes.append("The folds differ, so there is no test by folds, and the models had different training rows.")
    return left.reset_index(), right.reset_index(), tuple(notes)


def _classes(frame: pd.DataFrame) -> tuple[Any, ...]:
    y = frame["y"].to_numpy()
    return () if y.dtype.kind == "f" else tuple(np.unique(y).tolist())


def _answered(part: pd.DataFrame, classes: tuple[Any, ...]) -> Answered:
    weights = part["weight"].to_numpy() if "weight" in part else None
    return Answered(replay(part, classes), part["y"].to_numpy(), classes, weights)


def _score(metric: str, part: pd.DataFrame, classes: tuple[Any, ...]) -> float:
    rows = _answered(part, classes)
    return score(metric, rows.answers, rows.y, rows.weights)


def _by_rows(
    metric: str,
    a: pd.DataFrame,
    b: pd.DataFrame,
    classes: tuple[Any, ...],
    groups: str | None,
    on: list[str],
    difference: float,
    level: float,
) -> Interval | None:
    moves = np.empty(len(a))
    for places in a.groupby("repeat").indices.values():
        found = [influence_of(metric, _answered(frame.iloc[places], classes)) for frame in (a, b)]
        if found[0] is None or found[1] is None:
            return None
        moves[places] = found[1][1] - found[0][1]
    keys = a.groupby(on, sort=False).ngroup().to_numpy().astype(np.int64)  # repeats of a row are averaged first
    influence = np.bincount(keys, weights=moves) / np.bincount(keys)
    units = None if groups is None else _groups_of(a, groups, keys)
    if np.unique(keys if units is None else units).size < 2 or not np.all(np.isfinite(influence)):
        return None
    return interval_of(difference, influence, units, level=level)


def _groups_of(frame: pd.DataFrame, groups: str, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    codes = frame.groupby(groups, sort=False, dropna=False).ngroup().to_numpy().astype(np.int64)
    of_key = np.empty(keys.max() + 1, dtype=np.int64)
    of_key[keys] = codes
    return of_key


def _by_folds(
    metric: str, a: pd.DataFrame, b: pd.DataFrame, classes: tuple[Any, ...], stratified: bool, level: float
) -> CorrectedT | None:
    if not np.array_equal(a["fold"].to_numpy(), b["fold"].to_numpy()):
        return None
    differences, tested, trained = [], [], []
    of_repeat = a.groupby("repeat").size()
    for places in a.groupby(["repeat", "fold"]).indices.values():
        try:
            scores = [_score(metric, frame.iloc[places], classes) for frame in (a, b)]
        except ValueError:  # undefined in this fold
            return None
        differences.append(scores[1] - scores[0])
        tested.append(len(places))
        trained.append(int(of_repeat[a["repeat"].iloc[places[0]]]) - len(places))
    if len(differences) < 2 or min(trained) < 1 or not np.all(np.isfinite(differences)):
        return None
    return corrected_resampled_t(differences, trained, tested, level=level, stratified=stratified)


def _words(
    metric: str, a: float, b: float, difference: float, interval: Interval | None, names: tuple[str, str]
) -> str:
    better, apart = names[1] if difference > 0 else names[0], f"{abs(difference):.3g}"
    if interval is None:
        return f"{better} has the better {metric} by {apart}; whether by chance cannot be told."
    level = f"{interval.level:.0%}"
    if interval.low <= 0 <= interval.high:
        between = f"{level} [{interval.low:.3g}, {interval.high:.3g}]"
        return (
            f"These rows cannot tell: {metric} of {names[1]} minus that of {names[0]} is {difference:.3g}, {between}."
        )
    low, high = sorted((abs(interval.low), abs(interval.high)))
    return f"{better} is better by {apart} {metric}, {level} [{low:.3g}, {high:.3g}]{_fewer(metric, a, b)}."


def _fewer(metric: str, a: float, b: float) -> str:
    loss = metric_of(metric).loss
    if loss is None:
        return ""
    worse, good = sorted((loss.score(a), loss.score(b)), reverse=True)
    what = "fewer errors" if metric == "accuracy" else "less loss"
    return f"; {1 - good / worse:.0%} {what} on the same rows" if worse > 0 else ""


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
