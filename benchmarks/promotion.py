"""Twelve months of retraining: how often each rule promotes a recipe that is equal, worse or better.

A steady challenger against a steady champion on data that grow from 350 to 900 rows, 5 folds; a month is a look at all
rows so far. Recipes are logistic regressions that see their own features; their expected accuracies differ as said.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.promotion import Difference, compare_predictions, decide, to_spend
from evenfold.splitters import StratifiedKFold
from scipy.special import expit

from benchmarks.coverage.processes import logistic

YEARS, MONTHS, FIRST, LAST = 40, 12, 350, 900
STRENGTH = 0.4
# Added strength of the challenger's features, and the difference in expected accuracy that it makes.
CASES = {"equal": 0.0, "2.7 points worse": -0.067, "5 points better": 0.132}
Rule = Callable[[list[Difference]], list[bool]]  # what each month's comparison comes to


def year(shift: float, seed: int, repeats: int) -> list[Difference]:
    """Return the comparison of each month of a year."""
    rng = np.random.default_rng([seed, 12])
    X = rng.normal(size=(LAST, 10))
    logits = STRENGTH * X[:, :5].sum(axis=1) + (STRENGTH + shift) * X[:, 5:].sum(axis=1)
    y = (rng.uniform(size=LAST) < expit(logits)).astype(np.int64)
    sizes = np.linspace(FIRST, LAST, MONTHS).astype(int)
    return [_month(X[:n], y[:n], seed, repeats) for n in sizes.tolist()]


def _month(X: Any, y: Any, seed: int, repeats: int) -> Difference:
    both: list[list[pd.DataFrame]] = [[], []]
    for repeat in range(repeats):
        labels = StratifiedKFold(5, random_state=100 * seed + repeat).assign(X, y)
        said = np.empty((2, y.size), dtype=np.int64)
        for fold in range(5):
            train, test = labels != fold, labels == fold
            for side, columns in enumerate((slice(0, 5), slice(5, 10))):
                part = np.column_stack([X[:, columns], np.ones(y.size)])
                said[side, test] = part[test] @ logistic(part[train], y[train].astype(np.float64)) > 0
        for side in (0, 1):
            columns = {"row": np.arange(y.size), "repeat": repeat, "fold": labels, "y": y, "prediction": said[side]}
            both[side].append(pd.DataFrame(columns))
    return compare_predictions(pd.concat(both[0]), pd.concat(both[1]), "accuracy", ["row"], stratified=True)


def spending(months: list[Difference]) -> list[bool]:
    """Return the product's rule: better at the error that is left of the year's, half of it a look."""
    spent: list[tuple[date, float]] = []
    promoted = []
    for month, compared in enumerate(months):
        day = date(2026, 1, 1) + timedelta(days=30 * month)
        error = to_spend(spent, day)
        promoted.append(decide("accuracy", compared, True, error=error).winner == "candidate")
        spent.append((day, error))
    return promoted


def each_month(error: float) -> Rule:
    """Return the rule that tests every month at the same one-sided error."""
    return lambda months: [decide("accuracy", each, True, error=error).winner == "candidate" for each in months]


def not_lower(months: list[Difference]) -> list[bool]:
    """Return the rule that promotes whatever scores no lower and is newer."""
    return [each.difference >= 0 for each in months]


RULES: dict[str, Rule] = {
    "half of what the year has left (the rule)": spending,
    "every month at .05": each_month(0.05),
    "every month at .10/12": each_month(0.10 / 12),
    "no lower, and newer": not_lower,
}


def shares(repeats: int, years: int = YEARS) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Return per rule and case: promoted within a year, within 3 months, and the share of months."""
    told = {}
    for case, shift in CASES.items():
        simulated = [year(shift, seed, repeats) for seed in range(years)]
        for name, rule in RULES.items():
            promoted = np.array([rule(months) for months in simulated])
            within = (promoted.any(axis=1), promoted[:, :3].any(axis=1))
            told[name, case] = (float(within[0].mean()), float(within[1].mean()), float(promoted.mean()))
    return told


def rows() -> list[dict[str, Any]]:
    """Return what the rule promotes in a year, beside a rule that goes by the difference alone."""
    told = shares(repeats=1)
    ours, other = RULES.keys() & {"half of what the year has left (the rule)"}, "no lower, and newer"
    name = next(iter(ours))
    rows = []
    for case, place, most in (("equal", 0, 0.10), ("worse", 0, 0.02), ("better", 1, None)):
        share, theirs = told[name, case][place], told[other, case][place]
        error = 2 * (0.1 * 0.9 / YEARS) ** 0.5
        rows.append(
            {
                "work": f"promoted within {'a year' if place == 0 else '3 months'}, {case} recipe",
                "ours": f"{share:.2f}",
                "peer": f"{other}: {theirs:.2f}",
                "ratio": round(share / theirs, 2) if theirs else 1.0,
                "target": f"at most {most + error:.2f}" if most is not None else "none: the price of the two above",
                "met": most is None or share <= most + error,
            }
        )
    return rows


def notes() -> str:
    """Return how to read it."""
    return f"{YEARS} years each of 12 looks at 5 folds, rows {FIRST} to {LAST}."


if __name__ == "__main__":
    for repeats in (1, 5):
        for (rule, case), (year_, quarter, month) in shares(repeats).items():
            print(f"{repeats} x 5 | {rule} | {case} | {year_:.2f} | {quarter:.2f} | {month:.2f}", flush=True)
