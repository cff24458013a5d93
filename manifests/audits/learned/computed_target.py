"""A target that is computed of features: their weighted sum or product, or whether a weighted sum passes a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from evenfold.manifests.audits.findings import DropFeatures, Found, NotAsked, Outcome
from evenfold.manifests.tables.canonical import listed
from numpy.typing import NDArray

from .sample import LEAST_ROWS, Array, Codes, Column, Sample, auc

EXACT = 0.998  # share of the target's variance, out of fold
LEAST_OF_THE_ROWS = 0.9  # must have a value in a column that takes part
ROWS_A_COLUMN = 4
SEPARATED, NEARLY = 0.9995, 0.99  # AUC of a sum beyond a limit, and of the first look at it
ALONE = 0.99  # R² or AUC of a single feature that is another check's finding
DENSE = 0.85  # of the variance that two bell-shaped classes so far apart would have explained
MOST_SHOWN = 8
MOST_PRODUCTS = 1e9  # rows times the square of columns


@dataclass(frozen=True, eq=False)
class Terms:
    """Features side by side, of the rows that have them all, each of mean 0 and spread 1."""

    columns: list[Column]
    X: Array
    rows: NDArray[np.intp]


def computed_target(sample: Sample) -> Outcome:
    """Look whether the target is made of features: columns that sum up to it, multiply to it, or decide it by a limit.

    Least squares on the numbers, learnt from the other folds, may explain .998 of a number's variance, of its
    logarithm's by the logarithms where all are positive, or of the ones and zeros of a class. Of a class also the sum
    that passes a limit: an AUC of .9995 though the rows are dense where the classes meet, unlike classes that lie
    apart. What one column tells alone is another check's finding. O(rows x features^2) for at most 20,000 rows.
    """
    sample = sample.learned
    target = sample.target
    if target is None:
        return NotAsked("no target column is named")
    terms = _terms(sample, np.asarray)
    if terms is None:
        return NotAsked("fewer than two numbers are features, or there are too few rows for so many")
    if target.numeric:
        found = _number(sample, terms, target.values)
    else:
        looked = (_class(terms, outcome[terms.rows], sample.blocks[terms.rows]) for outcome in target.outcomes.T)
        found = next((candidate for candidate in looked if candidate), None)
    if found is None:
        return None
    how, names, score = found
    message = (
        f"features make up {target.name!r}: {how}{sample.looked_at}; leave out those that are not known before the "
        "target is."
    )
    return Found(1, message, {"features": names, "score": score}, DropFeatures(tuple(names)))


def _terms(sample: Sample, of: Callable[[Array], Array]) -> Terms | None:
    """Return the numbers, as they are or in another form, that most rows have and that are finite in it."""
    numbers = [column for column in sample.feature_columns() if column.kind == "number" and column.n_levels > 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        made = [(column, of(column.values)) for column in numbers]
    made = [(column, values) for column, values in made if np.isfinite(values).mean() >= LEAST_OF_THE_ROWS]
    if len(made) < 2:
        return None
    X = np.column_stack([values for _, values in made])
    rows = np.flatnonzero(np.isfinite(X).all(axis=1))
    if rows.size < max(LEAST_ROWS, ROWS_A_COLUMN * X.shape[1]) or rows.size * X.shape[1] ** 2 > MOST_PRODUCTS:
        return None
    X = X[rows] - X[rows].mean(axis=0)
    spread = X.std(axis=0)
    varies = spread > 1e-12
    if np.count_nonzero(varies) < 2:
        return None
    kept = [column for (column, _), use in zip(made, varies, strict=True) if use]
    return Terms(kept, X[:, varies] / spread[varies], rows)


def _number(sample: Sample, terms: Terms, values: Array) -> tuple[str, list[str], float] | None:
    found = _sum(terms, values[terms.rows], sample.blocks[terms.rows])
    if found is not None:
        shown = _added(_weights(found, terms, values[terms.rows], np.asarray))
        return f"{shown} is nearly it ({found.told})", found.names, found.score
    powers = _terms(sample, np.log)
    if powers is None or not (values[powers.rows] > 0).all():
        return None
    logarithms = np.log(values[powers.rows])
    found = _sum(powers, logarithms, sample.blocks[powers.rows])
    if found is None:
        return None
    shown = _multiplied(_weights(found, powers, logarithms, np.log))
    return f"{shown} is nearly it, up to a factor ({found.told}, of logarithms)", found.names, found.score


def _added(weights: list[tuple[str, float]]) -> str:
    if len(weights) > MOST_SHOWN:
        return f"a weighted sum of {listed(name for name, _ in weights)}"
    terms = [name if abs(abs(w) - 1.0) < 0.005 else f"{abs(w):.3g} * {name}" for name, w in weights]
    signs = ["-" if w < 0 else "+" for _, w in weights]
    return " ".join(f"{sign} {term}" for sign, term in zip(signs, terms, strict=True)).removeprefix("+ ")


def _multiplied(powers: list[tuple[str, float]]) -> str:
    if len(powers) > MOST_SHOWN:
        return f"a product of powers of {listed(name for name, _ in powers)}"
    return " * ".join(name if abs(p - 1.0) < 0.005 else f"{name}^{p:.3g}" for name, p in powers)


@dataclass(frozen=True)
class _Sum:
    chosen: list[int]
    names: list[str]
    score: float
    alone: float

    @property
    def told(self) -> str:
        return f"R² {self.score:.4f} out of fold, the best of them alone {self.alone:.3f}"


def _sum(terms: Terms, outcome: Array, blocks: Codes) -> _Sum | None:
    """Return the few columns whose weighted sum is the outcome, out of fold, though none of them is alone."""
    if np.var(outcome) <= 0 or np.unique(blocks).size < 2:
        return None
    score = _explained(outcome, _out_of_fold(terms.X, outcome, blocks))
    centred = outcome - outcome.mean()
    # Columns have mean 0 and spread 1, so this is the largest squared correlation.
    alone = float(np.square(terms.X.T @ centred).max() / (outcome.size * np.square(centred).sum()))
    if score < EXACT or alone >= ALONE:
        return None
    chosen = _few(terms.X, outcome, 1.0 - max(2.0 * (1.0 - score), 1e-4))
    if len(chosen) < 2:
        return None
    return _Sum(chosen, [terms.columns[i].name for i in chosen], score, alone)


def _few(X: Array, outcome: Array, enough: float) -> list[int]:
    """Return columns, the next always the one that explains most of what is left, until they explain ``enough``."""
    chosen: list[int] = []
    centred = outcome - outcome.mean()
    rest, most_left = centred, (1.0 - enough) * np.square(centred).sum()
    while len(chosen) < min(X.shape[1], 4 * MOST_SHOWN) and np.square(rest).sum() > most_left:
        gains = np.abs(X.T @ rest)
        gains[chosen] = -1.0
        chosen.append(int(np.argmax(gains)))
        rest = _left(X[:, chosen], centred)
    # What a later column made needless is left out again.
    for column in list(chosen):
        fewer = [i for i in chosen if i != column]
        if len(fewer) >= 2 and np.square(_left(X[:, fewer], centred)).sum() <= most_left:
            chosen.remove(column)
    return chosen


def _left(X: Array, centred: Array) -> Array:
    """Return what least squares on columns leaves of an outcome of mean 0."""
    return np.asarray(centred - X @ np.linalg.lstsq(X, centred, rcond=None)[0])


def _weights(found: _Sum, terms: Terms, outcome: Array, of: Callable[[Array], Array]) -> list[tuple[str, float]]:
    """Return each chosen column with its weight in its own units."""
    values = [of(terms.columns[i].values[terms.rows]) for i in found.chosen]
    design = np.column_stack([np.ones(outcome.size), *values])
    weights = np.linalg.lstsq(design, outcome, rcond=None)[0][1:]
    return list(zip(found.names, weights.tolist(), strict=True))


def _class(terms: Terms, outcome: Array, blocks: Codes) -> tuple[str, list[str], float] | None:
    found = _sum(terms, outcome, blocks)
    if found is not None:
        return f"a weighted sum of {listed(found.names)} tells a class exactly ({found.told})", found.names, found.score
    is_one = outcome > 0
    if not LEAST_ROWS / 5 <= np.count_nonzero(is_one) <= outcome.size - LEAST_ROWS / 5:
        return None
    first = _out_of_fold(terms.X, outcome, blocks)
    area = auc(first, is_one)
    alone = max(max(area, 1.0 - area) for area in (auc(column, is_one) for column in terms.X.T))
    # Classes that merely lie apart are told by many sums; where a limit cuts through dense rows a line explains less.
    if area < NEARLY or alone >= ALONE or _explained(outcome, first) > DENSE * _of_two_bells(area, outcome.mean()):
        return None
    linear = _out_of_fold_odds(terms.X, outcome, blocks)
    score = auc(linear, is_one)
    if score < SEPARATED:
        return None
    chosen = _few(terms.X, _odds(terms.X, outcome)(terms.X), 0.99)
    names = [terms.columns[i].name for i in chosen]
    sentence = (
        f"a class is where a weighted sum of {listed(names)} passes a limit (AUC {score:.4f} out of fold, the best "
    )
    return f"{sentence}feature alone {alone:.3f})", names, score


def _out_of_fold(X: Array, outcome: Array, blocks: Codes) -> Array:
    predicted = np.empty(outcome.size)
    design = np.column_stack([np.ones(outcome.size), X])
    for block in np.unique(blocks):
        test = blocks == block
        weights = np.linalg.lstsq(design[~test], outcome[~test], rcond=1e-10)[0]
        predicted[test] = design[test] @ weights
    return predicted


def _out_of_fold_odds(X: Array, outcome: Array, blocks: Codes) -> Array:
    odds = np.empty(outcome.size)
    for block in np.unique(blocks):
        test = blocks == block
        if np.unique(outcome[~test]).size < 2:
            return np.zeros(outcome.size)
        predicted = _odds(X[~test], outcome[~test])(X[test])
        # Folds have limits of their own: odds are compared from fold to fold by their spread.
        odds[test] = predicted / max(float(np.std(predicted)), 1e-12)
    return odds


def _odds(X: Array, outcome: Array) -> Callable[[Array], Array]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1e4, max_iter=500).fit(X, outcome > 0)
    return lambda asked: np.asarray(model.decision_function(asked))


def _explained(outcome: Array, predicted: Array) -> float:
    return 1.0 - float(np.square(outcome - predicted).sum() / np.square(outcome - outcome.mean()).sum())


def _of_two_bells(area: float, share: float) -> float:
    """Return the share of variance that a line explains of two normal classes which have this AUC."""
    from scipy.stats import norm

    # AUC = Phi(d / sqrt 2) for classes d spreads apart, and R² = s (1 - s) d² / (1 + s (1 - s) d²).
    apart = share * (1.0 - share) * 2.0 * float(norm.ppf(min(area, 1.0 - 1e-9))) ** 2
    return apart / (apart + 1.0)
