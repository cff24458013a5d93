"""A model that learns batch by batch, for rows that do not fit into memory together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

import pandas as pd
from evenfold.estimates.metrics.responses import Responses
from evenfold.estimates.metrics.scoring import scores_of
from evenfold.estimates.results import EvaluationError, FoldScore, ModelError
from evenfold.splitters.deployed import cause_of, shown
from evenfold.splitters.importing import ESTIMATOR, resolve
from sklearn.utils.validation import check_is_fitted

from .columns import choose_features, feature_table
from .fit import assemble, predictions_of, reason_in_a_line
from .problem import Problem, require_target, values_of
from .spec import ModelSpec


def fit_in_batches(
    model: ModelSpec,
    problem: Problem,
    batches: Iterable[pd.DataFrame],
    *,
    seed: int,
    name: str,
    repeat: int = 0,
    fold: int = 0,
) -> tuple[FoldScore, pd.DataFrame]:
    """Fit on ``batches`` of training rows by ``partial_fit``, one pass in their order, and score the problem's rows.

    ``problem``: the test rows, with every class of the target. Scores and predictions are those of ``fit_and_score``
    but for scores on training rows, which are left out. Raises ModelError for an estimator that does not learn so, as
    none does with text features, balancing, imputing, a threshold or a transform around it, and EvaluationError
    where the fit fails.
    """
    started = perf_counter()
    estimator, rows = fitted_in_batches(model, problem, batches, seed=seed, name=name)
    between, answers = perf_counter(), Responses(estimator, problem.X)
    metrics = model.completed(problem.task, len(problem.classes)).metrics
    tested = scores_of(metrics, answers, problem.y, classes=problem.classes, name=name, side="test")
    every = pd.RangeIndex(problem.n).to_numpy()
    predictions = predictions_of(problem, every, answers, repeat, fold, name=name)
    seconds = between - started, perf_counter() - between
    return FoldScore(name, repeat, fold, tested, {}, rows, problem.n, *seconds), predictions


def fitted_in_batches(
    model: ModelSpec, problem: Problem, batches: Iterable[pd.DataFrame], *, seed: int, name: str
) -> tuple[Any, int]:
    """Return the model fitted on ``batches`` in their order, and how many rows they had. Raises as fit_in_batches.

    Of ``problem`` the task, the classes and the names of the features are used, and no row.
    """
    rows, estimator = 0, assemble(model, problem, seed)
    _require_batches(estimator, model)
    try:
        for frame in batches:
            rows += len(frame)
            _learn(estimator, problem, frame)
        check_is_fitted(estimator)
    except ModelError:
        raise
    except Exception as error:
        raise EvaluationError(
            f"{name}: the model could not be fitted on its first {rows:,} training rows: {reason_in_a_line(error)}"
        ) from cause_of(error)
    return estimator, rows


def learns_in_batches(model: ModelSpec) -> bool:
    """Return whether a model with these features may be fitted batch by batch: it has ``partial_fit``."""
    return model.features is not None and hasattr(resolve(str(model.estimator), ESTIMATOR), "partial_fit")


def _require_batches(estimator: Any, model: ModelSpec) -> None:
    if not hasattr(estimator, "partial_fit"):
        raise ModelError(
            f"{type(estimator).__name__} does not learn batch by batch (it has no partial_fit); choose one that does, "
            "such as sklearn.linear_model:SGDRegressor, of numeric features and with nothing around it, or pass a "
            "table that fits into memory."
        )
    if model.weights or model.fit_params:
        raise ModelError("weights and fit_params are not handed on batch by batch; leave them out.")


def features_in(frame: pd.DataFrame, features: Sequence[str]) -> pd.DataFrame:
    """Return the features of a batch as a model is given them."""
    return feature_table(frame, choose_features(frame, list(features), (), {})[0])


def _learn(estimator: Any, problem: Problem, frame: pd.DataFrame) -> None:
    require_target(frame[problem.target])
    y, _ = values_of(frame[problem.target], problem.task, problem.classes)
    unknown = sorted(set(y.tolist()) - set(problem.classes), key=str) if problem.classes else []
    if unknown:
        raise ModelError(
            f"target {problem.target!r} holds {shown(repr(unknown[0]))}, which is none of the problem's "
            f"{len(problem.classes):,} classes; make the problem of rows that hold every class."
        )
    known = {"classes": list(problem.classes)} if problem.classes else {}
    estimator.partial_fit(features_in(frame, problem.features), y, **known)
