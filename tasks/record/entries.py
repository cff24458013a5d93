"""The figures, tags and keys of the record: plain data, whatever keeps them."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evenfold.estimates import Confusion, Estimate, Interval
from evenfold.manifests import BalanceReport, digest_json
from evenfold.manifests.figures import NUMBERS, FoldBalance, PartBalance, RowsBalance
from evenfold.tasks.outcomes import SplitRef

Metrics = Mapping[str, float | Mapping[int, float]]  # what has a value for each of several steps as well
MOST_FOLDS = 100  # above these a fold has no run and no point in a chart; a table of scores holds them all
RECIPE, PREDICTIONS = "recipe.json", "predictions.parquet"
PARTIAL = "evenfold.partial"  # the tag of an evaluation of some of the splits
MOST_CLASSES = 10
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

    @cached_property
    def series(self) -> set[str]:
        """The metrics of several steps, in the letters that MLflow allows: a class may be called ``>50K``."""
        return {allowed(name) for name, value in self.metrics.items() if isinstance(value, Mapping)}

    @property
    def points(self) -> dict[tuple[str, int], float]:
        """Every value by metric and step, as MLflow stores infinities; what has no steps stands at 0."""
        most, points = sys.float_info.max, {}
        for name, value in self.metrics.items():
            for i, x in (value if isinstance(value, Mapping) else {0: value}).items():
                points[allowed(name), i] = max(min(float(x), most), -most)
        return points


def run_key(**parts: Any) -> str:
    """Return the key of a run: what it is about, without when or where it ran."""
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


def balance_metrics(report: BalanceReport) -> dict[str, float | dict[int, float]]:
    """Return the figures of a balance report as metrics, their bounds, and what each part holds.

    Of whole groups also the terms of the cost and the gap to the best; of up to 100 folds what each holds, a step each.
    """
    metrics: dict[str, float | dict[int, float]] = {}
    for figure, value, least in report.shown():
        metrics |= figure.metrics(value, least)
    classes = [f"balance/share{{}}/{name}" for name in named_apart(report.classes or ()).values()]

    def held(place: RowsBalance, **more: float | None) -> dict[str, float]:
        values = {f"balance/{name}{{}}": getattr(place, name) for name in ("rows", "wanted", *NUMBERS)} | more
        if len(classes) <= MOST_CLASSES:
            values |= dict(zip(classes, place.shares or (), strict=False))
        return {name: float(value) for name, value in values.items() if value is not None}

    places: list[FoldBalance | PartBalance] = [*report.folds, *report.parts]
    for place in (each for each in places if each.name):
        metrics |= {name.format(f"_{place.name}"): value for name, value in held(place).items()}
    strata = named_apart(report.strata)
    metrics |= {f"balance/stratum_share/{strata[name]}": value for name, value in report.strata.items()}
    if report.reach is not None:
        terms = ("size_term", "class_term", "missing", "gap", "optimal")
        metrics |= {f"balance/cost_{name}": float(getattr(report.reach, name)) for name in terms}
    if report.picks is not None:
        metrics |= {"balance/least_picked": report.picks[0], "balance/most_picked": report.picks[1]}
    series = defaultdict[str, dict[int, float]](dict)
    for fold in report.folds if report.n_splits <= MOST_FOLDS else ():
        trained = {"balance/rows_train": fold.train, "balance/wanted_train": fold.wanted_train}
        for name, rows in held(fold, **trained).items():
            series[name.format("")][fold.split] = rows
    return metrics | series


def allowed(name: str) -> str:
    """Return a metric's name in the letters that MLflow allows."""
    return re.sub(r"[^\w.\- :/]", "_", name)


def named_apart(labels: Iterable[str]) -> dict[str, str]:
    """Return each class, level or column in the letters that a metric's name may have: those of any alphabet.

    What would coincide is numbered in the order given (``C__``, ``C__ 2``), so that none overwrites another. O(n).
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for label in dict.fromkeys(labels):
        plain = re.sub(r"[^\w .-]", "_", label)[:60]
        plain = "_" if plain in ("", ".", "..") else plain  # which a path cannot end in
        numbered = (f"{plain} {number}" for number in itertools.count(2))
        names[label] = next(name for name in itertools.chain([plain], numbered) if name not in taken)
        taken.add(names[label])
    return names


def short_tags(split: SplitRef) -> dict[str, str]:
    """Return the tags that people read and search for: the first digits of the split's id, its name, its strategy."""
    short = {"split": split.split_id[:SHORT], "spec": f"{split.name}@{split.version}", "strategy": split.strategy}
    return short | {"evenfold.split_id": split.split_id}


def split_tags(split: SplitRef) -> dict[str, str]:
    """Return the tags by which any project finds what rests on a split."""
    return short_tags(split) | {
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
    """Return what the run of a split holds: of its parameters also those that nobody gave."""
    stored = split.stored()
    columns = stored.spec.columns.model_dump(exclude_defaults=True)
    plain = {n: v for n, v in stored.splitter.get_params(deep=False).items() if isinstance(v, (int, float, str))}
    chosen = plain | stored.spec.params
    return Entry(
        key=split_key(split),
        name=f"{split.name} {split.version} split",
        # Where it lies is a tag: another home may record the same split, and a parameter cannot change.
        tags={**split_tags(split), "evenfold.record": "split", "evenfold.uri": split.uri, **tags},
        params={
            "strategy": split.strategy, "algorithm_version": split.algorithm_version,
            "rows": split.n_rows, "splits": split.n_splits,
            "split_id": split.split_id, "plan_id": split.plan_id, "seed": stored.spec.seed,
            **{f"params.{name}": value for name, value in chosen.items() if name != "random_state"},
            **{f"columns.{role}": name for role, name in columns.items()},
        },
        metrics=balance_metrics(report),
    )  # fmt: skip


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


def confusion_metrics(confusion: Confusion | None) -> dict[str, float]:
    """Return the confusion matrix of test rows as metrics, and the ends of the thresholds."""
    if confusion is None or confusion.apparent:
        return {}
    names = named_apart(confusion.classes).values()
    figures = {
        f"confusion/{truth} called {label}": float(count)
        for truth, row in zip(names, confusion.counts, strict=True)
        for label, count in zip(names, row, strict=True)
    }
    thresholds = dict(zip(("threshold/low", "threshold/high"), confusion.thresholds or (), strict=False))
    return (figures if len(confusion.classes) <= MOST_CLASSES else {}) | thresholds
