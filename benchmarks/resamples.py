"""10,000 bootstrap resamples of a logistic model on 1,000 rows, against the bare fits and scores in a loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

N_DRAWS, N_ROWS = 10_000, 1_000
METRICS = ("neg_log_loss", "roc_auc", "accuracy")
SCRIPT = """
import json, resource, sys, time
import numpy as np, pandas as pd
from evenfold.estimates import ModelSpec, Problem, score_draws
from evenfold.splitters import Bootstrap
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
side, n_draws, n_rows, metrics = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
X, y = make_classification(n_rows, 20, n_informative=5, random_state=0)
peaks = []
def draws():
    for i, pair in enumerate(Bootstrap(n_draws, random_state=0).split(X)):
        if i in (n_draws // 10, n_draws - 1):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        yield i, pair
started = time.perf_counter()
if side == "bare":
    scorers = [get_scorer(metric) for metric in metrics]
    scores = []
    for i, (train, test) in draws():
        model = LogisticRegression(random_state=0).fit(X[train], y[train])
        scores.append([scorer(model, X[test], y[test]) for scorer in scorers])
    means = np.mean(scores, axis=0)
else:
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(20)]).assign(y=y)
    model = ModelSpec(estimator="sklearn.linear_model:LogisticRegression", metrics=metrics)
    problem = Problem.of(table, model, "y")
    means = score_draws(problem, draws(), seed=0).table[metrics].mean().to_numpy()
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "grown": peaks[1] - peaks[0], "means": means.tolist()}))
"""


def rows() -> list[dict[str, Any]]:
    """Return time and memory, with three metrics and with one; the scores of both sides must be equal."""
    return [row for metrics in (METRICS, METRICS[:1]) for row in _compared(metrics)]


def _compared(metrics: tuple[str, ...]) -> list[dict[str, Any]]:
    bare, ours = _run("bare", metrics), _run("ours", metrics)
    if max(abs(a - b) for a, b in zip(bare["means"], ours["means"], strict=True)) > 1e-12:
        raise AssertionError(f"the scores differ: {bare['means']} and {ours['means']}")
    work = f"{N_DRAWS:,} resamples of {N_ROWS:,} rows, logistic, {len(metrics)} metric{'s' * (len(metrics) > 1)}"
    ratio = ours["seconds"] / bare["seconds"]
    return [
        {
            "work": f"{work}: fits, scores and sums per row",
            "ours": f"{ours['seconds']:.1f} s",
            "peer": f"{bare['seconds']:.1f} s in a bare loop",
            "ratio": round(ratio, 2),
            "target": "<= 1.15",
            "met": ratio <= 1.15,
        },
        {
            "work": f"{work}: memory that the last 90 % of the resamples add",
            "ours": f"{ours['grown']:.1f} MB",
            "peer": f"{bare['grown']:.1f} MB",
            "ratio": "-",
            "target": "<= 20 MB",
            "met": ours["grown"] <= 20,
        },
    ]


def _run(side: str, metrics: tuple[str, ...]) -> dict[str, Any]:
    command = [sys.executable, "-c", SCRIPT, side, str(N_DRAWS), str(N_ROWS), ",".join(metrics)]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # threads that wait would be measured
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=alone)
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def notes() -> str:
    """Return what both sides do."""
    return "Both sides fit the same models on the same resamples and their mean scores agree to 1e-12."


if __name__ == "__main__":
    for row in rows():
        print(row)
