"""What the stored champion scores on rows that it cannot have seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from evenfold.estimates import ModelSpec
from evenfold.estimates.metrics.metrics import score
from evenfold.estimates.models.responses import Responses
from numpy.typing import NDArray

from ._home import Home
from .work import Work, training_rows, work_of

FEWEST_ROWS = 2


def score_stored(
    data: str, split: dict[str, Any], champion: dict[str, Any], name: str, metric: str, home: str
) -> dict[str, Any]:
    """Return the stored champion's score on the generations newer than its training manifest, or why there is none.

    It has seen every other row, so only these say anything about it. The locked part stays closed.
    """
    trained_on = str(champion["tags"].get("evenfold.spec", "unknown"))
    line, _, generation = trained_on.rpartition(".")
    if line != f"{split['name']}@{split['version'].partition('.')[0]}":
        return {"why": f"it was trained on another split ({trained_on})"}
    from .record import Tracker

    try:
        work = work_of(data, split, ModelSpec.of(champion["model"]))
        rows = _newer_rows(work, int(generation))
        if rows.size < FEWEST_ROWS:
            return {"why": f"{rows.size} rows are newer than its training rows"}
        model = Tracker(Home(Path(home)), split["name"]).load_model(f"models:/{name}/{champion['version']}")
        answers = Responses(model, work.problem.X.iloc[rows])
        weights = None if work.problem.weights is None else work.problem.weights[rows]
        return {"score": score(metric, answers, work.problem.y[rows], weights), "rows": int(rows.size)}
    except Exception as error:  # whatever keeps a stored model from loading or scoring is told, and decides nothing
        return {"why": f"it no longer loads or scores ({type(error).__name__}: {str(error).splitlines()[0][:300]})"}


def _newer_rows(work: Work, generation: int) -> NDArray[np.int64]:
    born = work.manifest.born
    rows = training_rows(work)
    return rows[:0] if born is None else work.place[rows[born[rows] > generation]]
