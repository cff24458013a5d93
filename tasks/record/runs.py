"""The content of a store: lists of runs, models and recipes judged on a split; and which records are complete."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenfold.manifests import Manifest
from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import Outcome, SplitRef
from evenfold.tasks.record.entries import allowed, run_key, unless_usual, with_code
from evenfold.tasks.record.tracker import RUN_KEY, Tracker, users_experiment
from evenfold.tasks.references import Listed
from evenfold.tasks.results.preimages import Preimage
from evenfold.tasks.runtime.files import write_aside
from evenfold.tasks.runtime.home import Home

from evenfold import estimates

if TYPE_CHECKING:
    from evenfold.tasks.work import Work

HEADLINE = "value/"


def recorded_runs(home: Home, kind: str) -> list[Listed]:
    """Return run, model, split, score and time of every finished record of a kind in the store, the newest first.

    Of a tuning also the parameters that were chosen, and the score is what these are worth; of an evaluation those in
    which it differs from another of the same model on the same split; of later rows the strategy of the split that the
    model was judged on, and the score that it promised: how well each way of validating foretold them.
    """
    rows: list[Listed] = []
    alike: dict[tuple[str, str], list[tuple[Listed, Mapping[str, object]]]] = {}
    tracker = Tracker(home)
    for run in tracker.runs(f"tags.`evenfold.record` = '{kind}' AND attributes.status = 'FINISHED'"):
        params, tags = run.data.params, run.data.tags
        model, on = run.info.run_name.partition(" @ ")[0], tags.get("evenfold.spec") or tags.get("spec", "")
        row: Listed = {"run": run.info.run_id, "model": model, "on": on}
        if kind == "later rows":
            judged = None
            with suppress(Exception):  # it may be gone; MLflow has a kind of error of its own per store
                judged = tracker.client.get_run(params.get("run", ""))
            metric, promise, half = _headline(judged)
            row |= {"strategy": tags.get("strategy", ""), "data": run.info.run_name.rpartition(" on ")[2]}
            row |= {"promised": _score(metric, promise, half)}
            row["score"] = _score(metric, run.data.metrics.get(f"later/{metric}"), half)
        else:
            chosen = [f"{name[7:]}={params[name]}" for name in sorted(params) if name.startswith("chosen.")]
            row |= {"chosen": ", ".join(chosen)} if kind == "tuning" else {"params": ""}  # until all are read
            row["score"] = _score(*_headline(run))
            alike.setdefault((model, on), []).append((row, _literal(params, "model.params", dict) or {}))
        row["when"] = _when(run.info.start_time)
        rows.append(row)
    for pairs in alike.values() if kind == "evaluation" else ():
        for row, own in pairs:
            differing = (k for k in own if any(k not in each or each[k] != own[k] for _, each in pairs))
            row["params"] = ", ".join(f"{name}={own[name]}" for name in differing)
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


def _when(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="seconds")


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
         "when": _when(model.last_updated_timestamp)}
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
    newest = _judged_on(tracker, manifest, "creation_time", 1)
    if not newest:
        raise SplitError(f"no model was judged on {on} in {home.tracking_uri}; evaluate one on it.")
    metrics = [each.key.removeprefix(HEADLINE) for each in newest[0].metrics or [] if each.key.startswith(HEADLINE)]
    metric, server, ranked = allowed(metric or metrics[0]), server_of(home), []
    for model in _judged_on(tracker, manifest, f"metrics.{HEADLINE}{metric}", most):
        value, low, high = (_value(model, f"{figure}/{metric}") for figure in ("value", "low", "high"))
        if value is not None:
            run_id, params = model.source_run_id or "", dict(model.params or {})
            url = run_page(model.experiment_id, run_id, server=server) if server else ""
            about = {"model": model.name, "params": params, "run_id": run_id, "url": url}
            ranked.append(Judgement(value=value, low=low, high=high, **about))
    if not ranked:
        raise SplitError(f"no model on {on} was scored by {metric!r}; say {' or '.join(metrics)}.")
    return Leaderboard(split=on, split_id=manifest.split_id, metric=metric, metrics=metrics, judgements=ranked)


def _judged_on(tracker: Tracker, manifest: Manifest, order: str, most: int) -> list[Any]:
    on = {"dataset_name": f"{manifest.name}@{manifest.version}", "dataset_digest": manifest.split_id[:32]}
    by = {"field_name": order, "ascending": False} | (on if order.startswith("metrics.") else {})
    places, kind = tracker.experiments(), "model_type = 'evenfold-recipe'"
    return list(tracker.client.search_logged_models(places, kind, [on], max_results=most, order_by=[by]))


def _value(model: Any, name: str) -> float | None:
    # Of several runs of one recipe, or a value that changed, the last is meant.
    values = sorted((metric.timestamp, metric.value) for metric in model.metrics or [] if metric.key == name)
    return float(values[-1][1]) if values else None


SEEN = "recorded.json"  # which records were complete when the home's own store was last looked at


def record_parts(work: Work, label: str, interval: str, level: float) -> dict[str, object]:
    """Return what the run of an evaluation is about, whatever the user's code."""
    return {
        "kind": "evaluate", "model": work.problem.model.canonical(), "seed": work.manifest.spec.seed,
        "split_id": work.manifest.split_id, "fingerprint": work.fingerprint, "label": label,
        **unless_usual(interval, level),
    }  # fmt: skip


def preimage_of_record(work: Work, label: str, interval: str, level: float) -> Preimage:
    """Return what the record of an evaluation depends on."""
    parts = record_parts(work, label, interval, level) | {"interval": interval, "level": level}
    return Preimage(kind="record", name=work.manifest.name, parts=parts)


def finished_record(home: Home, work: Work, label: str, interval: str, level: float) -> str | None:
    """Return the finished run of an evaluation, None where there is none; looking makes no store."""
    if not home.is_recorded:
        return None
    key = with_code(run_key(**record_parts(work, label, interval, level)), work.problem.model.code)
    if held := complete_records(home).get(key):
        return held[0]
    runs = Tracker(home, work.manifest.name).runs(f"tags.`{RUN_KEY}` = '{key}'")
    return next((str(run.info.run_id) for run in runs if run.info.status == "FINISHED"), None)


Held = Mapping[str, list[str]]  # the run that holds a record, and its files, by what the record was made of


def complete_records(home: Home) -> Held:
    """Return the records that were seen to be complete, with their files; none where MLflow is to be asked.

    It need not be asked about the home's own store where nothing has been written there since: a person who evaluates
    the same again waits two seconds less, for MLflow is not even imported.
    """
    if not home.tracks_here or users_experiment():
        return {}
    with suppress(OSError, ValueError):
        store, records = json.loads((home.path / SEEN).read_bytes())
        if store and store == _state_of_store(home):
            return {of: held for of, held in records.items() if all((home.path / file).is_file() for file in held[1:])}
    return {}


def see_complete(
    split: SplitRef, contents: Iterable[str], run_id: str, files: Iterable[str], earlier: Held | None = None
) -> None:
    """Remember that a run which was just written or looked at is complete, as those ``earlier`` were just before."""
    home = Home.here()
    if not home.tracks_here:
        return
    place = f"mlartifacts/{split.name}/{run_id}/artifacts"
    held = [run_id, *(f"{place}/{file}" for file in files)]
    seen = [_state_of_store(home), dict(earlier or {}) | dict.fromkeys(contents, held)]
    write_aside(home.path / SEEN, lambda aside: aside.write_text(json.dumps(seen), encoding="utf-8"))


def _state_of_store(home: Home) -> list[int]:
    """Return what changes with whatever is written to the home's own store, and beside it while that is under way."""
    with suppress(OSError):  # of a journal that is gone by now
        states = [file.stat() for file in sorted(home.path.glob("mlflow.db*"))]
        return [number for state in states for number in (state.st_ctime_ns, state.st_size)]
    return []
