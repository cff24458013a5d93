"""Twelve months of retraining: how often each rule promotes a recipe that is equal, worse or better.

A steady challenger against a steady champion on data that grow from 350 to 900 rows, 5 folds; a month is a look at all
rows so far. Recipes are logistic regressions that see their own features; their expected accuracies differ as said.
``python -m benchmarks.promotion [years]`` writes the whole frontier, rules by repeats of the folds, to
docs/promotion.json and its table to docs/estimates.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from math import log, sqrt
from typing import Any

import numpy as np
from evenfold.estimates.intervals.rows import standard_error
from evenfold.estimates.intervals.splits import corrected_resampled_t
from evenfold.estimates.promotion import Difference, EarlierLook, bound_of, decide, to_spend
from evenfold.splitters import StratifiedKFold
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from .written import write

YEARS, FULL, MONTHS, FIRST, LAST, FOLDS = 60, 400, 12, 350, 900, 5
SIZES = np.linspace(FIRST, LAST, MONTHS).astype(int).tolist()
REPEATS = (1, 2, 5, 10)
STRENGTH = 0.4
# Added strength of the challenger's features, and the difference in expected accuracy that it makes.
CASES = {"equal": 0.0, "2.7 points worse": -0.067, "5 points better": 0.132}
# The most that the cases may be promoted: in a year, in a year; and the least, in 3 months.
AIMS = {"equal": 0.10, "2.7 points worse": 0.02, "5 points better": 0.80}
Floats = NDArray[np.float64]
Rule = Callable[[list["Compared"]], list[bool]]  # what each month's comparison comes to


@dataclass(frozen=True)
class Compared:
    """A month's comparison: as the product sees it, the error of these fitted models, and the rows."""

    difference: Difference
    of_models: float
    n: int


def fits(X: Floats, y: Floats, training: Floats) -> Floats:
    """Return logistic regressions with scikit-learn's default penalty, one for each line of training rows."""
    p = X.shape[1]
    penalty = np.diag([1.0] * (p - 1) + [1e-6])
    beta, products = np.zeros((len(training), p)), (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    for _ in range(12):
        said = expit(beta @ X.T)
        slope = (training * (y - said)) @ X - beta @ penalty
        curve = ((training * said * (1 - said)) @ products).reshape(-1, p, p) + penalty
        step = np.linalg.solve(curve, slope[:, :, None])[:, :, 0]
        beta = beta + step
        if np.abs(step).max() < 1e-6:
            break
    return beta


def year(shift: float, seed: int) -> dict[tuple[str, int], list[Compared]]:
    """Return the comparisons of each month of a year, by metric and number of repeats."""
    rng = np.random.default_rng([seed, 12])
    X = rng.normal(size=(LAST, 10))
    logits = STRENGTH * X[:, :5].sum(axis=1) + (STRENGTH + shift) * X[:, 5:].sum(axis=1)
    y = (rng.uniform(size=LAST) < expit(logits)).astype(np.int64)
    months = [_month(X[:n], y[:n], seed) for n in SIZES]
    return {about: [month[about] for month in months] for about in months[0]}


def _month(X: Any, y: Any, seed: int) -> dict[tuple[str, int], Compared]:
    most = max(REPEATS)
    labels = np.stack([StratifiedKFold(FOLDS, random_state=100 * seed + each).assign(X, y) for each in range(most)])
    training = np.stack([row != fold for row in labels for fold in range(FOLDS)]).astype(np.float64)
    said = []
    for columns in (slice(0, 5), slice(5, 10)):
        part = np.column_stack([X[:, columns], np.ones(y.size)])
        p = expit(fits(part, y.astype(np.float64), training) @ part.T).reshape(most, FOLDS, y.size)
        said.append(np.take_along_axis(p, labels[:, None, :], 1)[:, 0])
    right = [((each > 0.5) == y).astype(np.float64) for each in said]
    probable = [np.log(np.where(y == 1, each, 1 - each)) for each in said]
    return {
        (metric, repeats): compared(rows[1][:repeats] - rows[0][:repeats], labels[:repeats])
        for metric, rows in (("accuracy", right), ("log loss", probable))
        for repeats in REPEATS
    }


def compared(moves: Floats, labels: NDArray[np.int64]) -> Compared:
    """Return what ``compare_predictions`` makes of the rows' differences, repeats by rows; a test says so."""
    repeats, n = moves.shape
    mean = moves.mean(axis=0)
    se, df = standard_error(mean - mean.mean(), None)
    of_models = se
    sizes = np.stack([np.bincount(row, minlength=FOLDS) for row in labels])
    se *= sqrt(1 / repeats + n / float(np.mean(n - sizes)))
    if repeats > 1:
        scores = [float(row[fold == k].mean()) for row, fold in zip(moves, labels, strict=True) for k in range(FOLDS)]
        test = corrected_resampled_t(scores, (n - sizes).ravel(), sizes.ravel())
        se, df = (test.se, float(test.df)) if test.se > se else (se, df)
    return Compared(Difference(float(mean.mean()), se, df), of_models, n)


def _looks(months: list[Compared], budget: float) -> Iterator[bool]:
    earlier: list[EarlierLook] = []
    for month, each in enumerate(months):
        day = date(2026, 1, 1) + timedelta(days=30 * month)
        error = to_spend(earlier, day, budget)
        told = decide("accuracy", each.difference, True, error=error, pair="a", earlier=earlier)
        earlier.append(replace(EarlierLook.of(told, day), promoted=False))
        yield told.winner == "candidate"


def spending(months: list[Compared]) -> list[bool]:
    """Return the product's own decisions, by the information that each look has; ``spread(0.10, 0.5)`` goes by rows."""
    return list(_looks(months, 0.10))


def each_paid_for(months: list[Compared]) -> list[bool]:
    """Return the rule that spends the same and lets every look pay for itself, whatever the others have seen."""
    return _beyond(months, stats.norm.isf(0.10 * 0.5 ** np.arange(1, MONTHS + 1)))


@lru_cache(maxsize=8)
def _bounds(budget: float, share: float) -> Floats:
    looks: list[EarlierLook] = []
    for n in SIZES:
        error = share * (budget - sum(look.error for look in looks))
        looks.append(EarlierLook(date(2026, 1, 1), error, "a", float(n), bound_of(error, float(n), looks)))
    return np.array([look.bound for look in looks])


def spread(budget: float, share: float) -> Rule:
    """Return the rule that spends this share of what is left, as one experiment, by the rows that there are."""
    return lambda months: _beyond(months, _bounds(budget, share))


def mixture(months: list[Compared]) -> list[bool]:
    """Return the confidence sequence that holds at any look: a normal mixture (Howard and others 2021), sharpest at 3
    months."""
    v = np.array(SIZES) / SIZES[2]
    rho = 1 / (2 * log(1 / 0.2) + log(1 + 2 * log(1 / 0.2)))
    return _beyond(months, np.sqrt(2 * (1 + rho / v) * np.log(np.sqrt((v + rho) / rho) / 0.2 + 1)))


def each_month(error: float) -> Rule:
    """Return the rule that tests every month at the same one-sided error."""
    return lambda months: _beyond(months, np.full(MONTHS, stats.norm.isf(error)))


def _beyond(months: list[Compared], bounds: Floats) -> list[bool]:
    told = np.array([(each.difference.difference, each.difference.se, each.difference.df) for each in months]).T
    return (told[0] / told[1] > stats.t.isf(stats.norm.sf(bounds), told[2])).tolist()


def not_lower(months: list[Compared]) -> list[bool]:
    """Return the rule that promotes whatever scores no lower and is newer."""
    return [each.difference.difference >= 0 for each in months]


def one_look(months: list[Compared]) -> list[bool]:
    """Return one look after 3 months at .10, as if other rows had trained the same models: nobody may look so."""
    third = months[2]
    return [month == 2 and third.difference.difference > stats.norm.isf(0.10) * third.of_models for month in range(12)]


OURS, OTHER = "half of what is left of .10, one experiment (the rule)", "no lower, and newer"
RULES: dict[str, Rule] = {
    OURS: spread(0.10, 0.5),
    "half of what is left of .10, each look paid for": each_paid_for,
    "a third of what is left of .10, one experiment": spread(0.10, 1 / 3),
    "70 % of what is left of .10, one experiment": spread(0.10, 0.7),
    "half of what is left of .20, one experiment": spread(0.20, 0.5),
    "a confidence sequence at .10": mixture,
    "every month at .05": each_month(0.05),
    "every month at .10/12": each_month(0.10 / 12),
    OTHER: not_lower,
    "one look at 3 months at .10, training taken as given (a limit)": one_look,
}


def frontier(years: int, rules: dict[str, Rule], repeats: tuple[int, ...] = REPEATS) -> list[dict[str, Any]]:
    """Return per metric, repeats, rule and case: promoted within a year, within 3 months, and the share of months."""
    promoted: dict[tuple[str, int, str, str], list[list[bool]]] = {}
    for case, shift in CASES.items():
        for seed in range(years):
            for (metric, number), months in year(shift, seed).items():
                for name, rule in rules.items() if number in repeats else ():
                    promoted.setdefault((metric, number, name, case), []).append(rule(months))
    return [
        dict(zip(("metric", "repeats", "rule", "case"), about, strict=True)) | _shares(np.array(each))
        for about, each in promoted.items()
    ]


def _shares(promoted: NDArray[np.bool_]) -> dict[str, Any]:
    within = promoted.any(axis=1), promoted[:, :3].any(axis=1)
    shares = {"year": within[0].mean(), "quarter": within[1].mean(), "month": promoted.mean()}
    return {"n": len(promoted)} | {name: round(float(share), 4) for name, share in shares.items()}


def rows() -> list[dict[str, Any]]:
    """Return what the rule promotes in a year, beside a rule that goes by the difference alone."""
    rules = {name: RULES[name] for name in (OURS, OTHER)}
    told = {(each["rule"], each["case"], each["metric"]): each for each in frontier(YEARS, rules, repeats=(10,))}
    return [_row(told[OURS, case, "accuracy"], told[OTHER, case, "accuracy"]) for case in CASES]


def _row(ours: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    case = ours["case"]
    better = case == "5 points better"
    share, theirs = (each["quarter" if better else "year"] for each in (ours, other))
    error = 2 * (AIMS[case] * (1 - AIMS[case]) / YEARS) ** 0.5
    return {
        "work": f"promoted within {'3 months' if better else 'a year'}, {case} recipe, 10 x 5 folds",
        "ours": f"{share:.2f}",
        "peer": f"{OTHER}: {theirs:.2f}",
        "ratio": round(share / theirs, 2) if theirs else 1.0,
        "target": "none: the price of the two above" if better else f"at most {AIMS[case] + error:.2f}",
        "met": better or share <= AIMS[case] + error,
    }


def notes() -> str:
    """Return how to read it."""
    return (
        f"{YEARS} years each of 12 looks at 5 folds, rows {FIRST} to {LAST}; the whole frontier, {FULL} years each, is "
        "in docs/estimates.md (`python -m benchmarks.promotion`)."
    )


def table(found: list[dict[str, Any]]) -> str:
    """Return the frontier as Markdown: a line per rule, repeats and metric."""
    lines = ["| rule | folds | equal, a year | 2.7 points worse, a year | 5 points better, 3 months / a year |",
             "|---|---|---|---|---|"]  # fmt: skip
    by: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = {}
    for each in found:
        by.setdefault((each["metric"], each["rule"], each["repeats"]), {})[each["case"]] = each
    for (metric, rule, repeats), cases in sorted(by.items(), key=lambda one: (one[0][0], _order(one[0][1]), one[0][2])):
        if not _is_shown(metric, rule, repeats):
            continue
        equal, worse, better = (cases[case] for case in CASES)
        name = rule if metric == "accuracy" else f"{rule}, by log loss"
        ends = f"{better['quarter']:.2f} / {better['year']:.2f}"
        lines.append(f"| {name} | {repeats} x 5 | {equal['year']:.3f} | {worse['year']:.3f} | {ends} |")
    n = found[0]["n"]
    told = " and ".join(f"{sqrt(share * (1 - share) / n):.3f} of {share:.2f}" for share in (0.02, 0.10, 0.50))
    return "\n".join([*lines, "", f"{n} years each; Monte Carlo errors: {told}."])


def _order(rule: str) -> int:
    return list(RULES).index(rule)


def _is_shown(metric: str, rule: str, repeats: int) -> bool:
    """Return whether the page shows it: the rule with every number of repeats, the others with 1 and 10."""
    return (rule == OURS and (metric == "accuracy" or repeats == 10)) or (metric == "accuracy" and repeats in (1, 10))


def main(years: int) -> None:
    """Write the frontier, and the page's table."""
    found = frontier(years, RULES)
    write("promotion", {"years": years, "rows": found}, "estimates.md", table(found))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FULL)
