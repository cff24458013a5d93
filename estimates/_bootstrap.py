"""The bootstrap's estimates of a model, from what its draws scored and one fit on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ._aggregate import sample_sd, spread_note
from ._errors import EvaluationError
from ._responses import replay
from .bootstrap import BootstrapEstimate, RowTotals, bootstrap_score_estimate, from_totals, in_units
from .draws import DrawScores
from .estimate import Estimate
from .fold_score import FoldScore
from .no_information import no_information_rate
from .problem import Problem
from .row_losses import ROW_LOSSES, losses_of

MOST_FAILED = 0.5


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
