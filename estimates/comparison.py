"""Two recipes on the same rows: which is better, by how much, and whether the data can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan, sqrt
from typing import Any, Literal

import numpy as np
import pandas as pd
from evenfold.estimates.intervals import methods
from evenfold.estimates.intervals.evidence import least_share, overfitting, per_row
from evenfold.estimates.intervals.methods import CorrectedT, Spread
from evenfold.estimates.intervals.pairing import SharedRows, exact_test, same_answers, score_of
from evenfold.estimates.metrics.registry import influence_of, metric_of
from evenfold.estimates.results import Declined, Estimate, Interval, require_level, rounded
from evenfold.splitters.errors import Displayed, ModelError
from scipy import stats

Verdict = Literal["better", "worse", "equivalent", "unknown"]
SAME_DIFFERENCE = "every {} shows the same difference, so nothing says how far another sample would be off."


@dataclass(frozen=True, repr=False)
class Comparison(Displayed):
    """Two recipes' scores on the same rows. ``difference`` is B's score minus A's, so above 0 B is better.

    The standard error is from the rows' paired influences: what is hard for both cancels out. The variance is that of
    the fitted models' difference times 1/repeats + n/n_train (Nadeau and Bengio 2003), for other rows would have
    trained other models; in one round of the same folds n/n_train counts by 1.5 times the square root of the larger
    ``overfitting`` of the two; with repeats it is at least the corrected t's. One round calls one of two equal recipes
    better in at most .053 of the cases at level .95 in the settings of docs/results/comparisons.json, repeats in .083.

    ``a``, ``b``: pooled scores (mean over repeats). ``interval``: of the difference between the *recipes*, trained on
    such rows, on new ones; None where nothing says how sure it is. ``of_models``: of the difference between *these
    fitted models* on new rows. ``p``: of no difference, by ``interval``'s test. ``se``: that difference's standard
    error and degrees of freedom. ``test``: the corrected t of the folds' differences, None where folds differ, there is
    one, or all show the same. ``verdict``: of B: ``better`` or ``worse`` where the interval excludes 0, ``equivalent``
    where it lies within the ``margin``, else ``unknown``. ``words``: the result in sentences. ``n_fits``: of both.
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
    of_models: Interval | None = None
    p: float | None = None
    verdict: Verdict = "unknown"
    margin: float = 0.0
    se: tuple[float, float] | None = None
    repeats: int = 1
    n_fits: int = 2

    @property
    def resolution(self) -> float | None:
        """The smallest difference that would have been told from none: half the interval's width."""
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def summary(self) -> str:
        """The result in a sentence."""
        return f"Comparison of {self.n_rows:,} rows: {self.words}"


def compare(
    predictions_a: pd.DataFrame, predictions_b: pd.DataFrame, metric: str, *,
    on: Sequence[str] = ("row",), groups: str | None = None, classes: tuple[Any, ...] | None = None,
    level: float = 0.95, margin: float = 0.0, stratified: bool = False, ordered: bool = False,
    n_train: float | None = None, apparent: tuple[float, float] | None = None, names: tuple[str, str] = ("A", "B"),
) -> Comparison:  # fmt: skip
    """Return the comparison of two frames of predictions, row by row; ``Comparison`` says how the test works.

    ``on``: the columns that name a row (the key); rows of one frame only are left out and counted in a note. Both are
    scored with A's weights, or none. ``groups``: a column of both frames whose rows err together; by default ``group``.
    ``classes``: the labels; by default those of y, of predictions and of probabilities. ``margin``: the difference that
    does not matter, in the metric's units. ``stratified``: whether folds are, on the target. ``ordered``: whether folds
    are stretches of time; each is then one observation, and fewer than 3 give no interval. ``n_train``: how many rows a
    model learnt from, on average; by default all rows tested in other folds. ``apparent``: mean scores of A's and B's
    models on their own training rows. Raises ModelError for a level outside of (0, 1), where a frame lacks a column, no
    row is shared, targets differ, the metric is undefined, or each of several repeats has one fold and no ``n_train``.
    """
    require_level(level)
    shared = SharedRows.of(predictions_a, predictions_b, metric_of(metric), on, groups, classes, names)
    (a, b), scores = shared.frames, shared.scores()
    groups = "fold" if ordered else groups or ("group" if "group" in a and "group" in b else None)
    reason = methods.too_few(a["fold"].nunique()) if ordered else ""
    test = None if reason else _by_folds(shared, stratified, level, n_train)
    of_rows = None if reason else _by_rows(shared, groups)
    if isinstance(of_rows, Declined):
        reason, of_rows = of_rows.reason if test is None else "", None
    inflation, exact = _inflation(shared, scores, n_train, of_rows, apparent), exact_test(shared, groups, names)
    method = "paired stretches of time" if ordered else "paired rows"
    difference, repeats, splits = scores[1] - scores[0], len(shared.tested), len(shared.sizes)
    se = None if of_rows is None else (of_rows[0] * sqrt(inflation), of_rows[1])
    if test is not None and (se is None or (repeats > 1 and test.se > se[0])):
        se = test.se, test.df
    interval = of_models = methods.around(difference, of_rows, level, method, "these fitted models")
    if splits > 1:
        how = f"{method}, corrected for training"
        interval = methods.around(difference, se, level, how, "these recipes on new data")
    p, verdict = None if se is None else p_of(difference, *se), _verdict(interval, margin)
    if exact is not None and splits == 1:  # one model each, on rows that nobody else was tested on: it decides
        p = exact[0]
        verdict = "unknown" if p >= 1 - level and verdict in ("better", "worse") else verdict
    comparison = Comparison(
        metric=shared.metric.name, a=scores[0], b=scores[1], difference=difference, interval=interval, test=test,
        n_rows=shared.n, words="", of_models=of_models, p=p, verdict=verdict, margin=margin, se=se, repeats=repeats,
        notes=(*shared.notes, *([exact[1]] if exact else []), *([reason] if reason else [])), n_fits=2 * splits,
    )  # fmt: skip
    return replace(comparison, words=_words(comparison, names, same_answers(a, b)))


def compare_same(before: pd.DataFrame, after: pd.DataFrame, metric: str, on: list[str]) -> Comparison | None:
    """Return the comparison of the rows that both tested with the same target; None where they are less than half."""
    by = [*on, "repeat"]
    if on == ["row"] or not set(on) <= set(after.columns):  # a row's number names another row by now
        return None
    try:
        both = before[[*by, "y"]].merge(after[[*by, "y"]], on=by, suffixes=("", "_now"))
        same = both.loc[both["y"] == both["y_now"], by]
        if len(same) < max(2, len(both) / 2):
            return None
        return compare(before.merge(same, on=by), after.merge(same, on=by), metric, on=on)
    except (ModelError, ValueError, TypeError, KeyError):  # of other types than they were: nothing to pair
        return None


@dataclass(frozen=True)
class RecordedScore:
    """The score of a version's recipe: a metric by a method, and its interval where it had one."""

    metric: str
    method: str
    value: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None

    def fall(self, now: Estimate, same: Callable[[], Comparison | None]) -> tuple[float, str, dict[str, float]] | None:
        """Return how far a refit fell below it, in what chance may take off it, in a sentence, and in figures.

        ``same`` compares both on the same rows, where need be. None: the estimate is another, or no number says what
        chance may take.
        """
        spread = nan if self.sd is None else self.sd
        half, why = 2 * spread, "twice the spread of the champion's splits, with no interval,"
        if self.low is not None and self.high is not None:
            half, why = (self.high - self.low) / 2, "half the width of the champion's recorded interval"
        if (self.metric, self.method) != (now.metric, now.method) or not isfinite(half + self.value):
            return None
        pair, where = (self.value, now.value), "on all rows of each, for none could be paired,"
        if (both := same()) is not None:
            pair, where = (both.a, both.b), f"on the {both.n_rows:,} rows that both tested"
        title, fell = metric_of(self.metric), pair[0] - pair[1]
        figure = fell / half if half > 0 else (1e9 if fell > 0 else 0.0)
        words = f"{title.title} {where} went from {title.shown(pair[0]):.4g} to {title.shown(pair[1]):.4g}"
        return max(figure, 0.0), f"{words}; {why} is {half:.3g}.", {"fell": fell, "half_width": half}


def apparent_of(a: Sequence[Estimate], b: Sequence[Estimate], metric: str) -> tuple[float, float] | None:
    """Return what two evaluations score on their training rows, where both say it."""
    first, second = (next((each.apparent for each in side if each.metric == metric), None) for side in (a, b))
    return None if first is None or second is None else (first, second)


def training_counts(both: Iterable[tuple[float, float]], best: float, df: float) -> float:
    """Return the part of n/n_train that counts of one round of the same folds, by the recipe that overfits more."""
    most = max(overfitting(value, apparent, best) for value, apparent in both)
    return max(min(1.0, 1.5 * sqrt(most)), least_share(df))


def _verdict(interval: Interval | None, margin: float) -> Verdict:
    if interval is None:
        return "unknown"
    if interval.low > 0:
        return "better"
    if interval.high < 0:
        return "worse"
    return "equivalent" if max(-interval.low, interval.high) < margin else "unknown"


def _inflation(
    shared: SharedRows, scores: list[float], n_train: float | None, of_rows: Spread | None,
    apparent: tuple[float, float] | None,
) -> float:  # fmt: skip
    """Return the variance of the recipes' difference over that of the fitted models' difference; 1 for one split."""
    if len(shared.sizes) == 1:
        return 1.0
    n, repeats, counts = float(shared.tested.mean()), len(shared.tested), 1.0
    learnt = n_train or float(np.mean(n - shared.sizes.to_numpy()))
    if learnt < 1:
        what = f"each of the {repeats} repeats has one fold, which does not say how many rows its model learnt from"
        raise ModelError(f"{what}; give n_train.")
    if apparent is not None and of_rows is not None and repeats == 1 and shared.same_folds:
        counts = training_counts(zip(scores, apparent, strict=True), shared.metric.high, of_rows[1])
    return 1 / repeats + n / learnt * counts


def p_of(difference: float, se: float, df: float) -> float:
    """Return how often a difference at least so far from 0 comes about where there is none, by Student's t."""
    if se == 0:
        return 1.0 if difference == 0 else 0.0
    return float(2 * stats.t.sf(abs(difference) / se, df))


def _by_rows(shared: SharedRows, groups: str | None) -> Spread | Declined | None:
    """Return the standard error of the fitted models' difference and its degrees of freedom, from paired rows."""
    parts = list(shared.frames[0].groupby("repeat").indices.values())
    moved, value, difference = [], 0.0, 0.0
    for lines in parts:
        both = [influence_of(shared.metric.name, rows) for rows in shared.answered(lines)]
        if both[0] is None or both[1] is None:
            return None
        # Of the same rows: what is hard for both recipes cancels out here.
        moved.append(both[1][1] - both[0][1])
        value, difference = both[0][0], both[1][0] - both[0][0]
    influence, units = per_row([shared.keys[lines] for lines in parts], moved, shared.n), None
    if groups is not None:
        units = np.empty(shared.n, dtype=np.int64)
        units[shared.keys] = shared.frames[0].groupby(groups, sort=False, dropna=False).ngroup().to_numpy()
    if np.unique(shared.keys if units is None else units).size < 2 or not np.all(np.isfinite(influence)):
        return None
    if methods.cancels(influence, units, value):
        return Declined(SAME_DIFFERENCE.format("group or stretch of time"))
    if difference and not methods.has_influence(influence, value):
        return Declined(SAME_DIFFERENCE.format("row"))
    return methods.standard_error(influence, units)


def _by_folds(shared: SharedRows, stratified: bool, level: float, n_train: float | None) -> CorrectedT | None:
    if not shared.same_folds:
        return None
    differences, tested, trained = [], [], []
    for lines in shared.frames[0].groupby(["repeat", "fold"]).indices.values():
        try:
            scores = [score_of(shared.metric.name, frame.iloc[lines], shared.classes) for frame in shared.frames]
        except ValueError:  # undefined in this fold
            return None
        differences.append(scores[1] - scores[0])
        tested.append(len(lines))
        trained.append(n_train or float(shared.tested[shared.frames[0]["repeat"].iloc[lines[0]]]) - len(lines))
    usable = len(differences) > 1 and min(trained) >= 1 and np.all(np.isfinite(differences))
    if not usable or not methods.scatter(np.asarray(differences)):  # all alike: they say nothing of others
        return None
    return methods.corrected_resampled_t(differences, trained, tested, level=level, stratified=stratified)


def _words(comparison: Comparison, names: tuple[str, str], alike: bool) -> str:
    record, interval = metric_of(comparison.metric), comparison.interval
    first, second = names
    if comparison.difference == 0 and (alike if interval is None else interval.high == interval.low):
        return f"{first} and {second} score alike on every row."
    if comparison.difference == 0 and interval is None:
        return f"{first} and {second} have the same {record.title}; whether by chance cannot be told."
    better, apart = second if comparison.difference > 0 else first, rounded(abs(comparison.difference), 3)
    if interval is None:
        return f"{better} has the better {record.title} by {apart}; whether by chance cannot be told."
    difference, between = rounded(record.shown(comparison.difference), 3), interval.read(record).said(3)
    apart_as_read = f"{record.title} of {second} minus that of {first} is {difference}, {between}"
    on_what = "as recipes on new data" if interval.of.startswith("these recipes") else "as fitted models on new rows"
    if comparison.verdict in ("better", "worse"):
        low, high = sorted((abs(interval.low), abs(interval.high)))
        sentence = f"{better} is better by {apart} {record.title}, {replace(interval, low=low, high=high).said(3)}"
        if record.loss is not None:
            best, worst = sorted(map(record.loss.score, (comparison.a, comparison.b)))
            what = "fewer errors" if record.loss.share else "less loss"
            sentence += f"; {1 - best / worst:.0%} {what} on the same rows" if worst > 0 else ""
        return f"{sentence}, {on_what}."
    if comparison.verdict == "equivalent":
        return f"{first} and {second} are equivalent within {comparison.margin:g}: {apart_as_read}, {on_what}."
    unseen = f"differences below {rounded(comparison.resolution or 0.0, 2)} cannot be seen on them"
    return f"No detectable difference between the recipes on these rows: {apart_as_read}; {unseen}."


def compare_all(
    candidates: Mapping[str, pd.DataFrame], metric: str, reference: pd.DataFrame, **how: Any
) -> dict[str, Comparison]:
    """Return the comparison of every candidate with a reference, its p and verdict corrected for their number.

    Holm (1979) keeps the chance that any equal candidate is called better or worse at 1 - level.
    """
    comparisons = {name: compare(reference, frame, metric, **how | {"names": ("the reference", name)})
                   for name, frame in candidates.items()}  # fmt: skip
    order = sorted((one.p, name) for name, one in comparisons.items() if one.p is not None)
    least = 0.0
    for rank, (p, name) in enumerate(order):
        # Holm goes from the smallest p up; no corrected p may be below that of a smaller one.
        least = max(least, min(1.0, p * (len(order) - rank)))
        one = comparisons[name]
        alpha = 1 - (one.interval.level if one.interval else 0.95)
        note = f"p is corrected for {len(order)} candidates (Holm): {least:.3g} instead of {p:.3g}."
        lost = one.verdict in ("better", "worse") and least > alpha
        chance = f"Among {len(order)} candidates chance alone can make such a difference. " if lost else ""
        verdict: Verdict = "unknown" if lost else one.verdict
        comparisons[name] = replace(one, p=least, verdict=verdict, words=chance + one.words, notes=(*one.notes, note))
    return comparisons
