"""The metrics that are known: a record each. A metric that is not listed is scikit-learn's scorer and no more."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from math import inf, isfinite, nan
from typing import Any

import numpy as np
from evenfold.estimates.metrics import formulas
from evenfold.estimates.metrics.record import Answered, Influence, Metric, RowLoss
from evenfold.estimates.metrics.scoring import OF, OF_ONE_CLASS, lower_is_better, path_in, score, scorer_of, title_of
from evenfold.splitters import Stream
from evenfold.splitters.errors import ModelError
from numpy.typing import NDArray
from sklearn.metrics import get_scorer

# The purpose of the stream, so that these permutations share no numbers with any split.
NO_INFORMATION = 632


def _mean(name: str, title: str, loss: RowLoss, **more: Any) -> Metric:
    """Return the record of a mean over rows; one whose best value is 0 is an error: lower is better."""
    error = loss.best == 0
    return Metric(
        name, title, lower_is_better=error, low=-inf if error else 0.0, high=loss.best, loss=loss,
        influence=partial(formulas.influence_on_mean, loss), **more,
    )  # fmt: skip


def _numbers(name: str, title: str, of: Any, aliases: tuple[str, ...] = (), **more: Any) -> Metric:
    return _mean(name, title, RowLoss(0.0, of), task="regression", aliases=aliases, **more)


def _chances(name: str, title: str, of: Any, *aliases: str) -> Metric:
    loss = RowLoss(0.0, of, reads="predict_proba")
    rate = partial(formulas.rate_over_classes, loss)
    return _mean(name, title, loss, task="classification", aliases=aliases, no_information=rate)


_of_classes = partial(Metric, task="classification", unit="share", high=1.0, needs="every class")
_areas = partial(_of_classes, low=0.0, ranks=True, no_information=lambda rows: 0.5)  # what any ranking then scores
_variances = partial(Metric, task="regression", high=1.0, needs="spread")
_errors = partial(Metric, task="regression", lower_is_better=True, unit="target", high=0.0)


def _cells(name: str, title: str, *aliases: str, low: float = 0.0, **more: Any) -> Metric:
    return _of_classes(name, title, aliases, low=low, influence=partial(formulas.influence_on_cells, name), **more)


_RIGHT = RowLoss(1.0, formulas.wrong, share=True)
_AVERAGES = {"": "", "_macro": ", mean of the classes", "_micro": ", all rows together",
             "_weighted": ", weighted by class size"}  # fmt: skip

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _mean("accuracy", "accuracy", _RIGHT, task="classification", aliases=("acc",), unit="share",
              no_information=partial(formulas.rate_over_classes, _RIGHT)),
        _cells("balanced_accuracy", "balanced accuracy", "bacc", quick=formulas.quick_balanced_accuracy,
               no_information=partial(formulas.rate_over_classes, _RIGHT, alike=True), of_recalls=True),
        _cells("matthews_corrcoef", "Matthews correlation", "mcc", low=-1.0),
        *(_cells(f"f1{end}", f"F1{words}") for end, words in _AVERAGES.items()),
        *(_cells(f"precision{end}", f"precision{words}") for end, words in _AVERAGES.items()),
        *(_cells(f"recall{end}", f"recall{words}", one_sided=not end, of_recalls=end == "_macro")
          for end, words in _AVERAGES.items()),
        _cells("sensitivity", "sensitivity", "tpr", one_sided=True),
        _cells("specificity", "specificity", "tnr", one_sided=True),
        *(_cells(f"jaccard{end}", f"Jaccard{words}") for end, words in _AVERAGES.items()),
        _areas("roc_auc", "AUC", ("auc", "auroc"), influence=formulas.influence_on_auc, quick=formulas.quick_auc),
        _areas("roc_auc_ovr", "AUC, one against the rest", influence=formulas.influence_on_auc_ovr),
        _areas("roc_auc_ovr_weighted", "AUC, one against the rest, weighted by class size",
               influence=partial(formulas.influence_on_auc_ovr, weighted=True)),
        _areas("roc_auc_ovo", "AUC, one against one"),
        _areas("roc_auc_ovo_weighted", "AUC, one against one, weighted by class size"),
        _areas("average_precision", "average precision", ("ap", "pr_auc"), no_information=None),
        _chances("neg_log_loss", "log loss", formulas.log, "log_loss", "logloss"),
        _chances("neg_brier_score", "Brier score", formulas.brier, "brier"),
        _variances("r2", "R2", influence=formulas.influence_on_r2, quick=formulas.quick_r2,
                   no_information=formulas.rate_of_r2),
        _variances("explained_variance", "explained variance"),
        _variances("d2_absolute_error_score", "D2 of absolute errors"),
        _errors("neg_root_mean_squared_error", "RMSE", ("rmse",), influence=formulas.influence_on_rmse,
                quick=formulas.quick_rmse),
        _numbers("neg_mean_squared_error", "MSE", formulas.squared, ("mse",), unit="target squared",
                 no_information=formulas.rate_of_squares),
        _numbers("neg_mean_absolute_error", "MAE", formulas.absolute, ("mae",), unit="target",
                 no_information=formulas.rate_of_distances),
        _numbers("neg_mean_absolute_percentage_error", "MAPE", formulas.relative, ("mape",), unit="share"),
        _numbers("neg_mean_squared_log_error", "mean squared log error", formulas.squared_log, ("msle",)),
        _numbers("neg_mean_poisson_deviance", "mean Poisson deviance", formulas.poisson),
        _numbers("neg_mean_gamma_deviance", "mean gamma deviance", formulas.gamma),
        _errors("neg_median_absolute_error", "median absolute error", of_single_rows=(
            "leaving out rows does not tell how far the median absolute error of another sample would be off, however "
            "many rows there are; choose interval: bootstrap.")),
        _errors("neg_max_error", "greatest error", of_single_rows=(
            "the greatest error of some rows does not tell that of others; choose the median or MAE for an interval.")),
    )
}  # fmt: skip

ALIASES = {alias: metric.name for metric in METRICS.values() for alias in (metric.name, *metric.aliases)}


@cache
def metric_of(name: str) -> Metric:
    """Return the record of a metric by name or alias, of an unlisted scorer what scikit-learn says; else ModelError."""
    name = ALIASES.get(name.lower(), name)
    if name in METRICS:
        return METRICS[name]
    if path_in(name):  # one's own; what is known of it stands in its name, and nothing is imported
        return Metric(name, title_of(name), lower_is_better=lower_is_better(name))
    base, of, label = name.partition(OF)
    if of and base in METRICS:  # of one class, by its name
        record = METRICS[base]
        influence = partial(formulas.influence_on_cells, name) if record.influence else None
        return replace(record, name=name, title=f"{record.title}{of}{label}", influence=influence)
    try:
        error = get_scorer(name)._sign < 0
    except ValueError:
        raise ModelError(f"{name!r} is not a scikit-learn scorer.") from None
    return Metric(name, name.removeprefix("neg_").replace("_", " "), lower_is_better=error)


def depends_on_model(metric: str, y: NDArray[Any], classes: tuple[Any, ...] = ()) -> bool:
    """Return whether a model's answers, not a convention, decide the score of rows with the targets ``y``.

    They do not for R2 of one value, precision or Matthews' correlation of one class, recall or F1 of a class without a
    row, and areas of rows that lack one of the ``classes``.
    """
    record, base, n_values = metric_of(metric), metric.partition(OF)[0], np.unique(y).size
    if record.ranks:
        return n_values == len(classes)
    if n_values == 1 and (record.needs == "spread" or base in ("precision", "matthews_corrcoef")):
        return False
    if base in OF_ONE_CLASS and len(classes) == 2:
        return bool(np.any(y == scorer_of(metric, classes)._kwargs.get("pos_label", 1)))
    return True


def score_or_nan(metric: Metric, rows: Answered, quick: bool = False) -> float:
    """Return the score of rows, NaN where it is undefined; ``quick``: without scikit-learn's checks."""
    try:
        if quick and metric.quick is not None and rows.weights is None:
            value = metric.quick(rows)
            return value if isfinite(value) else nan
        return score(metric.name, rows)
    except Exception:  # a scorer raises what it likes where it is undefined
        return nan


def influence_of(metric: str, rows: Answered) -> Influence | None:
    """Return the score of the rows and each row's influence on it (see formulas), None where it has no such form."""
    record = metric_of(metric)
    if record.influence is None or (record.loss is not None and not hasattr(rows.answers, record.loss.reads)):
        return None
    value, influence = record.influence(rows)
    return (value, influence) if np.all(np.isfinite(influence)) else None


def no_information_rate(metric: str, rows: Answered, *, seed: int = 0) -> float:
    """Return the score that predictions have on average when y is paired with them at random.

    ``rows``: all rows, answered by the model that was fitted on them. Exact over all n x n pairs where the metric's
    record has a rate, else the mean over 100 seeded permutations of y. Source: Efron and Tibshirani (1997).
    """
    if (rate := metric_of(metric).no_information) is not None:
        return rate(rows)
    weights, stream = rows.weights, Stream(seed, NO_INFORMATION)
    orders = (stream.permutation(rows.n) for _ in range(100))
    paired = (Answered(rows.answers, rows.y[o], weights=None if weights is None else weights[o]) for o in orders)
    return float(np.mean([score(metric, each) for each in paired]))
