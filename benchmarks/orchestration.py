"""What Prefect and MLflow cost around the same fits: one evaluation of flights against a plain loop."""

from __future__ import annotations

import json
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

# What a person waits at most who asks for the same again: without Prefect, with its embedded server, with one kept.
AGAIN_SECONDS = {"plain": 4.0, "prefect": 14.0, "kept": 5.0}
# Fits of 100 ms each, on both sides in threads, as many at once: what differs is what stands around them. The flow runs
# as evenfold's own do, on the server that they start, with its settings: Prefect's own would be a second one beside it.
SHORT = """
import json, sys, time
import numpy as np, pandas as pd
from joblib import Parallel, delayed
from sklearn.model_selection import KFold
from sklearn.ensemble import RandomForestRegressor
from evenfold.estimates import ModelSpec, Problem, fit_and_score
from evenfold.flows import split
from evenfold.flows.evaluation import fit_splits
from evenfold.flows.flow import _quiet, _served
from evenfold.tasks import Home
from evenfold.tasks.runtime.limits import limited
from evenfold.tasks.runtime.limits import task_runner
from evenfold.tasks.runtime.home import Settings
from prefect import flow
folds, trees = int(sys.argv[1]), int(sys.argv[2])
draw = np.random.default_rng(0)
frame = pd.DataFrame({"id": range(5_000), **{f"x{i}": draw.normal(size=5_000) for i in range(4)}})
frame["y"] = frame["x0"] + draw.normal(size=5_000)
pairs = list(KFold(folds).split(frame))

def model(seed):  # another seed is other fits: nothing of an earlier turn is found
    params = {"n_estimators": trees, "max_samples": 0.1, "n_jobs": 1, "random_state": seed}
    made = {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": params, "metrics": ["r2"]}
    return ModelSpec.of(made | {"importance": "none"})  # it is more work, which the other side does not do

def made(name, k, rows):
    spec = {"name": name, "strategy": "KFold", "columns": {"key": "id", "target": "y"}, "params": {"n_splits": k}}
    return split(rows, spec=spec).split

@flow
def fits(ref, seed):
    return fit_splits(ref, model(seed))

def bare(problem, i):
    with limited(problem.X.size):
        return fit_and_score(problem, *pairs[i], seed=0, name=f"fold {i}", repeat=0, fold=i)

def seconds(work):
    started = time.perf_counter()
    outcome = work()
    return time.perf_counter() - started, outcome

fits = fits.with_options(task_runner=task_runner())
warm, ref = made("warm", 2, frame.iloc[:100]), made("short", folds, frame)
pool = Parallel(Settings.here().workers, prefer="threads")
turns = []
with _quiet(), _served(Home.here()):
    fits(warm, 0)
    for seed in range(3):
        problem = Problem.of(frame, model(seed), "y", ["id", "y"])
        joblib, scores = seconds(lambda: pool(delayed(bare)(problem, i) for i in range(folds)))
        ours, fitted = seconds(lambda: fits(ref, seed))
        assert (len(fitted.states), "cached" in fitted.states, fitted.errors) == (folds, False, []), fitted
        fit_ms = 1000 * float(np.median([score.seconds_fit + score.seconds_score for score, _ in scores]))
        turns.append({"ours": ours, "joblib": joblib, "fit_ms": fit_ms})
print(json.dumps({name: float(np.median([turn[name] for turn in turns])) for name in turns[0]}))
"""


def rows() -> list[dict[str, Any]]:
    """Return the ratios of wall time to the plain loop, with Prefect and without, and of short fits to joblib."""
    return [*_flights(), short_fits()]


def short_fits(folds: int = 50, trees: int = 38) -> dict[str, Any]:
    """Return the ratio of many short fits as tasks, results kept, to joblib on the same fits, in a warm process.

    Medians of three turns. The split and the record in MLflow are not part of it: joblib has neither.
    """
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-c", SHORT, str(folds), str(trees)]
        told = json.loads(_run(command, home).stdout.splitlines()[-1])
    ratio = round(told["ours"] / told["joblib"], 2)
    return {
        "work": f"fit {folds} short folds as tasks ({told['fit_ms']:.0f} ms each), first run",
        "ours": f"{told['ours']:.2f} s",
        "peer": f"{told['joblib']:.2f} s with joblib",
        "ratio": ratio,
        "target": 1.1,
        "met": ratio <= 1.1,
    }


def _flights() -> list[dict[str, Any]]:
    loop = min(_seconds([sys.executable, "-c", LOOP], "unused") for _ in range(2))
    told = []
    with tempfile.TemporaryDirectory() as home:
        for engine in ("plain", "prefect"):
            for turn in ("first run", "second run"):
                command = [sys.executable, "-c", "from evenfold.flows.cli import main; main()", "evaluate"]
                taken = _seconds(
                    [*command, "examples/flights.parquet", *COLUMNS, "--engine", engine], f"{home}/{engine}"
                )
                work = f"evaluate 20,000 flights, 5 folds, engine {engine}, {turn}"
                told.append(_row(work, taken, loop, AGAIN_SECONDS[engine] if turn == "second run" else None))
        told += _kept(f"{home}/kept", loop)
    return told


def _kept(home: str, loop: float) -> list[dict[str, Any]]:
    """Return what evaluations take with a server that ``evenfold up`` keeps; the second of the same thing in 5 s."""
    command = [sys.executable, "-c", "from evenfold.flows.cli import main; main()"]
    evaluate = [*command, "evaluate", "examples/flights.parquet", *COLUMNS]
    _run([*command, "up"], home)
    try:
        first, second = _seconds(evaluate, home), _seconds(evaluate, home)
    finally:
        _run([*command, "up", "--stop"], home)
    work = "evaluate 20,000 flights, 5 folds, a server kept by evenfold up"
    return [_row(f"{work}, first run", first, loop), _row(f"{work}, second run", second, loop, AGAIN_SECONDS["kept"])]


def _row(work: str, ours: float, loop: float, most: float | None = None) -> dict[str, Any]:
    return {
        "work": work,
        "ours": f"{ours:.1f} s",
        "peer": f"{loop:.1f} s in a plain loop of the same fits",
        "ratio": round(ours / loop, 2),
        "target": f"<= {most:g} s" if most else "published",
        "met": not most or ours <= most,
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
    started = time.perf_counter()
    _run(command, home)
    return time.perf_counter() - started


def _run(command: list[str], home: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "EVENFOLD_HOME": home,
        "PREFECT_HOME": f"{home}/prefect",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
        "DO_NOT_TRACK": "true",
    }
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)


def notes() -> str:
    """Return what dominates, in a sentence with figures of this run."""
    spent = parts()
    told = "; ".join(f"{name} {seconds:.1f} s" for name, seconds in spent.items())
    return f"What dominates is fixed and paid once a process, whatever the data: {told}."


if __name__ == "__main__":
    for row in rows():
        print(row)
    print(notes())
