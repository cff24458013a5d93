"""Studies on the command line: the problem from flags, the table on the terminal, the picture in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from evenfold.estimates import ModelSpec, Problem, fold_count_study
from evenfold.manifests import Columns, read_table, require_columns, write_whole
from evenfold.reports import Picture, study_svg
from evenfold.splitters import SplitError
from evenfold.tasks.runtime.progress import Say
from rich.table import Table

from .show import consoles


def problem_of(data: str, columns: dict[str, Any], model: ModelSpec) -> Problem:
    """Return the problem of predicting the target column of a file."""
    named = Columns.model_validate({name: value for name, value in columns.items() if value})
    if named.target is None:
        raise SplitError("no target column is named, and a model has to predict one; pass --target.")
    table = read_table(data)
    require_columns(named.roles(), table.column_names)
    frame = table.replace_schema_metadata(None).to_pandas()
    return Problem.of(frame, model, named.target, named.roles(), groups=next(iter(named.grouped), None))


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


def keep_in_record(
    data: str, what: str, problem: Problem, about: dict[str, str], page: str, table: pd.DataFrame
) -> None:
    """Record a study in MLflow with its page and table, in the experiment that is called as the data's file."""
    from evenfold.tasks import Home, prepare_environment

    prepare_environment(Home.here())
    from evenfold.tasks.record.studies import record_study
    from evenfold.tasks.splits import name_of
    from evenfold.tasks.work import study_key

    name = f"{str(problem.model.estimator).rpartition(':')[2]} @ {Path(data).stem}: {what}"
    record_study(name_of(data), name, about | {"problem": study_key(problem)}, page, table)


def write_study(page: Callable[..., str], pictures: dict[str, Picture], output: Path) -> None:
    """Write what a study found: a page (``.html``), or its pictures alone (``.svg``)."""
    if output.suffix not in (".html", ".svg"):
        raise SplitError(f"the picture cannot be written to {output}; pass -o NAME.html for a page, or NAME.svg.")
    write_whole(output, page() if output.suffix == ".html" else study_svg(pictures))
