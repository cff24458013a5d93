"""Bootstraps and other draws by the thousand: scores in one table, losses in sums per row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters import Splitter

from ._aggregate import sample_sd, spread_note
from ._assemble import assemble
from ._errors import EvaluationError
from ._fit import fit_on
from ._quick import QUICK, from_losses, reads_names
from ._responses import Responses, replay
from .bootstrap import BootstrapEstimate, RowTotals, bootstrap_score_estimate, from_totals, in_units
from .estimate import Estimate
from .fold_score import FoldScore
from .metrics import score
from .model_spec import ModelSpec
from .no_information import no_information_rate
from .problem import IntArray, Problem
from .row_losses import ROW_LOSSES, Floats, losses_of

MOST_FAILED = 0.5


@dataclass(frozen=True)
class DrawScores:
    """What many draws scored; blocks of draws add up, and memory for losses does not grow with their number.

    ``table``: a row per draw with draw, n_train, n_test, seconds_fit, seconds_score, error (why the draw has no
    scores, or None), a column per metric (NaN where undefined), and ``apparent_<metric>`` where asked for.
    ``totals``: for each metric that is a mean over rows, the sum of losses and the count of each row.
    """

    table: pd.DataFrame
    totals: dict[str, RowTotals]

    def to_frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the table of scores, and a frame of row, count and the sum of losses of each metric."""
        counts = next(iter(self.totals.values())).counts if self.totals else np.zeros(0, dtype=np.int64)
        sums = {metric: totals.sums for metric, totals in self.totals.items()}
        return self.table, pd.DataFrame({"row": np.arange(counts.size), "count": counts, **sums})

    @classmethod
    def from_frames(cls, table: pd.DataFrame, rows: pd.DataFrame) -> DrawScores:
        """Return what ``to_frames`` wrote."""
        counts = rows["count"].to_numpy()
        metrics = [str(name) for name in rows.columns if name not in ("row", "count")]
        return cls(table, {metric: RowTotals(rows[metric].to_numpy(), counts) for metric in metrics})

    @classmethod
    def merge(cls, blocks: Sequence[DrawScores]) -> DrawScores:
        """Return the draws of all blocks together, in the blocks' order."""
        totals = dict(blocks[0].totals)
        for block in blocks[1:]:
            totals = {metric: totals[metric].merge(block.totals[metric]) for metric in totals}
        return cls(pd.concat([block.table for block in blocks], ignore_index=True), totals)


def score_draws(
    model: ModelSpec,
    problem: Problem,
    draws: Iterable[tuple[int, tuple[IntArray, IntArray]]],
    *,
    seed: int,
    apparent: bool = False,
    inner: Splitter | None = None,
) -> DrawScores:
    """Fit and score every draw of ``draws``: its number and its (train, test).

    A draw whose fit fails, or in which a metric is undefined (one class out of bag), is kept in the table without
    that score, and the estimates say how many there are. ``apparent``: also score each draw on its own training
    rows, for the textbook's variant of .632, at the price of more scoring.
    """
    model = model.completed(problem.task, len(problem.classes))
    totals = {metric: RowTotals.empty(problem.n) for metric in model.metrics if metric in ROW_LOSSES}
    rows = [_one(model, problem, i, pair, seed, totals, apparent, inner) for i, pair in draws]
    return DrawScores(pd.DataFrame(rows), totals)


def bootstrap_aggregate(
    scores: DrawScores | Sequence[FoldScore],
    apparent: FoldScore,
    predictions: pd.DataFrame | None = None,
    problem: Problem | None = None,
    *,
    seed: int = 0,
) -> list[Estimate]:
    """Return the bootstrap's estimates per metric: out-of-bag, .632 and .632+, the last the one to report.

    ``apparent`` and ``predictions``: of one extra fit on all rows, ``fit_and_score`` with all rows on both sides.
    Without predictions and problem there is no no-information rate, and so no .632+.
    With ``DrawScores`` the leave-one-out error is the mean over rows where the metric is one; otherwise, and from
    ``FoldScore``s, the mean over draws stands for it. Where draws were scored on their own training rows, the
    textbook's variant is added as ``.632 per resample``.
    Raises EvaluationError where more than half of the draws have no score.
    """
    given = scores if isinstance(scores, DrawScores) else _of_fold_scores(scores)
    estimates: list[Estimate] = []
    for metric in apparent.test:
        _require_enough(given.table, metric)
        estimates += _of_metric(metric, given, apparent, predictions, problem, seed)
    return estimates


def _one(
    model: ModelSpec,
    problem: Problem,
    i: int,
    pair: tuple[IntArray, IntArray],
    seed: int,
    totals: dict[str, RowTotals],
    apparent: bool,
    inner: Splitter | None,
) -> dict[str, Any]:
    train, test = pair
    row: dict[str, Any] = {"draw": i, "n_train": train.size, "n_test": test.size}
    started = perf_counter()
    estimator = assemble(model, problem, seed)
    X = problem.X if problem.array is None or reads_names(estimator) else problem.array
    try:
        fit_on(_take(X, train), estimator, problem, train, name=f"draw {i}")
    except EvaluationError as error:
        return {**row, "seconds_fit": perf_counter() - started, "seconds_score": 0.0, "error": str(error)}
    between = perf_counter()
    scored, losses = _scores(model, problem, Responses(estimator, _take(X, test)), test)
    for metric, total in totals.items():
        total.add(test, losses[metric])
    if apparent:
        known, _ = _scores(model, problem, Responses(estimator, _take(X, train)), train)
        scored |= {f"apparent_{metric}": value for metric, value in known.items()}
    times = {"seconds_fit": between - started, "seconds_score": perf_counter() - between, "error": None}
    return {**row, **times, **scored}


def _take(X: Any, rows: IntArray) -> Any:
    # Taking along the contiguous axis keeps the layout that scikit-learn makes of a frame, and so every bit.
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X.T.take(rows, axis=1).T


def _scores(
    model: ModelSpec, problem: Problem, answers: Responses, rows: IntArray
) -> tuple[dict[str, float], dict[str, Floats]]:
    y, weights = problem.y[rows], None if problem.weights is None else problem.weights[rows]
    losses = {
        metric: losses_of(metric, answers, y, problem.classes) for metric in model.metrics if metric in ROW_LOSSES
    }
    scores = {}
    for metric in model.metrics:
        if metric in losses:
            scores[metric] = from_losses(metric, losses[metric], weights)
        elif metric in QUICK and weights is None:
            scores[metric] = QUICK[metric](answers, y, problem.classes)
        else:
            scores[metric] = _score_or_nan(metric, answers, y, weights)
    return scores, losses


def _score_or_nan(metric: str, answers: Any, y: Any, weights: Any) -> float:
    try:
        return score(metric, answers, y, weights)
    except Exception:  # undefined here; counted and reported by the estimate
        return float("nan")


def _of_fold_scores(scores: Sequence[FoldScore]) -> DrawScores:
    rows = [
        {"draw": each.fold, "error": None, **each.test, **{f"apparent_{k}": v for k, v in each.apparent.items()}}
        for each in scores
    ]
    return DrawScores(pd.DataFrame(rows), {})


def _require_enough(table: pd.DataFrame, metric: str) -> None:
    undefined = int(table[metric].isna().sum()) if metric in table else len(table)
    if undefined > MOST_FAILED * len(table):
        errors = table["error"].dropna()
        because = f"; the first: {errors.iloc[0]}" if len(errors) else ""
        raise EvaluationError(
            f"{metric} is undefined in {undefined:,} of {len(table):,} draws{because}; "
            "use another metric, or draws that keep every class."
        )


def _of_metric(
    metric: str,
    draws: DrawScores,
    apparent: FoldScore,
    predictions: pd.DataFrame | None,
    problem: Problem | None,
    seed: int,
) -> list[Estimate]:
    out = draws.table[metric].to_numpy(dtype=np.float64)
    defined = out[~np.isnan(out)]
    made = _ingredients(metric, draws, apparent, predictions, problem, seed)
    spread = spread_note(defined.size, "draws")
    notes = (spread, *(note for note in made.notes if "read .632+" not in note))
    common: dict[str, Any] = {"sd": sample_sd(defined.tolist()), "n_splits": int(defined.size), "apparent": made.err}
    values = {"out-of-bag": (made.oob, notes), ".632": (made.e632, (spread, *made.notes))}
    if not np.isnan(made.gamma):
        values[".632+"] = (made.e632plus, notes)
    names = ("err", "err1", "oob", "gamma", "relative_overfitting", "weight")
    numbers = {name: value for name in names if not np.isnan(value := getattr(made, name))}
    estimates = [
        Estimate(metric, method, value, se=None, gap=made.err - value, notes=said, ingredients=numbers, **common)
        for method, (value, said) in values.items()
    ]
    return estimates + _per_resample(metric, draws.table)


def _ingredients(
    metric: str,
    draws: DrawScores,
    apparent: FoldScore,
    predictions: pd.DataFrame | None,
    problem: Problem | None,
    seed: int,
) -> BootstrapEstimate:
    """Return the bootstrap's numbers in the metric's own units; gamma is NaN where nothing says it."""
    out = draws.table[metric].to_numpy(dtype=np.float64)
    if predictions is None or problem is None:
        return bootstrap_score_estimate(apparent.test[metric], out, float("nan"), greater_is_better=True)
    answers, y = replay(predictions, problem.classes), predictions["y"].to_numpy()
    weights = None if problem.weights is None else problem.weights[predictions["row"].to_numpy()]
    gamma = no_information_rate(metric, answers, y, problem.classes, weights=weights, seed=seed)
    if metric not in draws.totals:
        return bootstrap_score_estimate(apparent.test[metric], out, gamma, greater_is_better=True)
    loss, rows = ROW_LOSSES[metric], predictions["row"].to_numpy()
    totals = RowTotals(draws.totals[metric].sums[rows], draws.totals[metric].counts[rows])
    means = loss.best - out[~np.isnan(out)]
    losses = losses_of(metric, answers, y, problem.classes)
    made = from_totals(losses, totals, means.tolist(), loss.score(gamma), weights=weights)
    return in_units(made, loss.best, -1.0)


def _per_resample(metric: str, table: pd.DataFrame) -> list[Estimate]:
    if f"apparent_{metric}" not in table or table[f"apparent_{metric}"].isna().all():
        return []
    both = table[[metric, f"apparent_{metric}"]].dropna()
    each = 0.632 * both[metric] + 0.368 * both[f"apparent_{metric}"]
    value, known = float(each.mean()), float(both[f"apparent_{metric}"].mean())
    notes = (
        spread_note(len(each), "draws"),
        "Each draw's apparent score is on its own training rows, some of which are repeated, so this variant is more "
        "optimistic than .632 with one fit on all rows; quantiles of the draws are a spread too, no interval.",
    )
    return [
        Estimate(
            metric, ".632 per resample", value, sample_sd(each.tolist()), None, len(each), None, known, known - value,
            notes=notes,
        )
    ]  # fmt: skip
