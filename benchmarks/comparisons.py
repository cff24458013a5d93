"""How often equal recipes are called different, and a true gap is found, by the repeats of the folds.

Two recipes that see different features of the same strength have exactly the same expected score.
``python -m benchmarks.comparisons [sets]`` writes the whole study to docs/results/comparisons.json and its table to
docs/estimates.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import compare
from evenfold.estimates.intervals.methods import corrected_resampled_t
from evenfold.splitters import BalancedGroupKFold, KFold, StratifiedKFold
from scipy import stats
from scipy.special import expit

from benchmarks.coverage.processes import Array, logistic

from .written import write

SETS, FULL = 60, 300
REPEATS = (1, 3, 10)  # 15 splits are what Nadeau and Bengio take
LEVEL, MOST = 0.95, 0.07  # how often equal recipes may be called different
Recipe = Callable[[Array, Array, Array], Array]  # training rows and targets, test rows: the classes said


@dataclass(frozen=True)
class Setting:
    """Two recipes on data sets of n rows; ``shift``: added strength of the second one's features."""

    name: str
    n: int
    strength: float
    recipe: Recipe
    folds: Any
    shift: float = 0.0
    clusters: int = 0
    repeats: tuple[int, ...] = REPEATS

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array, Any]:
        """Return features (five for each recipe), classes, and groups or None."""
        X = rng.normal(size=(self.n, 10))
        effect = rng.normal(size=self.clusters)[np.arange(self.n) % self.clusters] if self.clusters else 0.0
        if self.clusters:
            X += 0.7 * rng.normal(size=(self.clusters, 10))[np.arange(self.n) % self.clusters]
        logits = self.strength * X[:, :5].sum(axis=1) + (self.strength + self.shift) * X[:, 5:].sum(axis=1) + effect
        y = (rng.uniform(size=self.n) < expit(logits)).astype(np.int64)
        return X, y, np.arange(self.n) % self.clusters if self.clusters else None


def by_logistic(X: Array, y: Array, test: Array) -> Array:
    """Return what a logistic regression says."""
    beta = logistic(np.column_stack([X, np.ones(len(X))]), y.astype(np.float64))
    return (np.column_stack([test, np.ones(len(test))]) @ beta > 0).astype(np.int64)


def by_neighbours(X: Array, y: Array, test: Array, k: int = 1) -> Array:
    """Return the commonest class of the k nearest training rows."""
    away = np.square(X).sum(axis=1) - 2 * test @ X.T
    return (y[np.argpartition(away, k - 1, axis=1)[:, :k]].mean(axis=1) > 0.5).astype(np.int64)


SETTINGS = (
    Setting("logistic, 200 rows, random", 200, 0.5, by_logistic, KFold),
    Setting("logistic, 200 rows, stratified", 200, 0.5, by_logistic, StratifiedKFold),
    Setting("logistic, 5,000 rows, stratified", 5_000, 0.5, by_logistic, StratifiedKFold, repeats=(1, 3)),
    Setting("1 nearest neighbour, 200 rows", 200, 0.5, by_neighbours, StratifiedKFold),
    Setting("15 nearest neighbours, 200 rows", 200, 0.5, partial(by_neighbours, k=15), StratifiedKFold),
    Setting("15 nearest neighbours, 1,000 rows", 1_000, 0.5, partial(by_neighbours, k=15), KFold, repeats=(1, 3)),
    Setting("weak signal, 100 rows, random", 100, 0.15, by_logistic, KFold),
    Setting("weak signal, 100 rows, stratified", 100, 0.15, by_logistic, StratifiedKFold),
    Setting("30 clusters of 10, grouped", 300, 0.4, by_logistic, BalancedGroupKFold, clusters=30),
)
# So wide that the corrected t-test of 10 repeats finds it in more than half of the data sets.
GAP = Setting("a true gap of 12 points, logistic, 200 rows", 200, 0.4, by_logistic, StratifiedKFold, shift=0.35)
FINER = Setting(
    "a true gap of 5 points, logistic, 1,000 rows", 1_000, 0.4, by_logistic, StratifiedKFold, shift=0.15, repeats=(1, 3)
)


def frames(
    setting: Setting, seed: int, repeats: int, k: int = 5
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[float, float]]:
    """Return the out-of-fold predictions of both recipes, and how often they are right on their training rows."""
    X, y, groups = setting.draw(np.random.default_rng([seed, 11]))
    both: list[list[pd.DataFrame]] = [[], []]
    known = np.zeros((2, repeats, k))
    for repeat in range(repeats):
        splitter = setting.folds(k, random_state=1000 * seed + repeat)
        labels = splitter.assign(groups=groups) if groups is not None else splitter.assign(X, y)
        said = np.empty((2, setting.n), dtype=np.int64)
        for fold in range(k):
            test, train = labels == fold, labels != fold
            for side, columns in enumerate((slice(0, 5), slice(5, 10))):
                answers = setting.recipe(X[train][:, columns], y[train], X[:, columns])
                said[side, test] = answers[test]
                known[side, repeat, fold] = (answers[train] == y[train]).mean()
        for side in (0, 1):
            columns = {"row": np.arange(setting.n), "repeat": repeat, "fold": labels, "y": y, "prediction": said[side]}
            both[side].append(pd.DataFrame(columns | ({"group": groups} if groups is not None else {})))
    a, b = known.mean(axis=(1, 2)).tolist()
    return pd.concat(both[0]), pd.concat(both[1]), (a, b)


def corrected_t(setting: Setting, a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Return whether the corrected resampled t-test of the splits' scores (Nadeau and Bengio 2003) finds a gap."""
    right = [(side["prediction"] == side["y"]).groupby([side["repeat"], side["fold"]]) for side in (a, b)]
    moves, sizes = (right[1].mean() - right[0].mean()).to_numpy(), right[0].size().to_numpy()
    test = corrected_resampled_t(moves.tolist(), setting.n - sizes, sizes)
    return bool(abs(moves.mean()) > stats.t.isf((1 - LEVEL) / 2, test.df) * test.se)


@dataclass(frozen=True)
class Told:
    """The share of data sets in which ``compare``, the fitted models' interval and the corrected t find a gap."""

    ours: float
    models: float
    by_t: float


def verdicts(setting: Setting, repeats: tuple[int, ...], n_sets: int = SETS) -> dict[int, Told]:
    """Return how often the recipes are told apart, by the number of repeats."""
    found: dict[int, list[tuple[bool, bool, bool]]] = {each: [] for each in repeats}
    for seed in range(n_sets):
        *both, apparent = frames(setting, seed, max(repeats))
        for each, told in found.items():
            told.append(_told(setting, *(frame[frame["repeat"] < each] for frame in both), apparent))
    return {each: Told(*np.mean(told, axis=0).tolist()) for each, told in found.items()}


def _told(setting: Setting, a: pd.DataFrame, b: pd.DataFrame, apparent: tuple[float, float]) -> tuple[bool, bool, bool]:
    stratified = setting.folds is StratifiedKFold
    made = compare(a, b, "accuracy", level=LEVEL, classes=(0, 1), stratified=stratified, apparent=apparent)
    assert made.of_models is not None
    of_models = not made.of_models.low <= 0 <= made.of_models.high
    return made.verdict in ("better", "worse"), of_models, corrected_t(setting, a, b)


def rows() -> list[dict[str, Any]]:
    """Return the size of the verdict in each setting, and its power where there is a gap."""
    return [
        _row(setting, repeats, told)
        for setting in (*SETTINGS, GAP, FINER)
        for repeats, told in verdicts(setting, setting.repeats).items()
    ]


def _row(setting: Setting, repeats: int, told: Told) -> dict[str, Any]:
    gap = setting.shift > 0
    # Two Monte Carlo errors are added to the size, and none to the power: one look at 5 folds has little and says so.
    margin = 2 * (MOST * (1 - MOST) / SETS) ** 0.5
    least = 0.5 if repeats > 1 else 0.2
    return {
        "work": f"{'a gap found' if gap else 'equal recipes called different'}, {setting.name}, {repeats} x 5 folds",
        "ours": f"{told.ours:.3f}",
        "peer": f"paired rows of the fitted models: {told.models:.3f}; corrected t of the splits: {told.by_t:.3f}",
        "ratio": round(told.ours / told.models, 2) if told.models else 1.0,
        "target": f"at least {least:.2f}" if gap else f"at most {MOST + margin:.2f}",
        "met": told.ours >= least if gap else told.ours <= MOST + margin,
    }


def notes() -> str:
    """Return how to read it."""
    error = (0.05 * 0.95 / SETS) ** 0.5
    return (
        f"{SETS} data sets each, level {LEVEL:.2f}; the Monte Carlo error of a share of .05 is {error:.3f}. The whole "
        f"study, {FULL:,} data sets each, is in docs/estimates.md (`python -m benchmarks.comparisons`)."
    )


def study(n_sets: int) -> list[dict[str, Any]]:
    """Return the shares of every setting by the number of repeats."""
    return [
        {
            "setting": setting.name, "gap": setting.shift > 0, "repeats": repeats,
            "ours": round(told.ours, 4), "models": round(told.models, 4), "by_t": round(told.by_t, 4),
        }
        for setting in (*SETTINGS, GAP, FINER)
        for repeats, told in verdicts(setting, setting.repeats, n_sets).items()
    ]  # fmt: skip


def table(found: list[dict[str, Any]], n_sets: int) -> str:
    """Return the study as Markdown: a line per setting, a column per number of repeats."""
    head = [*(f"{repeats} x 5" for repeats in REPEATS), "corrected t alone, 3 x 5", "fitted models, 1 x 5"]
    lines = [f"| recipes | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for setting in (*SETTINGS, GAP, FINER):
        by = {each["repeats"]: each for each in found if each["setting"] == setting.name}
        shares = [by[repeats]["ours"] if repeats in by else None for repeats in REPEATS]
        shares += [by[3]["by_t"], by[1]["models"]]
        what = setting.name if setting.shift else f"equal: {setting.name}"
        lines.append(f"| {what} | {' | '.join('' if share is None else f'{share:.3f}' for share in shares)} |")
    told = " and ".join(f"{(share * (1 - share) / n_sets) ** 0.5:.3f} of {share:.2f}" for share in (0.05, 0.5))
    return "\n".join([*lines, "", f"{n_sets:,} data sets each, level {LEVEL:.2f}; Monte Carlo errors: {told}."])


def main(n_sets: int) -> None:
    """Write the study, and the page's table."""
    found = study(n_sets)
    write("comparisons", {"sets": n_sets, "rows": found}, "estimates.md", table(found, n_sets))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FULL)
