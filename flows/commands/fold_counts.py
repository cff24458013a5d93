"""Studies on the command line: the problem from flags, the table on the terminal, the picture in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from evenfold.estimates import ModelSpec, Problem, fold_count_study
from evenfold.flows.requests import Say
from evenfold.manifests import Columns, read_table, require_columns, write_whole
from evenfold.reports import fold_count_html
from evenfold.splitters import SplitError
from rich.table import Table

from .show import consoles

# Okabe and Ito's colours, told apart by everybody.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")


def problem_of(data: str, columns: dict[str, Any], model: ModelSpec) -> Problem:
    """Return the problem of predicting the target column of a file."""
    named = Columns.model_validate({name: value for name, value in columns.items() if value})
    if named.target is None:
        raise SplitError("no target column is named, and a model has to predict one; pass --target.")
    table = read_table(data)
    require_columns(named.roles(), table.column_names)
    frame = table.replace_schema_metadata(None).to_pandas()
    return Problem.of(frame, model, named.target, named.roles(), groups=named.group)


def counts_of(given: str) -> list[int]:
    """Return the numbers of folds in ``5..100`` (eight of them, evenly apart) or ``5,10,20``."""
    try:
        if ".." not in given:
            return [int(each) for each in given.split(",")]
        low, high = (int(each) for each in given.split(".."))
    except ValueError:
        raise SplitError(f"--k {given!r}; write 5..100, or 5,10,20.") from None
    return sorted({low + (high - low) * step // 7 for step in range(8)})


def counted(problem: Problem, counts: list[int], seed: int, say: Say) -> pd.DataFrame:
    """Return the study of these numbers of folds, one after the other, and say how many models are fitted."""
    done, parts = 0, []
    say("fitting models", 0, sum(counts))
    for k in counts:
        parts.append(fold_count_study(problem.model, problem, [k], seed=seed))
        done += k
        say("fitting models", done, sum(counts))
    return pd.concat(parts, ignore_index=True)


def show_table(table: pd.DataFrame, picture: Path, as_json: bool) -> None:
    """Print a table of results, and where its picture lies."""
    out, _ = consoles()
    if as_json:
        out.print_json(data={"rows": json.loads(table.to_json(orient="records")), "picture": str(picture)})
        return
    shown = Table(*map(str, table.columns), box=None)
    for row in table.itertuples(index=False):
        shown.add_row(*(f"{value:.4f}" if isinstance(value, float) else str(value) for value in row))
    out.print(shown)
    out.print(f"picture: {picture}")


def _axes(n: int) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, n, figsize=(5 * n, 3.6), squeeze=False, layout="constrained")
    return figure, axes[0]


def _save(figure: Any, output: Path) -> None:
    try:
        figure.savefig(output, dpi=120)
    except (ValueError, OSError) as error:
        raise SplitError(f"the picture cannot be written to {output} ({error}); pass -o NAME.png.") from None


def draw_fold_counts(problem: Problem, table: pd.DataFrame, output: Path) -> None:
    """Draw mean, spread and pooled score against the number of folds: a panel per metric, or a page (``.html``)."""
    if output.suffix == ".html":
        write_whole(output, fold_count_html(problem, table))
        return
    metrics = table["metric"].unique()
    figure, axes = _axes(len(metrics))
    for ax, metric in zip(axes, metrics, strict=True):
        part = table[table["metric"] == metric]
        ax.fill_between(
            part["n_splits"], part["mean"] - part["sd"], part["mean"] + part["sd"], alpha=0.2, color=COLOURS[0]
        )
        ax.plot(part["n_splits"], part["mean"], "o-", color=COLOURS[0], label="mean over folds, and its spread")
        ax.plot(part["n_splits"], part["pooled"].astype(float), "s--", color=COLOURS[1], label="all predictions pooled")
        ax.set(xlabel="number of folds", ylabel=metric)
        ax.legend(fontsize=8)
    _save(figure, output)


def draw_ratios(table: pd.DataFrame, output: Path) -> None:
    """Draw the variance of each estimate as a ratio to random folds', a panel per metric."""
    metrics = table["metric"].unique()
    figure, axes = _axes(len(metrics))
    for ax, metric in zip(axes, metrics, strict=True):
        part = table[table["metric"] == metric].set_index("way")[["hold_out", "fold_mean", "pooled"]]
        part.T.plot.bar(ax=ax, color=COLOURS[: len(part)], rot=0, legend=True)
        ax.axhline(1, color="grey", linewidth=1)
        ax.set(ylabel=f"variance of {metric} / random folds'", xlabel="estimate")
    _save(figure, output)
