"""What the number of folds does to an estimate: curves for the page of an evaluation, and a page of their own."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd
from evenfold.estimates.models.problem import Problem
from evenfold.manifests._page import number, page, table
from evenfold.manifests._svg import Picture, ends

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
