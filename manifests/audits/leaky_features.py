"""Features that give the target away: copies of it, those that tell it alone, and those that it is computed of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from evenfold.manifests.tables.canonical import amount, listed, verb

from .columns import Array, Codes, Column, Target, auc, correlation, left_of, level_effect, ranks_of
from .findings import CheckOutcome, DropFeatures, Found, needed
from .relatives import CHANCE
from .sample import FEWEST_ROWS, LEAST_ROWS, Sample, predict_from_all, predict_from_one, usable

# Scores from which a single feature is looked at, by whether the target is a number.
GIVES_IT_AWAY = {False: 0.95, True: 0.96}
RANGES = 256  # a small tree cuts a number into no more


def target_like_features(sample: Sample) -> CheckOutcome:
    """Look for features that order the rows as the target does: |rank correlation| or AUC of at least .999.

    Of several classes the AUC is the mean over all pairs of the ten largest (Hand and Till, 2001, A simple
    generalisation of the area under the ROC curve); categories count by the class that they tell least. That a value
    is missing is a feature of its own. Times are not looked at.
    """
    sample, n = sample.labelled, sample.labelled.rows.size
    needed(n >= FEWEST_ROWS, f"{n} rows with a target are too few to tell a copy of it from chance")
    alike = _copies(replace(sample, features=tuple(_copies(sample.subsample))))
    if not alike:
        return None
    measure = "|rank correlation|" if sample.target.numeric else "AUC"
    return _given_away(sample, alike, "all but", listed(f"{name} ({measure} {it:.4f})" for name, it in alike.items()))


def _given_away(sample: Sample, features: dict[str, float], nearly: str, listing: str, **figures: float) -> Found:
    n, target = len(features), sample.target.name
    what = f"{amount(n, 'feature')} {nearly} {verb(n, 'gives', 'give')} {target!r} away: {listing}{sample.looked_at}"
    cure = f"leave {verb(n, 'it', 'them')} out unless {verb(n, 'it is', 'they are')} known before the target is"
    return Found(n, f"{what}; {cure}.", {"features": features, **figures}, DropFeatures(tuple(features)))


def _copies(sample: Sample) -> dict[str, float]:
    """Return the features that order the rows, all with a target, as the target does, and how nearly."""
    alike, target = dict[str, float](), sample.target
    for column in [column for column in map(sample.clock, sample.features) if column.kind != "time"]:
        present = ~np.isnan(column.values)
        n, best = np.count_nonzero(present), 0.0
        if min(n, present.size - n) >= FEWEST_ROWS:
            best = _in_its_order(present.astype(np.float64), target)
        if n >= FEWEST_ROWS and column.kind == "category":
            effects = [level_effect(outcome[:, None], column.codes) for outcome in target.outcomes.T]
            best = max(best, min(float(np.sqrt(e.share)) if e.chance < CHANCE else 0.0 for e in effects))
        elif n >= FEWEST_ROWS:
            best = max(best, _in_its_order(column.values[present], target.take(present)))
        if best >= 0.999:
            alike[column.name] = best
    return alike


def _in_its_order(values: Array, target: Target) -> float:
    if target.numeric:
        return abs(correlation(ranks_of(values), ranks_of(target.outcomes[:, 0])))
    pairs = [(target.values == a, target.values == b) for a, b in combinations(np.unique(target.values), 2)]
    areas = [auc(values[one | other], one[one | other]) for one, other in pairs]
    return float(np.mean([max(area, 1.0 - area) for area in areas])) if areas else 0.0


def giveaway_features(sample: Sample) -> CheckOutcome:
    """Look for features that tell the target, out of fold, as nothing else does: no other one, nor all together.

    Strong features among their like are no finding; nor are copies of the target, which another check finds.
    O(features x n log n) for at most 8,000 rows.
    """
    sample, target = sample.subsample, sample.subsample.target
    scores = needed(_scores(sample), "too few rows with a target, or no feature to learn from")
    least = GIVES_IT_AWAY[target.numeric]
    if not target.numeric:  # above .94 by 1.64 standard errors, with as many rows as the rarest class has
        rarest = np.minimum(target.outcomes.sum(axis=0), (1.0 - target.outcomes).sum(axis=0)).min()
        least = max(least, 0.94 + 1.64 * float(np.sqrt(0.94 * 0.06 / max(rarest, 1.0))) / 2.0)
    alike = {name: score for name, score in scores.items() if score >= least}
    copies = _copies(replace(sample, features=tuple(alike)))
    new = {name: score for name, score in alike.items() if name not in copies}
    if not alike:
        return None
    if not new:
        return Found(0, f"{listed(alike)} {verb(len(alike), 'is', 'are')} all but the target, of which EF301 tells.")
    rest = [column for column in sample.feature_columns() if column.name in scores.keys() - alike.keys()]
    guess = predict_from_all(rest, target.outcomes, sample.blocks) if usable(rest) else None
    together = (0.0 if target.numeric else 0.5) if guess is None else target.score(guess)
    ranked = sorted(scores.values(), reverse=True)
    best_of_others = max([together, *ranked[1:2]]) if len(alike) == 1 else together
    # Where several give the target away, all the others together must know little; and each is better than any other.
    knows_little = len(alike) == 1 or together < (0.60 if target.numeric else 0.85)
    if not (knows_little and ranked[len(alike) - 1] - best_of_others >= (0.15 if target.numeric else 0.04)):
        listing = listed(f"{name} ({score:.3f})" for name, score in alike.items())
        return Found(0, f"{listing} tell much of {target.name!r} alone ({target.measure}), as other features do.")
    listing = listed(f"{name} ({target.measure} {score:.3f})" for name, score in new.items())
    listing += f"; all {len(rest)} others together reach {together:.3f}" if rest else "; there is no other feature"
    return _given_away(sample, new, "alone nearly", listing, others_together=together)


def _scores(sample: Sample) -> dict[str, float]:
    """Return how well each feature alone tells the target, out of fold; nothing where there is too little to learn."""
    target = sample.target
    outside = [target.outcomes[sample.blocks != block] for block in np.unique(sample.blocks)]
    # Every outcome must vary outside each block, so that there is something to learn.
    if target.outcomes.size < LEAST_ROWS or not all(rows.size and np.ptp(rows, axis=0).all() for rows in outside):
        return {}
    return {  # categories of fewer than 20 rows a level name entities, which is another check's question
        column.name: _score_alone(column, target, sample.blocks)
        for column in sample.feature_columns()
        if column.n_levels and (column.kind != "category" or column.values.size >= 20 * column.n_levels)
    }


def _score_alone(column: Column, target: Target, blocks: Codes) -> float:
    """Return the score out of fold, or that of the means of 256 ranges in one block where it leaves no doubt."""
    first, levels = blocks == blocks.min(), replace(column, kind="category")
    if column.kind != "category" and column.n_levels > RANGES:
        levels = Column(column.name, "category", column.places * RANGES // 1)
    coarse = target.take(first).score(predict_from_one(levels, target.outcomes, first))
    if target.outcomes[first].sum(axis=0).min() >= LEAST_ROWS and coarse < GIVES_IT_AWAY[target.numeric] - 0.2:
        return coarse  # no other block makes up for that
    predicted = np.empty_like(target.outcomes)
    for block in np.unique(blocks):
        predicted[blocks == block] = predict_from_one(column, target.outcomes, blocks == block)
    return target.score(predicted)


EXACT, SHORT = 0.998, 0.99  # share of the target's variance, out of fold: of a sum, and of one of at most three terms
LEAST_OF_THE_ROWS = 0.9  # that must have a value in a column that takes part
MOST_SHOWN = 8


def computed_target(subsample: Sample) -> CheckOutcome:
    """Look whether the target, a number, is made of features: a sum or product of several, or one in another form.

    Out of fold, by least squares on the numbers or their logarithms; times count as days, texts as the first number in
    them. One feature may put the rows in the target's order or cut it into bands. O(rows x features^2) of
    at most 8,000 rows.
    """
    needed(subsample.target.numeric, "the target is not a number")
    numbers = [*_numbers(subsample)]
    if not (sign := _restated(subsample, numbers) or _formula(subsample, numbers)):
        n, rows = len(numbers), subsample.rows.size
        needed(_are_enough(rows, n), f"{rows:,} rows of {n} numbers are no ground to ask for sums of them")
        return None
    how, names, score = sign
    cure = f"leave out those that are not known before the target is (exclude {listed(names)})"
    message = f"features make up {subsample.target.name!r}: {how}{subsample.looked_at}; {cure}."
    return Found(1, message, {"features": names, "score": score}, DropFeatures(tuple(names)))


def _are_enough(rows: int, n: int) -> bool:
    return rows >= max(LEAST_ROWS, 4 * n) and rows * n**2 <= 2e9


def _numbers(sample: Sample) -> Iterator[Column]:
    """Yield the numbers, times in days of the data's own unit, and the first number in each text."""
    for column in sample.feature_columns():
        values = column.values
        if column.kind == "category":  # 780 of '€ 0.78k p.m.'
            texts = pd.Series(column.texts, dtype=object).str.replace("[,']", "", regex=True)
            parts = texts.str.extract(r"([-+]?\d+\.?\d*)\s?([kKmM]?)")
            thousands = parts[1].str.lower().map({"k": 1e3, "m": 1e6}).fillna(1.0)
            values = column.by_level(parts[0].astype(float) * thousands)
        if column.kind == "time" and np.nanmax(np.abs(values), initial=0) > 1e9:
            values = values / 86_400e6
        if np.isfinite(values).mean() >= LEAST_OF_THE_ROWS and np.ptp(values[np.isfinite(values)]) > 0:
            yield replace(column, kind="number", values=values, whole=None)


def _restated(sample: Sample, numbers: list[Column]) -> tuple[str, list[str], float] | None:
    target, signs, score = sample.target, dict[str, str](), 0.0
    for column in numbers:
        present = np.isfinite(column.values)
        alike = correlation(column.places[present], target.outcomes[present, 0])
        if column.n_levels > LEAST_ROWS / 5 and abs(alike) > 0.997:
            signs[column.name] = f"{column.name} puts the rows in its order (rank correlation {alike:.3f})"
            score = max(score, abs(alike))
    order = np.argsort(target.values, kind="stable")
    for column in sample.feature_columns():
        codes = column.codes[order]
        sizes = np.unique(codes, return_counts=True)[1]
        rest, cuts = order.size - int(sizes.max()), sizes.size - 1
        if 2 <= cuts < min(200, 0.1 * rest) and np.count_nonzero(np.diff(codes)) <= cuts + 0.02 * rest:
            signs.setdefault(column.name, f"{column.name} cuts it into {sizes.size} bands that do not overlap")
            score = 1.0
    return (listed(signs.values()), [*signs], score) if signs else None


def _formula(sample: Sample, numbers: list[Column]) -> tuple[str, list[str], float] | None:
    """Return the sum or product that the target is, in words, its columns and how well it fits."""
    from sklearn.linear_model import LinearRegression

    values = sample.target.values
    forms: list[Callable[[Array], Array]] = [np.asarray, np.log] if (values > 0).all() else [np.asarray]
    for of in forms:
        with np.errstate(invalid="ignore", divide="ignore"):
            terms = pd.DataFrame({column.name: of(column.values) for column in numbers})
        # Numbers that most rows have, of the rows that have them all.
        terms = terms.replace([np.inf, -np.inf], np.nan)
        terms = terms.loc[:, terms.notna().mean() >= LEAST_OF_THE_ROWS].dropna()
        terms = terms.loc[:, terms.std(ddof=0) > 1e-12]
        if terms.empty or not _are_enough(*terms.shape):
            continue
        outcome, scaled = of(values)[terms.index], (terms - terms.mean()) / terms.std(ddof=0)
        if best := _sum(scaled.to_numpy(), outcome, sample.blocks[terms.index]):
            chosen, score, alone = best
            names = [*terms.columns[chosen]]
            sizes = np.abs(weights := LinearRegression().fit(terms[names], outcome).coef_)
            if score < EXACT and sizes.max() > 1.05 * sizes.min():
                continue  # a sum that is not exact: nature's laws weigh
            if of is np.log and score < 0.9999 and np.abs(2.0 * sizes - np.round(2.0 * sizes)).max() > 0.1:
                continue  # neither halves nor whole: records fall by the years, and times rise with a power of distance
            fit = f"R² {score:.4f} out of fold, the best of them alone {alone:.3f}{', of logarithms' * (of is np.log)}"
            return f"{_written(dict(zip(names, weights, strict=True)), of is np.log)} ({fit})", names, score
    return None


def _written(weights: dict[str, float], product: bool) -> str:
    if len(weights) > MOST_SHOWN:
        formula = f"{'a product of powers' if product else 'a weighted sum'} of {listed(weights)}"
    elif product:
        formula = " * ".join(name if abs(p - 1.0) < 0.005 else f"{name}^{p:.3g}" for name, p in weights.items())
    else:
        terms = {name: name if abs(abs(w) - 1.0) < 0.005 else f"{abs(w):.3g} * {name}" for name, w in weights.items()}
        formula = " ".join(f"{'-' if weights[name] < 0 else '+'} {term}" for name, term in terms.items())
    return f"{formula.removeprefix('+ ')} is nearly it{', up to a factor' * product}"


def _sum(X: Array, outcome: Array, blocks: Codes) -> tuple[list[int], float, float] | None:
    """Return the few columns whose weighted sum is the outcome, out of fold, how well, and the best one alone."""
    if np.var(outcome) <= 0 or np.unique(blocks).size < 2 or (score := _explained(X, outcome, blocks)) < SHORT:
        return None
    left = centred = outcome - outcome.mean()
    # Columns have mean 0 and spread 1, so this is the largest squared correlation.
    alone = float(np.square(X.T @ centred).max() / (outcome.size * np.square(centred).sum()))
    chosen, most_left = list[int](), max(2.0 * (1.0 - score), 1e-4) * np.square(centred).sum()
    while len(chosen) < min(X.shape[1], 4 * MOST_SHOWN) and np.square(left).sum() > most_left:
        gains = np.abs(X.T @ left)
        gains[chosen] = -1.0
        chosen.append(int(np.argmax(gains)))  # the column that explains most of what is left
        left = left_of(centred, X[:, chosen])
    for column in list(chosen):  # what a later one made needless is left out again
        fewer = [i for i in chosen if i != column]
        if fewer and np.square(left_of(centred, X[:, fewer])).sum() <= most_left:
            chosen.remove(column)
    score = _explained(X[:, chosen], outcome, blocks)
    least = SHORT if len(chosen) <= 3 else EXACT
    # What leaves half of what the best column alone leaves is a law of that one, and no sum.
    return None if score < least or 1.0 - score > 0.5 * (1.0 - alone) else (chosen, score, alone)


def _explained(X: Array, outcome: Array, blocks: Codes) -> float:
    """Return the share of the variance that least squares, learnt from the other blocks, explain."""
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import r2_score
    from sklearn.model_selection import PredefinedSplit, cross_val_predict

    return float(r2_score(outcome, cross_val_predict(LinearRegression(), X, outcome, cv=PredefinedSplit(blocks))))
