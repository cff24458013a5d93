"""An evaluation on one page: the estimates with their caveats, every split, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.classes import POOLED, confusion_table
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.results import Estimate, FoldScore

from .calibration import calibration_section
from .charts import Picture, cut, ends, some
from .page import facts, number, page, table

FIGURES = ("mean", "sd", "pooled")
MEANING = (
    "More folds mean more training rows and fewer test rows: the pooled score rises or stays, and the spread of single "
    "folds grows. That spread is no sign of overfitting."
)


def fold_count_html(problem: Problem, study: pd.DataFrame, title: str = "The number of folds") -> str:
    """Return one self-contained HTML page about what ``fold_count_study`` found: no network, no script."""
    lead = f"{escape(str(problem.model.estimator))}, {problem.n:,} rows, {problem.task}."
    return page(title, lead, [("fold-count", "Mean, spread and pooled score", fold_count_section(study))])


def fold_count_section(study: pd.DataFrame) -> str:
    """Return a curve per metric over the numbers of folds, and the figures; nothing without a study."""
    pictures = [_curve(str(metric), part) for metric, part in study.groupby("metric", sort=False)]
    rows = [
        [escape(str(row["metric"])), number(int(row["n_splits"])), *(_number(row[name]) for name in FIGURES)]
        for row in study.to_dict("records")
    ]
    told = table(["metric", "folds", *FIGURES], rows)
    return f"{''.join(pictures)}{told}"


def _number(value: float | None) -> str:
    return number(None if value is None or np.isnan(value) else float(value))


def _curve(metric: str, part: pd.DataFrame) -> str:
    k, mean = part["n_splits"].to_numpy(dtype=np.float64), part["mean"].to_numpy(dtype=np.float64)
    sd, pooled = part["sd"].to_numpy(dtype=np.float64), part["pooled"].to_numpy(dtype=np.float64)
    low, high = mean - np.nan_to_num(sd), mean + np.nan_to_num(sd)
    known = ~np.isnan(pooled)
    bottom, top = ends(np.concatenate([low, high, pooled[known]]))
    margin = (top - bottom) * 0.06 or 0.05
    picture = Picture(
        f"{metric} by the number of folds", "folds (number)", f"{metric} (score)", ends(k),
        (bottom - margin, top + margin), x_ticks=[(at, f"{at:.0f}") for at in k.tolist()],
    )  # fmt: skip
    picture.area(zip(k, low, strict=True), zip(k, high, strict=True), "band")
    picture.line(zip(k, mean, strict=True), 0)
    picture.dots([(x, y, f"{x:.0f} folds: mean {y:.4f}") for x, y in zip(k, mean, strict=True)], 0)
    picture.name("mean over folds", 0)
    picture.name("its spread (sd)", "band")
    if known.any():
        points = list(zip(k[known], pooled[known], strict=True))
        picture.line(points, 5)
        picture.dots([(x, y, f"{x:.0f} folds: pooled {y:.4f}") for x, y in points], 5)
        picture.name("all predictions pooled", 5)
    return picture.figure(MEANING)


MOST_DOTS, MOST_ROWS, MOST_BINS, MOST_CLASSES = 60, 100, 30, 20
METHODS = ("out-of-bag", ".632", ".632+")


def evaluation_html(
    problem: Problem,
    scores: Sequence[FoldScore],
    estimates: Sequence[Estimate],
    predictions: pd.DataFrame | None = None,
    title: str = "Evaluation",
    study: pd.DataFrame | None = None,
) -> str:
    """Return one self-contained HTML page about an evaluation: no network, no script.

    ``predictions``: the rows of predictions.parquet, from which confusion matrix and calibration come; bootstraps have
    none. ``study``: what ``fold_count_study`` gave for the same problem, drawn as a curve.
    Every figure stands in a ``<data value>`` at full precision, equal to estimates.json. O(rows + splits).
    """
    metrics = list(dict.fromkeys(each.metric for each in estimates))
    sections = [
        ("model", "What was trained", _model(problem)),
        ("estimates", "Estimates", _estimates(estimates)),
        ("notes", "To be read with them", _notes(estimates)),
    ]
    for i, metric in enumerate(metrics):
        about = [each for each in estimates if each.metric == metric]
        sections.append((f"metric-{i}", metric, _picture(metric, scores, about)))
    confusion = _confusion(problem, predictions)
    if confusion:
        sections.append(("confusion", "Confusion matrix", confusion))
    calibrated = calibration_section(problem, predictions)
    if calibrated:
        sections.append(("calibration", "Calibration and threshold", calibrated))
    if study is not None:
        sections.append(("fold-count", "The number of folds", fold_count_section(study)))
    sections.append(("splits", "Every split", _splits(scores)))
    lead = f"{escape(str(problem.model.estimator))}, {len(scores):,} splits, {problem.task}."
    return page(title, lead, sections)


def _model(problem: Problem) -> str:
    model = problem.model
    params = ", ".join(f"{name} = {value}" for name, value in model.params.items()) or "defaults"
    left = ", ".join(f"{name} ({why})" for name, why in problem.left_out.items()) or "none"
    rows = [("estimator", model.estimator), ("parameters", params), ("task", problem.task)]
    return facts([*rows, ("features", ", ".join(problem.features)), ("left out", left)])


def _estimates(estimates: Sequence[Estimate]) -> str:
    names = ["value", "fold_mean", "sd", "se", "apparent", "gap"]
    rows = [
        [
            escape(each.metric),
            escape(each.method),
            *(number(getattr(each, name)) for name in names),
            number(each.interval.low if each.interval else None),
            number(each.interval.high if each.interval else None),
        ]
        for each in estimates
    ]
    said = "Higher is better. sd: spread of the splits' scores, no interval; gap: apparent - value."
    return table(["metric", "method", *names, "from", "to"], rows) + f'<p class="soft">{said}</p>'


def _notes(estimates: Sequence[Estimate]) -> str:
    """Return every note once, after the names of the metrics that it is about where these are not all."""
    about: dict[str, list[str]] = {}
    for each in estimates:
        for note in (*each.notes, *(each.interval.notes if each.interval else ())):
            about.setdefault(note, []).append(each.metric)
    n_metrics = len({each.metric for each in estimates})
    items = []
    for note, metrics in about.items():
        named = list(dict.fromkeys(metrics))
        who = f"<b>{escape(', '.join(named))}</b>: " if len(named) < n_metrics else ""
        items.append(f"<li>{who}{escape(note)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else "<p>Nothing.</p>"


def _picture(metric: str, scores: Sequence[FoldScore], about: Sequence[Estimate]) -> str:
    drawn = any(each.method in METHODS for each in about)
    return _distribution(metric, scores, about) if drawn else _per_split(metric, scores, about)


def _per_split(metric: str, scores: Sequence[FoldScore], about: Sequence[Estimate]) -> str:
    shown = scores[:MOST_DOTS]
    test = [each.test[metric] for each in shown]
    apparent = [each.apparent[metric] for each in shown if metric in each.apparent]
    low, high = _range([*test, *apparent, *_ends_of(about)])
    picture = Picture(
        f"{metric} of each split", "split (number)", f"{metric} (score)", (-0.5, len(shown) - 0.5), (low, high),
        x_ticks=some([(i, str(i)) for i in range(len(shown))]),
    )  # fmt: skip
    for each in about:
        if each.interval is not None:
            left, right = picture.x_range
            band = [(left, each.interval.low), (right, each.interval.low)]
            picture.area(band, [(left, each.interval.high), (right, each.interval.high)], "band")
            picture.name(f"{each.interval.level:.0%} interval ({each.interval.method})", "band")
        picture.line([(picture.x_range[0], each.value), (picture.x_range[1], each.value)], "whole")
        picture.name(f"{each.method} {each.value:.4f}", "whole", "line")
    picture.dots([(i, value, f"{shown[i].name} test: {value:.4f}") for i, value in enumerate(test)], 0, 4)
    picture.dots([(i, value, f"{shown[i].name} training: {value:.4f}") for i, value in enumerate(apparent)], 1, 4)
    picture.name("test rows", 0)
    picture.name("training rows (apparent)", 1)
    return picture.figure(cut(len(shown), len(scores)))


def _distribution(metric: str, scores: Sequence[FoldScore], about: Sequence[Estimate]) -> str:
    given = [each.test.get(metric) for each in scores]
    test = np.array([value for value in given if value is not None and np.isfinite(value)])
    apparent = [each.apparent for each in about if each.apparent is not None][:1]
    low, high = _range([*test.tolist(), *(each.value for each in about), *apparent])
    counts, edges = np.histogram(test, bins=min(MOST_BINS, max(5, test.size // 5)), range=(low, high))
    picture = Picture(
        f"{metric} of the draws", f"{metric} on out-of-bag rows (score)", "draws (number)", (low, high),
        (0, float(counts.max()) * 1.12),
    )  # fmt: skip
    for count, left, right in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        picture.bar(left, right, 0, count, 4, f"{left:.4f} to {right:.4f}: {count:,} draws")
    picture.name("draws", 4)
    top = picture.y_range[1]
    lines = [(each.method, each.value) for each in about] + [("apparent", value) for value in apparent]
    for (said, value), colour in zip(lines, (0, 5, 2, 3, 1), strict=False):
        picture.line([(value, 0), (value, top)], colour)
        picture.name(f"{said} {value:.4f}", colour, "line")
    return picture.figure(f"Of {test.size:,} draws. Apparent: the model of all rows on the rows it has seen.")


def _range(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if np.isfinite(value)] or [0.0, 1.0]
    margin = (max(finite) - min(finite)) * 0.08 or 0.05
    return min(finite) - margin, max(finite) + margin


def _ends_of(about: Sequence[Estimate]) -> list[float]:
    return [end for each in about if each.interval for end in (each.interval.low, each.interval.high)]


def _confusion(problem: Problem, predictions: pd.DataFrame | None) -> str:
    if predictions is None or not problem.classes or len(problem.classes) > MOST_CLASSES:
        return ""
    cells = confusion_table(predictions, problem.classes)
    pooled = cells[cells["fold"] == POOLED].groupby(["y", "prediction"], sort=False)["rows"].sum()
    rows = []
    for truth in problem.classes:
        counts = [int(pooled[truth, said]) for said in problem.classes]
        whole = max(sum(counts), 1)
        shares = (f'{number(count)} <span class="soft">{count / whole:.1%}</span>' for count in counts)
        rows.append([f"<b>{escape(str(truth))}</b>", *shares, number(sum(counts))])
    head = ["truth \\ prediction", *(str(each) for each in problem.classes), "rows"]
    said = "Rows of all test sets together, and the share of each true class."
    return table(head, rows) + f'<p class="soft">{said}</p>'


def _splits(scores: Sequence[FoldScore]) -> str:
    shown = scores[:MOST_ROWS]
    metrics = list(shown[0].test) if shown else []
    rows = [
        [
            escape(each.name),
            number(each.n_train),
            number(each.n_test),
            *(number(each.test[metric]) for metric in metrics),
            *(number(each.apparent.get(metric)) for metric in metrics),
        ]
        for each in shown
    ]
    made = table(["split", "train", "test", *metrics, *(f"apparent {metric}" for metric in metrics)], rows)
    return made + (f'<p class="soft">{cut(len(shown), len(scores))}</p>' if len(shown) < len(scores) else "")
