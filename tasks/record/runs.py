"""The content of a store: lists of runs, models and recipes judged on a split."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import Any

from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import Outcome
from evenfold.tasks.record.entries import allowed
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.references import Listed, in_local_time
from evenfold.tasks.runtime.home import Home

from evenfold import estimates

HEADLINE = "value/"


def recorded_runs(home: Home, kind: str) -> list[Listed]:
    """Return run, model, split, score and time of every finished record of a kind in the store, the newest first.

    Of a tuning also the parameters that were chosen, and the score is what these are worth; of an evaluation those in
    which it differs from another of the same model on the same split; of later rows the strategy of the split that the
    model was judged on, and the score that it promised: how well each way of validating foretold them.
    """
    tracker, rows, recipes = Tracker(home), [], []
    alike: defaultdict[tuple[object, object], list[dict[str, object]]] = defaultdict(list)
    for run in tracker.runs(f"tags.`evenfold.record` = '{kind}' AND attributes.status = 'FINISHED'"):
        params, tags = run.data.params, run.data.tags
        model, on = run.info.run_name.partition(" @ ")[0], tags.get("evenfold.spec") or tags.get("spec", "")
        row: Listed = {"run": run.info.run_id, "model": model, "on": on}
        metric, value, half = _headline(run)
        if kind == "later rows":
            judged = None
            with suppress(Exception):  # it may be gone; MLflow has a kind of error of its own per store
                judged = tracker.client.get_run(params.get("run", ""))
            metric, promise, half = _headline(judged)
            value = run.data.metrics.get(f"later/{metric}")
            row |= {"strategy": tags.get("strategy", ""), "data": run.info.run_name.rpartition(" on ")[2]}
            row |= {"promised": _score(metric, promise, half)}
        elif kind == "tuning":
            row["chosen"] = ", ".join(f"{each[7:]}={params[each]}" for each in sorted(params) if each[:7] == "chosen.")
        else:
            row["params"] = ""  # until all are read
            recipes.append(_literal(params, "model.params", dict) or {})
            alike[model, on].append(recipes[-1])
        rows.append(row | {"score": _score(metric, value, half), "when": in_local_time(run.info.start_time / 1000)})
    for row, own in zip(rows, recipes, strict=False):
        others = alike[row["model"], row["on"]]
        row["params"] = ", ".join(f"{n}={v}" for n, v in own.items() if any(each.get(n, ...) != v for each in others))
    return rows


def _headline(run: Any) -> tuple[str | None, float | None, float | None]:
    """Return the first metric of an evaluation or tuning, its score, and half of its interval's width, where known."""
    if run is None:
        return None, None, None
    values = run.data.metrics
    if metric := next((name.removeprefix("tried/") for name in values if name.startswith("tried/")), None):
        return metric, values.get("choice/value"), None
    metric = next((name for name in metrics_in(run.data.params) if f"value/{name}" in values), None)
    return metric, values.get(f"value/{metric}"), values.get(f"resolution/{metric}")


def _score(metric: str | None, value: float | None, half_width: float | None = None) -> str:
    """Return the score by a metric as people read it; of a metric that is unknown here, as it was recorded."""
    from evenfold.reports.evaluations.words import written

    if metric is None or value is None:
        return ""
    try:
        reading = estimates.metric_of(metric)
    except estimates.ModelError:
        return f"{metric} {written(value, half_width)}"
    return f"{reading.title} {written(reading.shown(value), half_width)}"


def recorded_models(home: Home) -> list[Listed]:
    """Return name, versions, champion and time of every registered model."""
    tracker = Tracker(home)
    return [
        {"model": model.name, "newest": max((int(each.version) for each in model.latest_versions), default=0),
         "champion": dict(model.aliases).get("champion", "none"), "uri": f"models:/{model.name}@champion",
         "when": in_local_time(model.last_updated_timestamp / 1000)}
        for model in tracker.every(tracker.client.search_registered_models)
    ]  # fmt: skip


def metrics_in(params: dict[str, str]) -> list[str]:
    """Return the metrics that the parameters of a run name; none where what they name cannot be read."""
    metrics = _literal(params, "model.metrics", list) or []
    return metrics if all(isinstance(name, str) for name in metrics) else []


def _literal(params: dict[str, str], name: str, kind: type) -> Any:
    """Return what a parameter of a run holds; empty where there is none, None where it cannot be read as of a kind."""
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        value = ast.literal_eval(params.get(name, str(kind())))
        return kind(value) if isinstance(value, (kind, tuple)) else None
    return None


class Judgement(Outcome):
    """A recipe that was judged on a split: its score as scorers give it (higher is better), interval, and its run."""

    model: str
    params: dict[str, str]
    value: float
    low: float | None
    high: float | None
    run_id: str
    url: str


class Leaderboard(Outcome):
    """Recipes by the value of a metric on one split, the best first; ``metrics``: what else they were scored by."""

    split: str
    split_id: str
    metric: str
    metrics: list[str]
    judgements: list[Judgement]


def leaderboard(reference: str, metric: str | None = None, most: int = 20) -> Leaderboard:
    """Return the ``most`` best recipes judged on a split (``name@1.0``, a name for its newest, a split_id, a plan_id).

    ``metric``: a scorer's name, else the first of the newest evaluation. One search of logged models by the split's
    digest, in every experiment. Raises SplitError without such a split, or where nothing was judged on it so.
    """
    # Whoever lists runs waits for no Prefect, which these know.
    from .reading import read_split
    from .splits import run_page, server_of

    home = Home.here()
    manifest = read_split(reference, home)
    tracker, on = Tracker(home, manifest.name), f"{manifest.name} {manifest.version}"
    dataset = {"dataset_name": f"{manifest.name}@{manifest.version}", "dataset_digest": manifest.split_id[:32]}
    search = tracker.client.search_logged_models
    judged = list(tracker.every(partial(
        search, tracker.experiments(), "model_type = 'evenfold-recipe'", [dataset],
        order_by=[{"field_name": "creation_time", "ascending": False}],
    )))  # fmt: skip
    if not judged:
        raise SplitError(f"no model was judged on {on} in {home.tracking_uri}; evaluate one on it.")
    metrics = [each.key.removeprefix(HEADLINE) for each in judged[0].metrics or [] if each.key.startswith(HEADLINE)]
    metric, server, ranked = allowed(metric or metrics[0]), server_of(home), []
    for model in judged:
        value, low, high = (_value(model, f"{figure}/{metric}") for figure in ("value", "low", "high"))
        if value is not None and not math.isnan(value):
            run_id, params = model.source_run_id or "", dict(model.params or {})
            url = run_page(model.experiment_id, run_id, server=server) if server else ""
            about = {"model": model.name, "params": params, "run_id": run_id, "url": url}
            ranked.append(Judgement(value=value, low=low, high=high, **about))
    if not ranked:
        raise SplitError(f"no model on {on} was scored by {metric!r}; say {' or '.join(metrics)}.")
    best = sorted(ranked, key=lambda each: each.value, reverse=True)[:most]
    return Leaderboard(split=on, split_id=manifest.split_id, metric=metric, metrics=metrics, judgements=best)


def _value(model: Any, name: str) -> float | None:
    # Of several runs of one recipe, or a value that changed, the last is meant.
    values = sorted((metric.timestamp, metric.value) for metric in model.metrics or [] if metric.key == name)
    return float(values[-1][1]) if values else None
