"""A recorded evaluation, its audit aside, beside the loop that computes its scores, in one run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate

from .draws_and_sorts import cpu, row

METRICS = ["roc_auc", "accuracy", "balanced_accuracy"]
RUNS, MOST_RATIO, MOST_SECONDS = 7, 8.0, 4.0


def rows() -> list[dict[str, Any]]:
    """Return the CPU seconds of both, of a table of 500 rows and of one of 100,000, medians of seven."""
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"EVENFOLD_HOME": home, "OMP_NUM_THREADS": "1"}
        loop, tested, ours = _seconds(500, 8)
        large = _seconds(100_000, 20)
    work = "an evaluation of 500 rows x 8, split and recorded, its audit aside"
    same, alone = (
        f"cross_validate, its three metrics of tested {rows}" for rows in ("and training rows", "rows alone")
    )
    found = [
        row(
            work, f"{ours:.3f} s", f"{peer:.3f} s ({how})", ours / peer, f"<= {MOST_RATIO:g}", ours <= MOST_RATIO * peer
        )
        for peer, how in ((loop, same), (tested, alone))
    ]
    work, (peer, _, ours) = work.replace("500 rows x 8", "100,000 rows x 20"), large
    target = f"<= {MOST_SECONDS:g} s"
    return [*found, row(work, f"{ours:.2f} s", f"{peer:.2f} s ({same})", ours / peer, target, ours <= MOST_SECONDS)]


def _seconds(n: int, columns: int) -> list[float]:
    """Return what loops take, with and without scores of training rows, and the evaluation of a table, audit aside."""
    from evenfold.flows import evaluate
    from evenfold.manifests import audit, decide

    taken: list[list[float]] = []
    for run in range(RUNS):
        random = np.random.default_rng(run)
        frame = pd.DataFrame(random.normal(size=(n, columns))).add_prefix("x")
        target = (frame["x0"] + random.normal(size=n) > 0).astype(int)
        table, how = frame.assign(y=target, id=np.arange(n)), {"key": "id", "target": "y"}
        # What an audit learns of the same rows is then known to the process; what it costs without is taken off.
        manifest = decide(table, **how)
        audit(manifest, table)
        aside = cpu(lambda manifest=manifest, table=table: audit(manifest, table), times=1)
        loops: list[Callable[[], Any]] = [
            lambda train=train, X=frame, y=target: cross_validate(
                LogisticRegression(), X, y, cv=StratifiedKFold(5), scoring=METRICS, return_train_score=train
            )
            for train in (True, False)
        ]
        name = f"small-{n}-{run}"
        works = [*loops, lambda table=table, how=how, name=name: evaluate(
            table, **how, name=name, model=LogisticRegression(), engine="plain",
        )]  # fmt: skip
        *of_loops, ours = [cpu(work, times=1) for work in works]
        taken.append([*of_loops, ours - aside])
    return [median(each) for each in zip(*taken[1:], strict=True)]  # the first one imports what it needs


def notes() -> str:
    """Return what the figures are of."""
    return (
        "CPU seconds of one process. What is more than the loop is the split, baselines, intervals, importance, two "
        "pages and seven runs in MLflow, each of which takes three calls of its client."
    )
