"""The fold-count study of a problem, which an evaluation of the same problem shows."""

from __future__ import annotations

import json

import pandas as pd
from evenfold.estimates import Problem
from evenfold.manifests import digest_json, write_whole
from evenfold.tasks.runtime.home import Home


def keep_study(home: Home, problem: Problem, table: pd.DataFrame) -> None:
    """Keep the table of a fold-count study below the home, in place of an earlier one of the same problem."""
    path = home.studies / f"{study_key(problem)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, table.to_json(orient="records"))


def kept_study(home: Home, problem: Problem) -> pd.DataFrame | None:
    """Return the study of the same rows, features and model, whatever their order; None where there is none."""
    path = home.studies / f"{study_key(problem)}.json"
    if not path.exists():
        return None
    return pd.DataFrame(json.loads(path.read_text(encoding="utf-8")))


def study_key(problem: Problem) -> str:
    """Return what names a problem: its model but for the metrics, and its rows in any order. O(rows x columns).

    Of rows it reads the features, the target and the weights. Groups count by the rows that they hold,
    whatever they are called.
    """
    weights = {} if problem.weights is None else {"weight": problem.weights}
    beside = pd.DataFrame({"target": problem.y, **weights})
    # Names are not hashed, the order of the columns is: a feature may be called as one of these is here.
    table = pd.concat([problem.X.reset_index(drop=True), beside], axis=1)
    rows = pd.util.hash_pandas_object(table, index=False).to_numpy()
    if problem.groups is not None:
        held = pd.Series(rows).groupby(problem.groups).transform("sum")
        rows = pd.util.hash_pandas_object(pd.DataFrame({"row": rows, "held": held}), index=False).to_numpy()
    model = problem.model.canonical() | ({"code": problem.model.code} if problem.model.code else {})
    del model["metrics"]
    # A sum does not depend on the order of rows: a study reads the file's, an evaluation the key's.
    content = [str(rows.sum()), len(rows)]
    columns = [*problem.features, problem.target]
    return digest_json({"model": model, "columns": columns, "content": content, "groups": problem.groups is not None})
