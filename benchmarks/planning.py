"""What ``evenfold plan`` foretells beside what the fits then take, in one run, and what asking for it takes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

ROOT = Path(__file__).parent.parent
COLUMNS = {"target": "arr_delay", "group": "date", "key": "flight_id"}
FEATURES = ["month", "wday", "hour", "minute", "flight", "distance"]
MODELS: dict[str, dict[str, Any]] = {
    # Where it stops early, the data decide how long it takes, and no plan foretells it.
    "sklearn.ensemble:HistGradientBoostingRegressor": {"early_stopping": False, "max_iter": 200},
    "sklearn.ensemble:RandomForestRegressor": {"n_estimators": 20, "n_jobs": 1, "max_samples": 0.3},
    "lightgbm:LGBMRegressor": {"n_estimators": 300, "n_jobs": 1, "verbosity": -1},
    "sklearn.neighbors:KNeighborsRegressor": {"n_neighbors": 200, "n_jobs": 1},  # which takes its time to predict
}
MOST_OFF, MOST_SECONDS = 0.25, 2.0
# The median of so many runs is what was taken: one alone takes up to 1.3 times as long twice where others compute too.
# Fits below some .1 s, such as Ridge's 12 ms here, vary by that much in one run and are not judged.
RUNS = 3


def rows() -> list[dict[str, Any]]:
    """Return the fits of each model after three changes, foretold and taken, and the seconds of the command."""
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"EVENFOLD_HOME": home, "EVENFOLD_WORKERS": "1"}
        found = [row for estimator, params in MODELS.items() for row in _foretold(estimator, params)]
        return [*found, _asked()]


def _foretold(estimator: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    from evenfold.flows import evaluate, plan

    flights = pd.read_parquet(ROOT / "examples" / "flights.parquet")
    most = flights.iloc[: int(0.8 * len(flights))]
    model = {"estimator": estimator, "params": params, "features": FEATURES, "importance": "none"}
    request = {**COLUMNS, "model": model, "name": estimator.rpartition(":")[2], "seed": 1}
    evaluate(most, **request, engine="plain")
    changes: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
        "a feature changed in 12 rows": (most.assign(hour=most["hour"].where(most.index > 11, 0)), {}),
        "a quarter more rows": (flights, {}),
        "8 folds in place of 5": (most, {"n_splits": 8}),
    }
    found = []
    for what, (frame, fields) in changes.items():
        fits = next(step for step in plan(frame, **(request | fields)).steps if step.name == "fits")
        runs = [evaluate(frame, **(request | fields), engine="plain", refresh=bool(i)) for i in range(RUNS)]
        assert {fits.n_cached, *(made.n_cached for made in runs)} == {0}
        taken = median(sum(score.seconds_fit + score.seconds_score for score in made.scores) for made in runs)
        ratio = (fits.seconds or 0.0) / taken
        found.append(
            {
                "work": f"seconds foretold of {request['name']}, {what}",
                "ours": f"{fits.seconds:.3g} s",
                "peer": f"{taken:.3g} s taken",
                "ratio": round(ratio, 2),
                "target": f"within {MOST_OFF:.0%}",
                "met": abs(ratio - 1) <= MOST_OFF,
            }
        )
    return found


def _asked() -> dict[str, Any]:
    """Return what the command takes where nothing has to be split."""
    command = [sys.executable, "-c", "from evenfold.flows.cli import main; main()"]
    what = ["examples/flights.parquet", *(word for name, column in COLUMNS.items() for word in (f"--{name}", column))]
    subprocess.run([*command, "evaluate", *what, "--engine", "plain"], cwd=ROOT, check=True, capture_output=True)
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([*command, "plan", *what], cwd=ROOT, check=True, capture_output=True)
        taken.append(time.perf_counter() - started)
    return {
        "work": "evenfold plan of 20,000 flights that were evaluated, the command",
        "ours": f"{min(taken):.1f} s",
        "peer": "-",
        "ratio": "-",
        "target": f"<= {MOST_SECONDS:g} s",
        "met": min(taken) <= MOST_SECONDS,
    }


if __name__ == "__main__":
    for row in rows():
        print(row)
