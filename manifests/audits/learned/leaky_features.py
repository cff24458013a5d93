"""Features that are the target in disguise, or that alone tell more of it than all the others together."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from evenfold.manifests.audits.features import correlation, ranks_of
from evenfold.manifests.audits.findings import DropFeatures, Found, NotAsked, Outcome
from evenfold.manifests.tables.canonical import amount, listed, verb

from .entities import CHANCE, level_effect
from .models import predict_from_all, predict_from_one, usable
from .sample import FEWEST_ROWS, LEAST_ROWS, Array, Codes, Column, Sample, Target, auc

TARGET_LIKE = 0.999
# Scores from which a single feature is looked at, by whether the target is a number.
GIVES_IT_AWAY = {False: 0.95, True: 0.96}
# So far below it no other block makes up for the first; a small tree cuts a number into no more ranges than these.
FAR, RANGES = 0.2, 256
SURELY, ERRORS = 0.94, 1.64  # an AUC of so few rows may not be so many standard errors from it
# How much better it must be than the best other feature, and than all the others together.
STANDS_ALONE = {False: 0.04, True: 0.15}
# Where several features give the target away, all the others together must be worse than this.
OTHERS_KNOW_LITTLE = {False: 0.85, True: 0.60}
ROWS_A_LEVEL = 20  # categories of fewer rows a level name entities, which is another check's question


def target_like_features(sample: Sample) -> Outcome:
    """Look for features that order the rows as the target does: |rank correlation| or AUC of at least .999.

    Of several classes the AUC is the mean over all pairs of the ten largest (Hand and Till, 2001, A simple
    generalisation of the area under the ROC curve). Categories count by the correlation between two rows of a level,
    of the class that they tell least. That a value is missing is a feature of its own. Times are not looked at.
    """
    if sample.target is None:
        return NotAsked("no target column is named")
    sample = sample.labelled
    if sample.rows.size < FEWEST_ROWS:
        return NotAsked(f"{sample.rows.size} rows with a target are too few to tell a copy of it from chance")
    alike = _copies(replace(sample, features=tuple(_copies(sample.learned))))
    if not alike:
        return None
    measure = "|rank correlation|" if sample.target.numeric else "AUC"
    listing = listed(f"{feature} ({measure} {value:.4f})" for feature, value in alike.items())
    message = (
        f"{amount(len(alike), 'feature')} all but {verb(len(alike), 'gives', 'give')} {sample.target.name!r} away: "
        f"{listing}{sample.looked_at}; leave {verb(len(alike), 'it', 'them')} out unless "
        f"{verb(len(alike), 'it is', 'they are')} known before the target is."
    )
    return Found(len(alike), message, {"features": alike}, DropFeatures(tuple(alike)))


def _copies(sample: Sample) -> dict[str, float]:
    """Return the features that order the rows, all with a target, as the target does, and how nearly."""
    columns = map(sample.clock, sample.features)
    likeness = {column.name: _likeness(column, sample.target) for column in columns if column.kind != "time"}
    return {name: value for name, value in likeness.items() if value >= TARGET_LIKE}


def _likeness(column: Column, target: Target) -> float:
    present = ~np.isnan(column.values)
    n = np.count_nonzero(present)
    best = _in_its_order(present.astype(np.float64), target) if min(n, present.size - n) >= FEWEST_ROWS else 0.0
    if n < FEWEST_ROWS:
        return best
    if column.kind != "category":
        return max(best, _in_its_order(column.values[present], target.take(present)))
    effects = [level_effect(outcome[:, None], column.codes) for outcome in target.outcomes.T]
    return max(best, min(float(np.sqrt(e.share)) if e.chance < CHANCE else 0.0 for e in effects))


def _in_its_order(values: Array, target: Target) -> float:
    if target.numeric:
        return abs(correlation(ranks_of(values), ranks_of(target.outcomes[:, 0])))
    pairs = [(target.values == a, target.values == b) for a, b in combinations(np.unique(target.values), 2)]
    areas = [auc(values[one | other], one[one | other]) for one, other in pairs]
    return float(np.mean([max(area, 1.0 - area) for area in areas])) if areas else 0.0


def giveaway_features(sample: Sample) -> Outcome:
    """Look for features that tell the target as nothing else does.

    Each feature's score is that of a small tree, or of its levels' means, on rows of folds that it was not learnt
    from: mean AUC over the classes, or R² of the target's ranks. A warning needs a score of .95 (.96 for numbers) that
    the other features do not come near, neither the best of them (.04; .15) nor all together. Strong features among
    their like, as petal length beside petal width, are no finding; nor are copies of the target, which another check
    finds.
    O(features x n log n) for at most 8,000 rows.
    """
    sample = sample.learned
    scores = _scores(sample)
    if isinstance(scores, NotAsked):
        return scores
    target = sample.target
    least = GIVES_IT_AWAY[target.numeric]
    if not target.numeric:  # above .94 by 1.64 standard errors, with as many rows as the rarest class has
        rarest = np.minimum(target.outcomes.sum(axis=0), (1.0 - target.outcomes).sum(axis=0)).min()
        least = max(least, SURELY + ERRORS * float(np.sqrt(SURELY * (1.0 - SURELY) / max(rarest, 1.0))) / 2.0)
    alike = {name: score for name, score in scores.items() if score >= least}
    if not alike:
        return None
    others = _copies(replace(sample, features=tuple(alike)))
    new = {name: score for name, score in alike.items() if name not in others}
    if not new:
        return Found(0, f"{listed(alike)} {verb(len(alike), 'is', 'are')} all but the target, of which EF301 tells.")
    rest = [column for column in sample.feature_columns() if column.name in scores.keys() - alike.keys()]
    together = 0.0 if target.numeric else 0.5
    if usable(rest):
        together = target.score(predict_from_all(rest, target.outcomes, sample.blocks))
    gap, ranked = STANDS_ALONE[target.numeric], sorted(scores.values(), reverse=True)
    best_of_others = max([together, *ranked[1:2]]) if len(alike) == 1 else together
    knows_little = len(alike) == 1 or together < OTHERS_KNOW_LITTLE[target.numeric]
    if not (knows_little and ranked[len(alike) - 1] - best_of_others >= gap):
        listing = listed(f"{name} ({score:.3f})" for name, score in alike.items())
        return Found(0, f"{listing} tell much of {target.name!r} alone ({target.measure}), as other features do.")
    listing = listed(f"{name} ({target.measure} {score:.3f})" for name, score in new.items())
    beside = f"all {len(rest)} others together reach {together:.3f}" if rest else "there is no other feature"
    message = (
        f"{amount(len(new), 'feature')} alone nearly {verb(len(new), 'gives', 'give')} {target.name!r} away: "
        f"{listing}; {beside}{sample.looked_at}; leave {verb(len(new), 'it', 'them')} out unless "
        f"{verb(len(new), 'it is', 'they are')} known before the target is."
    )
    return Found(len(new), message, {"features": new, "others_together": together}, DropFeatures(tuple(new)))


def _scores(sample: Sample) -> dict[str, float] | NotAsked:
    """Return how well each feature alone tells the target, out of fold, or why that cannot be said."""
    target = sample.target
    if target is None:
        return NotAsked("no target column is named")
    features = [
        column
        for column in sample.feature_columns()
        if column.n_levels and (column.kind != "category" or column.values.size >= ROWS_A_LEVEL * column.n_levels)
    ]
    # Every outcome must vary outside each block, so that there is something to learn.
    outside = [target.outcomes[sample.blocks != block] for block in np.unique(sample.blocks)]
    varies = all(rows.size and (np.ptp(rows, axis=0) > 0).all() for rows in outside)
    if target.outcomes.size < LEAST_ROWS or not features or not varies:
        return NotAsked("too few rows with a target, or no feature to learn from")
    return {column.name: _score_alone(column, target, sample.blocks) for column in features}


def _score_alone(column: Column, target: Target, blocks: Codes) -> float:
    """Return the score out of fold, or that of the means of 256 ranges in one block where it leaves no doubt."""
    first, levels = blocks == blocks.min(), replace(column, kind="category")
    if column.kind != "category" and column.n_levels > RANGES:
        levels = Column(column.name, "category", column.places * RANGES // 1)
    coarse = target.take(first).score(predict_from_one(levels, target.outcomes, first))
    if target.outcomes[first].sum(axis=0).min() >= LEAST_ROWS and coarse < GIVES_IT_AWAY[target.numeric] - FAR:
        return coarse
    predicted = np.empty_like(target.outcomes)
    for block in np.unique(blocks):
        predicted[blocks == block] = predict_from_one(column, target.outcomes, blocks == block)
    return target.score(predicted)
