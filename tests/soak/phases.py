"""A retraining small enough to be killed often, when its phases begin, and what its whole record is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests import verify

N_SPLITS = 5
FOREST = {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": {"n_estimators": 30, "n_jobs": 1}}
Names = Callable[[], list[str]]


def rows(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(3_000), **{f"x{i}": draw.normal(size=3_000) for i in range(4)}})
    frame.assign(y=frame["x0"] + draw.normal(size=3_000)).to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def n_fits(home: Path) -> int:
    return len(list((home / "results" / "score").glob("*")))


# When a phase has begun, by what lies in the home and by the names of the runs in MLflow's store.
PHASES: dict[str, Callable[[Path, Names], bool]] = {
    "split": lambda home, names: (home / "locks").exists(),
    "fit": lambda home, names: n_fits(home) >= 1,
    "aggregate": lambda home, names: n_fits(home) >= N_SPLITS,
    "record": lambda home, names: n_fits(home) >= N_SPLITS and any(" @ " in name for name in names()),
    "register": lambda home, names: any((home / "results" / "model").glob("*")),
}


def assert_whole(home: Path, select: Callable[[str], list[Any]], name: str) -> None:
    """Assert that each run is there once and FINISHED, one version is registered, and the manifest is what it was.

    ``select`` returns the rows of a query to MLflow's store.
    """
    runs = select(
        f"select r.name, r.status from runs r join experiments e using (experiment_id) where e.name = '{name}'"
    )
    assert {status for _, status in runs} == {"FINISHED"}, runs
    assert len(runs) == len({run for run, _ in runs}) == 3 + N_SPLITS, runs  # split, evaluation, retraining, folds
    assert select(f"select count(*) from model_versions where name = '{name}'") == [(1,)]
    assert select(f"select alias from registered_model_aliases where name = '{name}'") == [("champion",)]
    (version,) = (home / "splits" / name).iterdir()
    assert version.name == "1.0"
    assert verify(str(version)).intact
