"""The figures, tags and keys of the record: plain data, whatever keeps them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenfold.manifests import BalanceReport, digest_json
from evenfold.tasks.outcomes import SplitRef

Metrics = Mapping[str, float | Mapping[int, float]]  # what has a value for each of several steps as well
MOST_FOLDS = 100  # above these a fold has no run and no point in a chart; a table of scores holds them all
RECIPE, PREDICTIONS = "recipe.json", "predictions.parquet"
PARTIAL = "evenfold.partial"  # the tag of an evaluation of some of the splits
SHORT = 12  # digits of an identity that people read


@dataclass(frozen=True)
class Entry:
    """The content of the MLflow run that ``key`` names; ``judged``: it is of a recipe, which MLflow's models list."""

    key: str
    name: str
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=dict)
    judged: bool = False

    @property
    def points(self) -> dict[tuple[str, int], float]:
        """Every value by metric and step, as MLflow stores infinities; what has no steps stands at 0."""
        most, points = sys.float_info.max, {}
        for name, value in self.metrics.items():
            for i, x in (value if isinstance(value, Mapping) else {0: value}).items():
                points[allowed(name), i] = max(min(float(x), most), -most)
        return points


def run_key(**parts: Any) -> str:
    """Return the key of a run: what it is about, without when or where it ran.

    The same request finds its run by it. What a run was made of has a digest of its own, the tag ``CONTENT`` of
    tracker.py: a complete run of the same content stays, of another it is written over.
    """
    return digest_json(parts)


CODE, UNCODED = "evenfold.code", "evenfold.uncoded_key"


def coded(key: str, code: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the key of a run of this code of the user's, and its tags: the code, and ``key``, whatever the code."""
    return (run_key(of=key, code=dict(code)), {CODE: json.dumps(dict(code)), UNCODED: key}) if code else (key, {})


def code_in(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the code that the tags of a run or version name; empty where they name none, or were cut or edited."""
    try:
        code = json.loads(tags.get(CODE, "{}"))
    except ValueError:
        return {}
    return code if isinstance(code, dict) else {}


def unless_usual(interval: str, level: float) -> dict[str, object]:
    """Return the interval as part of a run's key, nothing of the usual one: keys of earlier runs stay as they are."""
    parts: dict[str, object] = {"interval": interval, "level": level}
    return parts if parts != {"interval": "auto", "level": 0.95} else {}


def allowed(name: str) -> str:
    """Return a metric's name in the letters that MLflow allows: a class may be called ``>50K``."""
    return re.sub(r"[^\w.\- :/]", "_", name)


def short_tags(split: SplitRef) -> dict[str, str]:
    """Return the tags that people read and search for: the first digits of the split's id, its name, its strategy."""
    short = {"split": split.split_id[:SHORT], "spec": f"{split.name}@{split.version}", "strategy": split.strategy}
    return short | {"evenfold.split_id": split.split_id}


def split_tags(split: SplitRef, **own: str) -> dict[str, str]:
    """Return the tags by which any project finds what rests on a split, and a record's ``own`` ones."""
    short = short_tags(split)
    own |= {"plan_id": split.plan_id, "kind": split.kind, "spec": short["spec"], "strategy": split.strategy}
    own |= {"generation": split.version.partition(".")[2]}
    return short | {f"evenfold.{name}": value for name, value in own.items()}


def split_key(split: SplitRef) -> str:
    """Return the key of the run that records a split."""
    return run_key(kind="split", split_id=split.split_id, plan_id=split.plan_id)


def split_entry(split: SplitRef, report: BalanceReport, tags: dict[str, str]) -> Entry:
    """Return what the run of a split holds: of its parameters also those that nobody gave."""
    stored = split.stored()
    chosen = {n: v for n, v in stored.splitter.get_params(deep=False).items() if isinstance(v, (int, float, str))}
    chosen |= stored.spec.params
    return Entry(
        key=split_key(split), name=f"{split.name} {split.version} split", metrics=report.metrics(MOST_FOLDS),
        # Where it lies is a tag: another home may record the same split, and a parameter cannot change.
        tags=split_tags(split, record="split", uri=split.uri) | tags,
        params={
            "strategy": split.strategy, "algorithm_version": split.algorithm_version,
            "rows": split.n_rows, "splits": split.n_splits,
            "split_id": split.split_id, "plan_id": split.plan_id, "seed": stored.spec.seed,
            **{f"params.{name}": value for name, value in chosen.items() if name != "random_state"},
            **{f"columns.{role}": name for role, name in stored.spec.columns.model_dump(exclude_defaults=True).items()},
        },
    )  # fmt: skip
