"""The figures of a run, by the names under which MLflow shows them: of estimates, levels and classes; read back too."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from evenfold.estimates.levels import LevelScore
from evenfold.estimates.results import Confusion, Estimate, Interval
from evenfold.splitters.errors import named_apart

MOST_CLASSES = 10  # each of which has a figure of its own
_BOOTSTRAP = {"out-of-bag": "oob", ".632": "632", ".632+": "632plus"}


def ends(metric: str, interval: Interval | None, of: str = "") -> dict[str, float]:
    """Return the ends of an interval as metrics: low/r2 and high/r2; ``of`` something else, difference_low/r2."""
    return {f"{of}{side}/{metric}": getattr(interval, side) for side in ("low", "high")} if interval else {}


def estimate_metrics(estimates: Sequence[Estimate]) -> dict[str, float]:
    """Return what is to be read: value/r2, low/r2 and high/r2, mean/r2 and sd/r2 of the folds, and apparent/r2.

    Of a bootstrap oob/r2, 632/r2 and 632plus/r2, the last of which is the value. All else is in estimates.json.
    """
    metrics: dict[str, float | None] = {}
    for each in estimates:
        metric, mean = each.metric, each.value if each.fold_mean is None else each.fold_mean
        if each.method in _BOOTSTRAP:
            metrics[f"{_BOOTSTRAP[each.method]}/{metric}"] = each.value
        else:
            metrics |= {f"mean/{metric}": mean, f"sd/{metric}": each.sd}
        figures = {"value": each.value, "apparent": each.apparent, "resolution": each.resolution}
        metrics |= {f"{name}/{metric}": value for name, value in figures.items()} | ends(metric, each.interval)
        if beside := each.baseline:
            metrics |= {f"baseline/{metric}": beside.value, f"above_baseline/{metric}": beside.difference}
            metrics |= ends(metric, beside.interval, "above_baseline_")
    return {name: float(value) for name, value in metrics.items() if value is not None}


def level_metrics(scores: Sequence[LevelScore]) -> dict[str, float]:
    """Return the scores as metrics of a run: by/region/north/r2; those of a level without one are left out."""
    titles = named_apart(each.attribute for each in scores)
    names = {title: named_apart(each.level for each in scores if each.attribute == title) for title in titles}
    return {f"by/{titles[each.attribute]}/{names[each.attribute][each.level]}/{each.metric}": each.value
            for each in scores if each.value is not None}  # fmt: skip


def confusion_metrics(confusion: Confusion | None) -> dict[str, float]:
    """Return the confusion matrix of test rows as metrics, and the ends of the thresholds."""
    if confusion is None or confusion.apparent:
        return {}
    names = named_apart(confusion.classes).values()
    rows = zip(names, confusion.counts, strict=True)
    figures = {f"confusion/{truth} called {label}": float(count)
               for truth, row in rows for label, count in zip(names, row, strict=True)}  # fmt: skip
    thresholds = dict(zip(("threshold/low", "threshold/high"), confusion.thresholds or (), strict=False))
    return (figures if len(confusion.classes) <= MOST_CLASSES else {}) | thresholds


def score_in(params: Mapping[str, str], values: Mapping[str, float]) -> tuple[str | None, float | None, float | None]:
    """Return the first metric of an evaluation or tuning, its score, and half of its interval's width, where known."""
    if metric := next((name.removeprefix("tried/") for name in values if name.startswith("tried/")), None):
        return metric, values.get("choice/value"), None
    metric = next((name for name in metrics_in(params) if f"value/{name}" in values), None)
    return metric, values.get(f"value/{metric}"), values.get(f"resolution/{metric}")


def metrics_in(params: Mapping[str, str]) -> list[str]:
    """Return the metrics that the parameters of a run name; none where what they name cannot be read."""
    metrics = read_param(params, "model.metrics", list)
    return metrics if all(isinstance(name, str) for name in metrics) else []


def read_param(params: Mapping[str, str], name: str, kind: type) -> Any:
    """Return what a parameter of a run holds; empty where there is none, or it cannot be read as of a kind."""
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        value = ast.literal_eval(params.get(name, ""))
        return kind(value) if isinstance(value, (kind, tuple)) else kind()
    return kind()
