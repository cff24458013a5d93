"""The cost of a leak: the score of a small model on the split as it is, and where the leak is mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from evenfold.manifests.audits.findings import DropFeatures, Found, KeepTogether, NotAsked, Remedy, SplitByTime

from .models import design, in_one_thread, predict_boosted, predict_from_all, usable
from .sample import BLOCKS, LEAST_ROWS, Array, Codes, Column, Sample


def with_impact(read: Callable[[], Sample | NotAsked]) -> Callable[[Found], Found]:
    """Return what adds the points at stake to what was found, where there is a remedy and a target to predict.

    The same small model (gradient-boosted trees on at most 8,000 rows) is fitted with the manifest's folds and
    features, and with the remedy: without the features named, with whole units in one fold, or on the past alone. Both
    scores are of the same rows, out of fold. What one such model makes of a leak is a lower bound of what a better one
    might. O(features x n log n) for each finding.
    """

    def priced(finding: Found) -> Found:
        sample = read()
        if finding.remedy is None or isinstance(sample, NotAsked) or sample.target is None:
            return finding
        sample = sample.learned
        if sample.rows.size < LEAST_ROWS or not usable(sample.feature_columns()):
            return finding
        with in_one_thread():
            impact = at_stake(sample, finding.remedy)
        if impact is None:
            return finding
        measure, before, mended = impact
        scores = f"{measure} {before:.3f} as split, {mended:.3f} {finding.remedy.words}"
        message = f"{finding.message} At stake: {scores}, of a small model."
        figures = {"measure": measure, "as_split": before, "mended": mended}
        return replace(finding, message=message, figures={**finding.figures, "impact": figures})

    return priced


def at_stake(sample: Sample, remedy: Remedy) -> tuple[str, float, float] | None:
    """Return the measure, the score as split and the mended one, or None where the remedy leaves nothing to compare."""
    target, columns, blocks = sample.target, sample.feature_columns(), sample.blocks
    as_split = predict_from_all(columns, target.outcomes, blocks)
    rows = np.arange(target.outcomes.shape[0])
    match remedy:
        case DropFeatures():
            rest = [column for column in columns if column.name not in remedy.features]
            nothing = np.broadcast_to(target.outcomes.mean(axis=0), target.outcomes.shape)
            mended = predict_from_all(rest, target.outcomes, blocks) if usable(rest) else nothing
        case KeepTogether():
            units, whole = remedy.units[sample.rows], blocks.copy()
            in_units = np.flatnonzero(units >= 0)
            _, first, unit = np.unique(units[in_units], return_index=True, return_inverse=True)
            whole[in_units] = blocks[in_units[first]][unit]  # that of its unit's first row
            if np.unique(whole).size < 2:
                return None
            mended = predict_from_all(columns, target.outcomes, whole)
        case SplitByTime():
            rows, mended = _from_the_past(sample, sample.clock(remedy.column), columns)
            if not rows.size:  # all rows are of one stretch of time, which has no past
                return None
    own = target.take(rows)
    return target.measure, own.score(as_split[rows]), own.score(mended[rows])


def _from_the_past(sample: Sample, clock: Column, columns: list[Column]) -> tuple[Codes, Array]:
    """Return the rows of all stretches of time but the first, and what the stretches before each tell of its rows."""
    outcomes = sample.target.outcomes
    places = clock.codes / max(clock.n_levels, 1)
    edges = np.quantile(places, np.arange(1, BLOCKS) / BLOCKS)
    stretches = np.searchsorted(edges, places, side="right")  # equal times are in one stretch
    X, categorical = design(columns)
    predicted = np.zeros_like(outcomes)
    tested = np.flatnonzero(stretches > stretches.min())
    for stretch in np.unique(stretches[tested]):
        use = stretches <= stretch
        # Learnt from `use` without `test`: the stretches before this one.
        test = stretches[use] == stretch
        for i, outcome in enumerate(outcomes.T):
            predicted[stretches == stretch, i] = predict_boosted(X[use], categorical, outcome[use], test)
    return tested, predicted
