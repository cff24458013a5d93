"""The pages and pictures that a record holds, made from what a step is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenfold.manifests import BalanceReport, audit, read_manifest, read_table
from matplotlib.figure import Figure

from .split_charts import split_figures
from .split_page import report_html


def pictures_of(uri: str, report: dict[str, Any], data: str) -> dict[str, Any]:
    """Return the report of the manifest in a folder and its main pictures, by file name.

    Where a manifest grew by a batch its older rows are not at hand: then the balance has no target, and the audit and
    the pictures that need the rows are left out.
    """
    manifest, balance = read_manifest(uri), BalanceReport.model_validate(report)
    columns = manifest.spec.columns
    known = balance.target is not None or columns.target is None
    rows = read_table(data, types=manifest.spec.types) if known and (columns.target or columns.group) else None
    found = None if rows is None else audit(manifest, rows)
    figures = {f"{name}.png": figure for name, figure in split_figures(manifest, balance, rows).items()}
    pages = {"report.html": report_html(manifest, balance, rows, found)} | figures
    return pages if found is None else pages | {"audit.json": found.model_dump(mode="json")}


def scores_figure(estimates: Sequence[dict[str, Any]], children: Sequence[dict[str, Any]]) -> Figure:
    """Return a panel per metric: each fold's test and apparent score, and every estimate with its interval."""
    metrics = list(dict.fromkeys(each["metric"] for each in estimates))
    figure = Figure(figsize=(4.5 * len(metrics), 3.6), layout="constrained")
    for panel, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        mine = [each for each in estimates if each["metric"] == metric]
        for side, mark, colour in (("test", "o", "#0072B2"), ("apparent", "x", "#E69F00")):
            values = [child[side].get(metric) for child in children]
            panel.plot([0] * len(values), values, mark, color=colour, label=f"{side} score of a fold")
        for at, each in enumerate(mine, start=1):
            panel.plot(at, each["value"], "s", color="#000000")
            if each["interval"]:
                panel.vlines(at, each["interval"]["low"], each["interval"]["high"], color="#000000")
        names = ["folds", *(each["method"] for each in mine)]
        panel.set_xticks(range(len(names)), names, rotation=20, ha="right")
        panel.set_ylabel(metric)
        if children:
            panel.legend(fontsize=8)
    return figure


def split_note(split: dict[str, Any], report: BalanceReport, run_id: str) -> str:
    """Return in Markdown what a split came to and where its report lies."""
    worst = "".join(f"| {figure.title} | {figure.text(value)} |\n" for figure, value, _ in report.shown())
    return (
        f"**{split['name']} {split['version']}**, {split['strategy']}: {split['n_rows']:,} rows, {split['n_splits']:,} "
        f"splits\n\n| balance | value |\n|---|---|\n{worst}\n"
        f"split_id `{split['split_id']}`\n\nReport: MLflow run `{run_id}`, artifact `split/report.html`\n"
    )
