"""Studies on the command line: the problem from flags, the table on the terminal, the picture in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from evenfold.estimates import Problem
from evenfold.flows.requests import recipe_of
from evenfold.manifests import Columns, read_table, require_columns, write_whole
from evenfold.manifests.tables.read import require_place
from evenfold.reports import study_page, study_pictures
from evenfold.reports.charts import stacked
from evenfold.splitters import SplitError

from .show import consoles, progress, show_page


def problem_of(data: str, output: Path, model: Any = None, model_params: Any = None, **fields: Any) -> Problem:
    """Return the problem of predicting the target column of a file; ``fields``: of its columns, and of the recipe.

    Raises SplitError, before any fit, for an ``output`` that is neither a page nor a picture, or whose folder is none.
    """
    roles = {role: fields.pop(role, None) for role in ("target", "group", "key")}
    recipe = recipe_of(model, params=model_params, **fields)
    if output.suffix not in (".html", ".svg"):
        raise SplitError(f"the picture cannot be written to {output}; pass -o NAME.html for a page, or NAME.svg.")
    require_place(output)
    columns = Columns.model_validate({name: value for name, value in roles.items() if value})
    if columns.target is None:
        raise SplitError("no target column is named, and a model predicts one; pass --target.")
    table = read_table(data)
    require_columns(columns.roles(), table.column_names)
    frame = table.replace_schema_metadata(None).to_pandas()
    return Problem.of(frame, recipe, columns.target, columns.roles(), groups=next(iter(columns.grouped), None))


def counts_of(text: str) -> list[int]:
    """Return the numbers of folds in ``5..100`` (eight, evenly apart), ``5:100:5`` (every fifth) or ``5,10,20``.

    Raises SplitError for what is written otherwise, and where it names none or fewer than 2 folds.
    """
    write = "write 5..100, 5:100:5 (every fifth), or 5,10,20."
    try:
        if ":" in text:
            low, high, step = (int(part) for part in text.split(":"))
            counts = list(range(low, high + 1, step))
        elif ".." in text:
            low, high = (int(part) for part in text.split(".."))
            counts = sorted({low + (high - low) * step // 7 for step in range(8)})
        else:
            counts = [int(part) for part in text.split(",")]
    except ValueError:
        raise SplitError(f"--k {text!r}; {write}") from None
    if not counts:
        raise SplitError(f"--k {text!r} names no number of folds; {write}")
    if min(counts) < 2:
        raise SplitError(f"--k {text!r} names {min(counts)}, and there are 2 folds at least; {write}")
    return counts


def tell_study(
    data: str, what: str, problem: Problem, study: Callable[..., pd.DataFrame], about: dict[str, Any], output: Path,
    as_json: bool,
) -> pd.DataFrame:  # fmt: skip
    """Run a study by its parameters, ``about``, and return its table, written, recorded in MLflow and printed."""
    from evenfold.manifests import name_of
    from evenfold.tasks.record.studies import record_study, study_key
    from evenfold.tasks.runtime.limits import limited
    from evenfold.tasks.runtime.progress import say

    out, err = consoles()
    with limited(problem.X.size), progress(err):
        table = study(problem.model, problem, **about, say=partial(say, "fitting models"))
    page, pictures = study_page(problem, table), study_pictures(table)
    write_whole(output, page.html() if output.suffix == ".html" else stacked(pictures))
    name = f"{problem.model.title} @ {Path(data).stem}: {what}"
    params = {"data": Path(data).name, "problem": study_key(problem)}
    params |= {key: str(value) for key, value in about.items() if value is not None}
    record_study(name_of(data), name, params, page, table)  # in the experiment that is called as the data's file
    if as_json:
        rows = json.loads(table.to_json(orient="records"))
        out.print_json(data={"rows": rows, "sentences": [each.title for each in pictures], "picture": str(output)})
    else:
        show_page(out, page, "ratios", "fold-count")
        out.say(f"  page {output}")
    return table
