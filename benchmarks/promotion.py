"""Twelve months of retraining: how soon each rule promotes a better recipe, and how often one that is equal.

A challenger against a steady champion on data that grow from 1,200 to 4,800 rows, 5 folds; a month is a look at all
rows so far. Recipes are logistic regressions that see their own five features. ``python -m benchmarks.promotion
[years]`` writes the months until a switch by true gap to docs/results and the table to docs/estimates.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from math import sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
from evenfold.estimates.comparison import training_counts
from evenfold.estimates.intervals.methods import standard_error
from evenfold.estimates.metrics.formulas import influence_on_auc
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.promotion import YEARLY, Contrast, EarlierLook, decide, to_spend
from evenfold.splitters import StratifiedKFold
from numpy.typing import NDArray
from scipy.special import expit

from .written import write

YEARS, FULL, MONTHS, FOLDS, STRENGTH = 40, 300, 12, 5, 0.4
SIZES = np.linspace(1_200, 4_800, MONTHS).astype(int).tolist()
# The added strength of each month's challenger, by whether it is the same one: a gap of 1 point of accuracy is .026.
CASES: dict[str, tuple[list[float], bool]] = {
    "equal": ([0.0] * MONTHS, True),
    "equal, another one each month": ([0.0] * MONTHS, False),
    "1 point better": ([0.026] * MONTHS, True),
    "2.5 points better": ([0.065] * MONTHS, True),
    "5 points better": ([0.132] * MONTHS, True),
    "5 points better, after five equal ones": ([0.0] * 5 + [0.132] * (MONTHS - 5), False),
}
METRICS = ("accuracy", "AUC", "log loss")
Floats = NDArray[np.float64]
Spending = Callable[[Sequence[EarlierLook], date], float]


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
        if np.abs(step).max() < 1e-5:
            break
    return beta


def year(shifts: list[float], same: bool, seed: int) -> list[dict[str, Contrast]]:
    """Return each month's comparison of a year, by metric."""
    rng = np.random.default_rng([seed, 12])
    X, cut = rng.normal(size=(SIZES[-1], 5, 2 if same else MONTHS + 1)), rng.uniform(size=SIZES[-1])
    logits = STRENGTH * X.sum(axis=(1, 2))
    for each in range(1, X.shape[2]):
        logits = logits + (max(shifts) if same else shifts[each - 1]) * X[:, :, each].sum(axis=1)
    y = (cut < expit(logits)).astype(np.int64)
    return [_month(X[:n, :, [0, 1 if same else month + 1]], y[:n], seed) for month, n in enumerate(SIZES)]


def _month(X: Floats, y: NDArray[np.int64], seed: int) -> dict[str, Contrast]:
    labels = StratifiedKFold(FOLDS, random_state=seed).assign(X[:, :, 0], y)
    training = np.stack([labels != fold for fold in range(FOLDS)])
    said, of_training = [], []
    for side in (0, 1):
        part = np.column_stack([X[:, :, side], np.ones(y.size)])
        beta = fits(part, y.astype(np.float64), training.astype(np.float64))
        said.append(expit(np.sum(part * beta[labels], axis=1)))
        of_training.append(expit(beta @ part.T))
    return {metric: compared(metric, said, of_training, training, y) for metric in METRICS}


def _influence(metric: str, said: Floats, y: NDArray[np.int64]) -> tuple[float, Floats]:
    if metric == "AUC":
        return influence_on_auc(SimpleNamespace(ranking=said, truth=y, mass=np.ones(y.size)))  # type: ignore[arg-type]
    scores = ((said > 0.5) == y).astype(float) if metric == "accuracy" else np.log(np.where(y == 1, said, 1 - said))
    return float(scores.mean()), scores - scores.mean()


def compared(
    metric: str,
    said: Sequence[Floats],
    of_training: Sequence[Floats],
    training: NDArray[np.bool_],
    y: NDArray[np.int64],
) -> Contrast:
    """Return what ``compare`` makes of what both recipes say of rows out of fold, and of training rows."""
    best = metric_of({"accuracy": "accuracy", "AUC": "roc_auc", "log loss": "neg_log_loss"}[metric]).high
    (a, moves_a), (b, moves_b) = (_influence(metric, each, y) for each in said)
    apparent = [
        float(np.mean([_influence(metric, line[rows], y[rows])[0] for line, rows in zip(lines, training, strict=True)]))
        for lines in of_training
    ]
    se, df = standard_error(moves_b - moves_a, None)
    counts = training_counts(zip((a, b), apparent, strict=True), best, df)
    return Contrast(b - a, se * sqrt(1 + FOLDS / (FOLDS - 1) * counts), df)


def half(earlier: Sequence[EarlierLook], today: date) -> float:
    """Return the rule that spends half of what is left."""
    return max(YEARLY - sum(look.error for look in earlier), 0.0) / 2


def each_month(earlier: Sequence[EarlierLook], today: date) -> float:
    """Return the rule that spends the same every month."""
    return YEARLY / 12


OURS = "a fifth of what is left (the rule)"
RULES: dict[str, Spending] = {OURS: to_spend, "half of what is left": half, "a twelfth every month": each_month}


def months_to_switch(months: list[dict[str, Contrast]], metric: str, spending: Spending, case: str) -> int:
    """Return the month in which the (better) challenger is promoted by the product's own decisions; 99 for none."""
    (shifts, same), earlier = CASES[case], list[EarlierLook]()
    first = next((month for month, shift in enumerate(shifts) if shift), 0)
    for month, compared_ in enumerate(months):
        day = date(2026, 1, 1) + timedelta(days=30 * month)
        pair = "steady" if same or (first and month >= first) else f"month {month}"
        error = spending(earlier, day)
        told = decide(metric, compared_[metric], True, error=error, pair=pair, earlier=earlier)
        if told.winner == "candidate" and month >= first:
            return month - first + 1
        earlier.append(EarlierLook(day, told.spent, pair, told.information, told.bound))
    return 99


def curve(years: int, keep: Callable[[list[dict[str, Any]]], None] | None = None) -> list[dict[str, Any]]:
    """Return, per case, metric and rule, the shares of years with a switch within 3, 6 and 12 months.

    ``keep`` gets them after every ten years, so that a stopped run leaves what it has.
    """
    found: dict[tuple[str, str, str], list[int]] = {}
    for seed in range(years):
        for case, (shifts, same) in CASES.items():
            months = year(shifts, same, seed)
            for metric in METRICS:
                for rule, spending in RULES.items():
                    found.setdefault((case, metric, rule), []).append(months_to_switch(months, metric, spending, case))
        if keep is not None and (seed % 10 == 9 or seed == years - 1):
            keep(_shares(found))
    return _shares(found)


def _shares(found: dict[tuple[str, str, str], list[int]]) -> list[dict[str, Any]]:
    return [
        dict(zip(("case", "metric", "rule"), about, strict=True))
        | {"n": len(each)} | {f"{within}": round(float(np.mean(np.array(each) <= within)), 4) for within in (3, 6, 12)}
        for about, each in found.items()
    ]  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """Return how often the rule promotes within a year, beside the one that spends half of what is left."""
    other, told = "half of what is left", {(row["case"], row["metric"], row["rule"]): row["12"] for row in curve(YEARS)}
    asked = [("equal", 0.10, False), ("equal, another one each month", 0.10, False), ("2.5 points better", 0.55, True)]
    made = []
    for case, aim, least in asked:
        ours, theirs, error = told[case, "accuracy", OURS], told[case, "accuracy", other], 2 * sqrt(aim / YEARS)
        made.append({
            "work": f"promoted within a year, {case} recipe, 5 folds", "ours": f"{ours:.2f}",
            "peer": f"{other}: {theirs:.2f}", "ratio": round(ours / theirs, 2) if theirs else 1.0,
            "target": f"at {'least' if least else 'most'} {aim - error if least else aim + error:.2f}",
            "met": ours >= aim - error if least else ours <= aim + error,
        })  # fmt: skip
    return made


def notes() -> str:
    """Return how to read it."""
    return f"{YEARS} years each; the whole curve, {FULL} years each, is in docs/estimates.md."


def table(found: list[dict[str, Any]]) -> str:
    """Return the curve as Markdown: a line per case and rule, the shares within 3 / 6 / 12 months by metric."""
    lines = [f"| challenger | spends of .10 | {' | '.join(METRICS)} |", "|---" * (2 + len(METRICS)) + "|"]
    by = {(row["case"], row["rule"], row["metric"]): row for row in found}
    for case in CASES:
        for rule in RULES:
            shares = [
                "/".join(f"{by[case, rule, metric][within]:.2f}" for within in ("3", "6", "12")) for metric in METRICS
            ]
            lines.append(f"| {case} | {rule} | {' | '.join(shares)} |")
    n = found[0]["n"]
    errors = " and ".join(f"{sqrt(share * (1 - share) / n):.3f} of {share:.2f}" for share in (0.10, 0.50))
    return "\n".join([*lines, "", f"{n} years each; Monte Carlo errors: {errors}."])


def main(found: list[dict[str, Any]]) -> None:
    """Write the curve, and the page's table."""
    write("promotion", {"rows": found}, "estimates.md", table(found))


if __name__ == "__main__":
    curve(int(sys.argv[1]) if len(sys.argv) > 1 else FULL, main)
