"""Run the full study, and write its results and docs/coverage.md: ``python -m benchmarks.coverage [sets]``.

``python -m benchmarks.coverage draws`` runs the bootstraps alone, ``python -m benchmarks.coverage 200 auto,wald`` these
methods alone on 200 sets; the other figures stay as they were.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from evenfold.estimates import metric_of

from benchmarks.coverage.draws import DRAWS, study_of_draws
from benchmarks.coverage.processes import PROCESSES
from benchmarks.coverage.study import LEVEL, METHODS, study

DOCS = Path(__file__).parent.parent.parent / "docs"
SETS, FIRST = 300, 10_000  # seeds that no constant was chosen on


def main(n_sets: int, methods: tuple[str, ...] = METHODS) -> None:
    """Run every process; results are written after each one, so a stopped run keeps them."""
    found = {(row["process"], row["metric"], row["method"]): row for row in _known()["rows"]}
    for process in PROCESSES:
        for each in study(process, n_sets, methods, first=FIRST):
            found[each.process, each.metric, each.method] = each.row()
        _write(list(found.values()), _known().get("draws", []))
        print(process.name, flush=True)
    if methods == METHODS:
        of_draws()


def of_draws() -> None:
    """Run the bootstraps on every process but the series, which they cannot draw."""
    drawn: list[dict[str, Any]] = []
    for process in PROCESSES:
        if process.splitter != "forward":
            drawn += [each.row() for each in study_of_draws(process)]
            _write(_known()["rows"], drawn)
            print(f"draws: {process.name}", flush=True)


def _known() -> dict[str, Any]:
    known: dict[str, Any] = json.loads((DOCS / "results" / "coverage.json").read_text())
    return known


def _write(found: list[dict[str, Any]], drawn: list[dict[str, Any]]) -> None:
    results = json.dumps({"level": LEVEL, "rows": found, "draws": drawn}, indent=1)
    (DOCS / "results" / "coverage.json").write_text(results + "\n")
    (DOCS / "coverage.md").write_text(page(found) + (page_of_draws(drawn) if drawn else ""))


def page_of_draws(drawn: list[dict[str, Any]]) -> str:
    """Return the study of bootstraps as Markdown."""
    about = (
        "\n## Bootstraps\n\n"
        f"Written by `python -m benchmarks.coverage draws`. The interval of .632+ from its own {DRAWS} draws: the "
        "delta method of Efron and Tibshirani (1997), less the noise of few draws, its variance doubled for the error "
        f"of the very model. {max(row['n'] for row in drawn)} data sets each. Read the heavy tail: draws of the same "
        "rows do not know what has not been drawn yet.\n"
    )
    lines = [f"| {row['process']} | {metric_of(row['metric']).title} | {_cell(row)} |" for row in drawn]
    return "\n".join([about, "| process | metric | .632+ |", "|---|---|---|", *lines]) + "\n"


def page(found: list[dict[str, Any]]) -> str:
    """Return the study as Markdown."""
    about = (
        "# How often intervals hold the truth\n\n"
        "Written by `python -m benchmarks.coverage`. Each figure is the share of data sets, drawn from a process whose "
        f"true error is known, in which an interval that says {LEVEL:.2f} held it: the error of the model trained on "
        "all rows of the data set, and after the stroke that of the recipe, the mean over data sets. In brackets the "
        "median width, of `auto` as a multiple of the ideal one, 2 x 1.645 x the RMSE of the value. Five folds; "
        "stratified for classes, whole clusters, forward in time for the series.\n\n"
        "`auto` is the default: rows' influence corrected for training, or stretches of time where rows are in order; "
        "it asks for no fit beyond the five. `wald`, for comparison, takes the fitted models as given. `nested` asks "
        "for 10 more fits. A dash: the method declines, and says why (the corrected t on stratified folds, nested "
        "cross-validation of a metric that is not a mean over rows).\n"
    )
    head = f"| process | metric | {' | '.join(METHODS)} |\n|{'---|' * (2 + len(METHODS))}"
    by: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in found:
        by.setdefault((row["process"], row["metric"]), {})[row["method"]] = row
    lines = [
        f"| {process} | {metric_of(metric).title} | {' | '.join(_cell(cells.get(method)) for method in METHODS)} |"
        for (process, metric), cells in by.items()
    ]
    n = min((row["n"] for row in found), default=0)
    error = (LEVEL * (1 - LEVEL) / max(n, 1)) ** 0.5
    foot = f"Data sets: {n} each at least; the Monte Carlo error of a share of {LEVEL:.2f} is {error:.3f}."
    return "\n".join([about, head, *lines, "", foot]) + "\n"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None or row["declined"] > 0.5:
        return "-"
    if "ideal" in row and row["method"] == "auto":
        return f"{row['model']:.2f} / {row['recipe']:.2f} ({row['width'] / row['ideal']:.2f} x)"
    return f"{row['model']:.2f} / {row['recipe']:.2f} ({row['width']:.3g})"


if __name__ == "__main__":
    if sys.argv[1:] == ["draws"]:
        of_draws()
    else:
        asked = tuple(sys.argv[2].split(",")) if len(sys.argv) > 2 else METHODS
        main(int(sys.argv[1]) if len(sys.argv) > 1 else SETS, asked)
