"""Studies on the command line: the problem from flags, the table on the terminal, the picture in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pandas as pd
from evenfold.estimates import Problem, metric_of
from evenfold.flows.requests import recipe_of
from evenfold.manifests import Columns, read_table, require_columns, write_whole
from evenfold.manifests.tables.read import require_place
from evenfold.reports import Picture, study_svg
from evenfold.reports.evaluations.words import written
from evenfold.splitters import SplitError
from evenfold.tasks.requests import StudyFields
from evenfold.tasks.runtime.home import prepared_home
from evenfold.tasks.runtime.limits import limited
from evenfold.tasks.runtime.progress import say
from evenfold.tasks.splits import name_of
from evenfold.tasks.studies import study_key

from .busy import answer
from .console import Words, consoles, lined_up
from .show import progress


def problem_of(data: str, **fields: Unpack[StudyFields]) -> Problem:
    """Return the problem of predicting the target column of a file by the model of a request."""
    recipe = {name: fields.get(name) for name in ("metrics", "features", "exclude")}
    model, columns = recipe_of(fields.get("model"), **recipe), {"target", "group", "key"}
    named = Columns.model_validate({name: value for name, value in fields.items() if value and name in columns})
    if named.target is None:
        raise SplitError("no target column is named, and a model predicts one; pass --target.")
    table = read_table(data)
    require_columns(named.roles(), table.column_names)
    frame = table.replace_schema_metadata(None).to_pandas()
    return Problem.of(frame, model, named.target, named.roles(), groups=next(iter(named.grouped), None))


def studied(study: Callable[..., pd.DataFrame], problem: Problem) -> pd.DataFrame:
    """Return what a study of a problem found, told while it fits."""
    with limited(problem.X.size), progress(consoles()[1]):
        return study(say=partial(say, "fitting models"))


def counts_of(given: str) -> list[int]:
    """Return the numbers of folds in ``5..100`` (eight, evenly apart), ``5:100:5`` (every fifth) or ``5,10,20``.

    Raises SplitError for what is written otherwise, and where it names none or fewer than 2 folds.
    """
    write = "write 5..100, 5:100:5 (every fifth), or 5,10,20."
    try:
        counts = _numbers(given)
    except ValueError:
        raise SplitError(f"--k {given!r}; {write}") from None
    if not counts:
        raise SplitError(f"--k {given!r} names no number of folds; {write}")
    if min(counts) < 2:
        raise SplitError(f"--k {given!r} names {min(counts)}, and there are 2 folds at least; {write}")
    return counts


def _numbers(given: str) -> list[int]:
    if ":" in given:
        low, high, step = (int(part) for part in given.split(":"))
        return list(range(low, high + 1, step))
    if ".." not in given:
        return [int(part) for part in given.split(",")]
    low, high = (int(part) for part in given.split(".."))
    return sorted({low + (high - low) * step // 7 for step in range(8)})


def check_output(output: Path) -> None:
    """Raise SplitError for a file that is neither a page nor a picture, or whose folder is none: before any fit."""
    if output.suffix not in (".html", ".svg"):
        raise SplitError(f"the picture cannot be written to {output}; pass -o NAME.html for a page, or NAME.svg.")
    require_place(output)


def tell_study(
    data: str, what: str, problem: Problem, about: dict[str, str], table: pd.DataFrame, page: Callable[..., str],
    pictures: dict[str, Picture], output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Write a study's page or pictures, record it in MLflow, and print what it found."""
    html = page()
    write_whole(output, html if output.suffix == ".html" else study_svg(pictures))
    title = f"{problem.model.title} @ {Path(data).stem}: {what}"
    prepared_home()
    from evenfold.tasks.record.studies import record_study

    record_study(name_of(data), title, {"data": Path(data).name, **about, "problem": study_key(problem)}, html, table)
    _show(table, [picture.title for picture in pictures.values()], output, as_json)


def _show(table: pd.DataFrame, sentences: list[str], picture: Path, as_json: bool) -> None:
    """Print what a study says, a sentence a metric, then its figures as people read them, and where its page lies."""
    rows = json.loads(table.to_json(orient="records"))

    def show(out: Words, _: object) -> None:
        for sentence in sentences:
            out.say(f"  {sentence}.", hang=2)
        out.print()
        scores = {"mean", "pooled"} if "mean" in table else set()  # else they are ratios of variances
        cells = [
            [_cell(str(name), value, row["metric"], name in scores) for name, value in row.items()]
            for row in table.to_dict("records")
        ]
        head = [str(name).replace("_", " ") for name in table.columns]
        out.print("\n".join(lined_up([head, *cells])), soft_wrap=True)
        out.say(f"  page {picture}")

    answer({"rows": rows, "sentences": sentences, "picture": str(picture)}, as_json, show)


def _cell(name: str, value: Any, metric: str, is_score: bool) -> str:
    """Return a figure of a study: scores as people read them, ratios and spreads as they are."""
    if name == "metric":
        return metric_of(metric).title
    if not isinstance(value, float):
        return str(value)
    return written(metric_of(metric).shown(value) if is_score else value)
