"""The figures of a run, by the names under which MLflow shows them: of a balance, of estimates, levels and classes."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from evenfold.estimates.levels import LevelScore
from evenfold.estimates.results import Confusion, Estimate, Interval
from evenfold.manifests.figures import NUMBERS, BalanceReport, FoldBalance, PartBalance, RowsBalance

MOST_CLASSES = 10  # each of which has a figure of its own
_BOOTSTRAP = {"out-of-bag": "oob", ".632": "632", ".632+": "632plus"}


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


def balance_metrics(report: BalanceReport, most_folds: int) -> dict[str, float | dict[int, float]]:
    """Return the figures as metrics of a run, their bounds, and what each part holds.

    Of whole groups also the terms of the cost and the gap to the best; of up to ``most_folds`` splits what each
    holds, a step each.
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
    for fold in report.folds if report.n_splits <= most_folds else ():
        trained = {"balance/rows_train": fold.train, "balance/wanted_train": fold.wanted_train}
        for name, rows in held(fold, **trained).items():
            series[name.format("")][fold.split] = rows
    return metrics | series


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
    return {
        f"by/{titles[each.attribute]}/{names[each.attribute][each.level]}/{each.metric}": each.value
        for each in scores
        if each.value is not None
    }


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
