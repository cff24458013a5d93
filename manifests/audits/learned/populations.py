"""A fold, or a generation, from another population: a small model can tell its rows from the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from evenfold.manifests.attributes import columns_of_folds
from evenfold.manifests.audits.findings import Found, NotAsked, Outcome
from evenfold.manifests.joined import JoinedLabels
from evenfold.manifests.tables.canonical import listed, verb
from evenfold.splitters import Stream
from evenfold.splitters.kernels import AUDITING
from numpy.typing import NDArray

from .models import design, predict_boosted, usable
from .sample import Column, Sample, alone, auc

TOLD_APART = 0.57  # an AUC that a drawn fold does not reach, for large samples
ERRORS = 5.0  # and how many standard errors of an AUC without any difference it must lie above .5
NEW_ROWS_DIFFER = 0.65  # a generation may drift; this far is another population
NO_FEATURE = "no column is a feature to tell rows apart by"
MOST_ROWS, MOST_CELLS, LEAST_SIDE, PARTS, MOST_FOLDS = 4_000, 400_000, 20, 3, 10


def other_populations(sample: Sample) -> Outcome:
    """Look for folds whose rows a small model tells from the rest, out of sample: by values, categories, missingness.

    A warning needs an AUC of .57 and of five standard errors above one half; groups stay whole on one side of the
    model's own folds and count as one observation each, because a model that has seen a group knows its fold. At most
    4,000 rows, 400,000 cells and ten folds are looked at.
    """
    joined = sample.joined
    if not isinstance(joined, JoinedLabels):
        return NotAsked("only folds and parts lie apart")
    if joined.manifest.splitter.needs.time:
        return NotAsked("the parts follow one another in time")
    time = joined.columns.time
    if time and not is_random(joined.codes[sample.rows, 0][np.argsort(sample.clock(time).codes, kind="stable")]):
        return NotAsked("the folds follow one another in time")
    codes = joined.codes[sample.rows, 0].astype(np.int64)
    folds = [fold for fold in np.unique(codes).tolist() if np.count_nonzero(codes == fold) >= LEAST_SIDE][:MOST_FOLDS]
    columns = sample.feature_columns()
    if not usable(columns):
        return NotAsked(NO_FEATURE)
    if len(folds) < 2:
        return NotAsked("fewer than two folds have the rows that a comparison needs")
    compared = folds if len(folds) > 2 else folds[-1:]
    separations = {fold: _separation(sample, codes == fold, columns) for fold in compared}
    apart = {fold: value for fold, (value, error) in separations.items() if _raises_alarm(value, error)}
    if not apart:
        return None
    listing = listed(f"{joined.labels.code_name(fold)} (AUC {value:.3f})" for fold, value in apart.items())
    values = pa.table({column.name: column.values for column in columns})
    written = listed(map(repr, columns_of_folds(values, joined.manifest, codes[:, None])))
    cure = "split again at random, or say what sets them apart (a site, a period) and split by that"
    message = (
        f"{listing} {verb(len(apart), 'is', 'are')} from another population: a small model tells "
        f"{verb(len(apart), 'its', 'their')} rows from the rest{sample.looked_at}; "
        f"{f'leave out {written}, which holds the fold of each row' if written else cure}."
    )
    return Found(len(apart), message, {"auc": {str(fold): value for fold, value in apart.items()}})


def other_generation(sample: Sample) -> Outcome:
    """Look whether the rows of the newest generation come from another population than those before them.

    Drift is the rule where data grow; a warning needs an AUC of .65 and of five standard errors above one half. Columns
    of times are not looked at: they tell later rows from earlier ones in every table that grows.
    """
    manifest = sample.joined.manifest
    if manifest.born is None or not manifest.generation:
        return NotAsked("the manifest has not grown")
    new = manifest.born[sample.joined.place[sample.rows]] == manifest.generation
    columns = [column for column in sample.feature_columns() if column.kind != "time"]
    if not usable(columns):
        return NotAsked(NO_FEATURE)
    fewest = min(np.count_nonzero(new), np.count_nonzero(~new))
    if fewest < LEAST_SIDE:
        return NotAsked(f"the newest generation or those before it have {fewest} rows, too few to compare")
    value, error = _separation(sample, new, columns)
    message = (
        f"a small model tells the {np.count_nonzero(new):,} rows of generation {manifest.generation} from the older "
        f"ones with an AUC of {value:.3f}{sample.looked_at}"
    )
    if value < max(NEW_ROWS_DIFFER, 0.5 + ERRORS * error):
        return Found(0, f"{message}.", {"auc": value})
    return Found(1, f"{message}; scores of old and new rows are about two populations: report both.", {"auc": value})


def is_random(codes: NDArray[np.int64]) -> bool:
    """Return whether neighbours lie in different folds, half as often as by chance at least, where order is ignored."""
    shares = np.unique(codes, return_counts=True)[1] / codes.size
    return bool(np.mean(codes[1:] != codes[:-1]) > 0.5 * (1.0 - np.square(shares).sum()))


def _raises_alarm(value: float, error: float) -> bool:
    return value >= max(TOLD_APART, 0.5 + ERRORS * error)


def _separation(sample: Sample, mine: NDArray[np.bool_], columns: Sequence[Column]) -> tuple[float, float]:
    """Return the AUC with which rows are told apart out of sample, and its standard error without a difference.

    It stops where the parts so far leave no doubt that there is no alarm, if the others lay five of their standard
    errors above.
    """
    # No more than twice as many rows of one side as of the other.
    stream, sides = Stream(0, AUDITING, 4), [np.flatnonzero(mine), np.flatnonzero(~mine)]
    fewest, n_most = min(side.size for side in sides), min(MOST_ROWS, max(MOST_CELLS // len(columns), 1_000))
    most = max(min(2 * fewest, n_most - min(fewest, n_most // 2)), 1)
    balanced = np.sort(np.concatenate([side[stream.permutation(side.size)[:most]] for side in sides]))
    X, categorical = design([column.take(balanced) for column in columns])
    inside = mine[balanced]
    _, first, numbers = np.unique(alone(sample.groups[balanced]), return_index=True, return_inverse=True)
    n_inside, n_outside = (int(np.unique(numbers[side]).size) for side in (inside, ~inside))
    if min(n_inside, n_outside) < LEAST_SIDE:
        return 0.5, 1.0
    part = Stream(0, AUDITING, 3).permutation(first.size)[numbers] % PARTS
    # That of the Mann-Whitney statistic over n1 n2, where both sides are drawn alike; a group is one observation.
    error = float(np.sqrt((n_inside + n_outside + 1) / (12.0 * n_inside * n_outside)))
    values: list[float] = []
    for i in range(PARTS):
        scores = predict_boosted(X, categorical, inside.astype(np.float64), part == i, rounds=25)
        values.append(auc(scores, inside[part == i]))
        rest = (1.0 - len(values) / PARTS) * ERRORS * np.sqrt(PARTS) * error
        if not _raises_alarm(float(np.mean(values)) + rest, error):
            break
    return float(np.mean(values)), error
