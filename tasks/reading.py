"""What was recorded, read back from MLflow."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from evenfold.splitters import SplitError

from ._home import Home
from .record import Tracker


@dataclass(frozen=True)
class Recorded:
    """An evaluation as it was recorded: what names its split, its model, its metrics and every prediction."""

    run_id: str
    name: str
    tags: dict[str, str]
    params: dict[str, str]
    predictions: pd.DataFrame

    @property
    def key(self) -> list[str]:
        """The columns that name a row: those before the row's number, or that number where there is no key."""
        names = list(self.predictions.columns)
        return names[: names.index("row")] or ["row"]


def read_evaluation(run_id: str, home: str) -> Recorded:
    """Return a recorded evaluation; raises SplitError where there is no such run or it kept no predictions."""
    tracker = Tracker(Home(Path(home)), "unused")
    try:
        run = tracker.client.get_run(run_id)
    except Exception as error:  # MLflow has a kind of error of its own per store
        raise SplitError(f"there is no run {run_id!r} in {tracker.home.tracking_uri} ({error}).") from None
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = tracker.client.download_artifacts(run_id, "predictions.parquet", folder)
        except Exception:
            raise SplitError(
                f"run {run_id} ({run.info.run_name}) kept no predictions.parquet; compare evaluations of folds."
            ) from None
        return Recorded(run_id, str(run.info.run_name), run.data.tags, run.data.params, pd.read_parquet(path))


def metrics_of(recorded: Recorded) -> list[str]:
    """Return the metrics that an evaluation was scored by."""
    import ast

    told: Any = ast.literal_eval(recorded.params.get("model.metrics", "[]"))
    return [str(metric) for metric in told]
