"""The figures, tags and keys of the record: plain data, whatever keeps them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenfold.manifests import BalanceReport, digest_json
from evenfold.tasks.outcomes import SplitRef
from pydantic import BaseModel, ConfigDict

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """What one MLflow run shall hold; ``key`` names the run, so that saying it twice changes nothing."""

    key: str
    name: str
    tags: Mapping[str, str]
    params: Mapping[str, Any]
    metrics: Mapping[str, float]


_DIFFERS = ("seconds_", "peak_memory_")


def news(metrics: Mapping[str, float], known: Mapping[str, float], start: int) -> Iterator[tuple[str, float, int]]:
    """Yield name, value and time of the metrics that a run does not hold yet; one that has changed is a later point.

    Of two points at the same time MLflow shows the larger. Seconds and memory are those of the first fit: they differ
    each time.
    """
    for name, given in metrics.items():
        value = max(min(float(given), sys.float_info.max), -sys.float_info.max)  # as MLflow stores infinities
        before = known.get(name)
        if before is None:
            yield name, value, start
        elif before != value and not name.startswith(_DIFFERS) and not (math.isnan(before) and math.isnan(value)):
            yield name, value, max(int(time.time() * 1000), start + 1)


def run_key(**parts: Any) -> str:
    """Return the key of a run: what it is about, without when or where it ran."""
    return digest_json(parts)


def balance_metrics(report: BalanceReport) -> dict[str, float]:
    """Return the figures of a balance report and their bounds as metrics, and the rows of each fold and part."""
    metrics: dict[str, float] = {}
    for figure, value, least in report.shown():
        metrics |= figure.metrics(value, least)
    metrics |= {f"balance/rows_{part.name}": float(part.rows) for part in report.parts}
    if report.n_splits <= 100:
        metrics |= {f"balance/rows_fold_{fold.split}": float(fold.rows) for fold in report.folds}
    return metrics


def split_tags(split: SplitRef) -> dict[str, str]:
    """Return the tags by which any project finds what rests on a split."""
    return {
        "evenfold.split_id": split.split_id,
        "evenfold.plan_id": split.plan_id,
        "evenfold.spec": f"{split.name}@{split.version}",
        "evenfold.generation": split.version.partition(".")[2],
        "evenfold.kind": split.kind,
        "evenfold.strategy": split.strategy,
    }


def split_key(split: SplitRef) -> str:
    """Return the key of the run that records a split."""
    return run_key(kind="split", split_id=split.split_id, plan_id=split.plan_id)


def split_entry(split: SplitRef, report: BalanceReport, tags: Mapping[str, str]) -> Entry:
    """Return what the run of a split holds."""
    return Entry(
        key=split_key(split),
        name=f"split/{split.name} v{split.version}",
        # Where it lies is a tag: another home may record the same split, and a parameter cannot change.
        tags={**split_tags(split), "evenfold.uri": split.uri, **tags},
        params={
            "strategy": split.strategy, "algorithm_version": split.algorithm_version,
            "rows": split.n_rows, "splits": split.n_splits,
        },
        metrics=balance_metrics(report),
    )  # fmt: skip


class KeptModel(BaseModel):
    """A fitted model in a skops file, and the key that says of what data and recipe it is."""

    file: str
    key: str


class EvaluationRecord(BaseModel):
    """What the record of an evaluation holds, as plain values and names of files.

    ``children``: the score of each fold, with its peak memory. ``tables``: Parquet files by the artifact that they make
    together. ``models``: by the name of their run. ``levels``: scores of levels of attributes, as metrics.
    ``failure``: why there is no estimate, for a run that is FAILED.
    """

    model_config = ConfigDict(ser_json_inf_nan="constants")

    key: str
    model: JsonObject
    seed: int
    split_run_id: str
    tags: dict[str, str]
    fingerprint: str
    estimates: list[JsonObject]
    children: list[JsonObject]
    artifacts: JsonObject
    tables: dict[str, list[str]]
    failure: str | None = None
    models: dict[str, KeptModel] = {}
    levels: dict[str, float] = {}


_PREFIX = {"out-of-bag": "boot/{}_oob", ".632": "boot/{}_632", ".632+": "boot/{}_632plus"}


def estimate_metrics(estimates: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return every figure of the estimates under its own name, such as cv/r2, cv/r2_mean, cv/r2_sd and apparent/r2."""
    metrics: dict[str, float | None] = {}
    for each in estimates:
        prefix = _PREFIX.get(each["method"], "cv/{}").format(each["metric"])
        metrics[prefix] = each["value"]
        if each["method"] not in _PREFIX:
            mean = each.get("fold_mean")
            metrics[f"{prefix}_mean"] = each["value"] if mean is None else mean
        metrics |= {f"{prefix}_{name}": each[name] for name in ("sd", "se", "pooled")}
        metrics[f"apparent/{each['metric']}"] = each["apparent"]
        if each.get("ingredients"):
            names = (name for name in each["ingredients"] if name not in ("oob",))
            metrics |= {f"boot/{each['metric']}_{name}": each["ingredients"][name] for name in names}
        if each.get("interval"):
            metrics |= {f"{prefix}_ci_{side}": each["interval"][side] for side in ("low", "high")}
            metrics[f"{prefix}_resolution"] = (each["interval"]["high"] - each["interval"]["low"]) / 2
        if beside := each.get("baseline"):
            metrics[f"baseline/{each['metric']}"] = beside["value"]
            metrics[f"{prefix}_above_baseline"] = beside["difference"]
            ends = beside["interval"] or {}
            metrics |= {f"{prefix}_above_baseline_ci_{side}": ends.get(side) for side in ("low", "high")}
    return {name: float(value) for name, value in metrics.items() if value is not None}


def evaluation_entry(evaluation: EvaluationRecord, tags: Mapping[str, str]) -> Entry:
    """Return what the run of an evaluation holds."""
    return Entry(
        key=evaluation.key,
        name=f"evaluate/{evaluation.model['estimator'].rpartition(':')[2]}",
        tags={**tags, **evaluation.tags},
        params={f"model.{name}": value for name, value in evaluation.model.items()} | {"seed": evaluation.seed},
        metrics=estimate_metrics(evaluation.estimates) | evaluation.levels,
    )


def child_entry(parent_key: str, score: Mapping[str, Any], tags: Mapping[str, str]) -> Entry:
    """Return what the run of one fold holds, below the evaluation that ``parent_key`` names."""
    metrics = {f"test/{name}": value for name, value in score["test"].items()}
    metrics |= {f"apparent/{name}": value for name, value in score["apparent"].items()}
    metrics |= {name: score[name] for name in ("n_train", "n_test", "seconds_fit", "seconds_score", "peak_memory_mb")}
    place = {"evenfold.repeat": str(score["repeat"]), "evenfold.fold": str(score["fold"])}
    key = run_key(kind="fold", parent=parent_key, repeat=score["repeat"], fold=score["fold"])
    return Entry(key=key, name=score["name"], tags={**tags, **place}, params={}, metrics=metrics)
