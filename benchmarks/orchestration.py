"""What Prefect and MLflow cost around the same fits: one evaluation of flights against a plain loop."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
COLUMNS = ["--target", "arr_delay", "--group", "date", "--key", "flight_id", "--exclude", "dep_delay"]
LOOP = """
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_validate
from evenfold.splitters import BalancedGroupKFold
frame = pd.read_parquet("examples/flights.parquet").sort_values("flight_id")
features = ["month", "wday", "hour", "minute", "flight", "distance"]
metrics = ["r2", "neg_mean_absolute_error", "neg_root_mean_squared_error"]
folds = list(BalancedGroupKFold(5).split(frame, frame["arr_delay"], frame["date"]))
cross_validate(HistGradientBoostingRegressor(random_state=0), frame[features], frame["arr_delay"], cv=folds,
               scoring=metrics, return_train_score=True)
"""


def rows() -> list[dict[str, Any]]:
    """Return the ratio of wall time to the plain loop, first and second time, with Prefect and without."""
    loop = min(_seconds([sys.executable, "-c", LOOP], "unused") for _ in range(2))
    told = []
    with tempfile.TemporaryDirectory() as home:
        for engine in ("plain", "prefect"):
            for turn in ("first run", "second run"):
                command = [sys.executable, "-c", "from evenfold.flows.cli import main; main()", "evaluate"]
                taken = _seconds(
                    [*command, "examples/flights.parquet", *COLUMNS, "--engine", engine], f"{home}/{engine}"
                )
                told.append(_row(f"evaluate 20,000 flights, 5 folds, engine {engine}, {turn}", taken, loop))
    return told


def _row(work: str, ours: float, loop: float) -> dict[str, Any]:
    return {
        "work": work,
        "ours": f"{ours:.1f} s",
        "peer": f"{loop:.1f} s in a plain loop of the same fits",
        "ratio": round(ours / loop, 2),
        "target": "published",
        "met": True,
    }


def parts() -> dict[str, float]:
    """Return where the fixed seconds go: imports, the embedded server's start, a new MLflow store."""
    scripts = {
        "import scikit-learn and pandas": "import pandas, sklearn.ensemble",
        "import prefect": "import prefect",
        "import mlflow": "import mlflow",
        "first Prefect flow (import, server start, one empty flow)": "from prefect import flow\nflow(lambda: None)()",
    }
    with tempfile.TemporaryDirectory() as home:
        return {name: _seconds([sys.executable, "-c", script], home) for name, script in scripts.items()}


def _seconds(command: list[str], home: str) -> float:
    environment = {
        **os.environ,
        "EVENFOLD_HOME": home,
        "PREFECT_HOME": f"{home}/prefect",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
        "DO_NOT_TRACK": "true",
    }
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


def notes() -> str:
    """Return what dominates, in a sentence with figures of this run."""
    spent = parts()
    told = "; ".join(f"{name} {seconds:.1f} s" for name, seconds in spent.items())
    return f"What dominates is fixed and paid once a process, whatever the data: {told}."


if __name__ == "__main__":
    for row in rows():
        print(row)
    print(notes())
