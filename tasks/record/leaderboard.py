"""Every model that was ever judged on a split, ranked by one search of MLflow's."""

from __future__ import annotations

from typing import Any

from evenfold.manifests import Manifest
from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Home
from pydantic import BaseModel, ConfigDict

from .entries import allowed
from .links import run_page, server_of
from .reading import read_split
from .tracker import Tracker

HEADLINE = "value/"


class Judgement(BaseModel):
    """A recipe that was judged on a split: its score as scorers give it (higher is better), interval, and its run."""

    model_config = ConfigDict(frozen=True)

    model: str
    params: dict[str, str]
    value: float
    low: float | None
    high: float | None
    run_id: str
    url: str


class Leaderboard(BaseModel):
    """Recipes by the value of a metric on one split, the best first; ``metrics``: what else they were scored by."""

    model_config = ConfigDict(frozen=True)

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
    home = Home.here()
    manifest = read_split(reference, home)
    tracker = Tracker(home, manifest.name)
    newest = _judged_on(tracker, manifest, "creation_time", 1)
    if not newest:
        raise SplitError(
            f"no model was judged on {manifest.name} {manifest.version} in {home.tracking_uri}; evaluate one on it."
        )
    metrics = [each.key.removeprefix(HEADLINE) for each in newest[0].metrics or [] if each.key.startswith(HEADLINE)]
    metric = allowed(metric or metrics[0])
    runs = _judged_on(tracker, manifest, f"metrics.{HEADLINE}{metric}", most)
    server, ranked = server_of(home), []
    for model in runs:
        value, run_id = _value(model, HEADLINE + metric), model.source_run_id or ""
        if value is not None:
            url = run_page(model.experiment_id, run_id, server=server) if server else ""
            low, high = (_value(model, f"{side}/{metric}") for side in ("low", "high"))
            about = {"model": model.name, "params": dict(model.params or {}), "run_id": run_id, "url": url}
            ranked.append(Judgement(value=value, low=low, high=high, **about))
    if not ranked:
        others = " or ".join(metrics)
        raise SplitError(f"no model on {manifest.name} {manifest.version} was scored by {metric!r}; say {others}.")
    return Leaderboard(
        split=f"{manifest.name} {manifest.version}",
        split_id=manifest.split_id,
        metric=metric,
        metrics=metrics,
        judgements=ranked,
    )


def _judged_on(tracker: Tracker, manifest: Manifest, order: str, most: int) -> list[Any]:
    on = {"dataset_name": f"{manifest.name}@{manifest.version}", "dataset_digest": manifest.split_id[:32]}
    by = {"field_name": order, "ascending": False} | (on if order.startswith("metrics.") else {})
    places, kind = tracker.experiments(), "model_type = 'evenfold-recipe'"
    return list(tracker.client.search_logged_models(places, kind, [on], max_results=most, order_by=[by]))


def _value(model: Any, name: str) -> float | None:
    # Of several runs of one recipe, or a value that changed, the last is meant.
    values = sorted((metric.timestamp, metric.value) for metric in model.metrics or [] if metric.key == name)
    return float(values[-1][1]) if values else None
