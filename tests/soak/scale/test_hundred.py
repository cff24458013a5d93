"""What the hundredth evaluation in one home costs, against the first ones: seconds, files, and the store's size."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evenfold.tasks import Home

from evenfold import flows

pytestmark = pytest.mark.soak
RUNS = int(os.environ.get("EVENFOLD_SOAK_RUNS", "100"))


def test_the_hundredth_run_costs_what_the_second_did(home: Home, tmp_path: Path, found: Callable[..., None]) -> None:
    """Each run is another model, with its fits, its record and its page; at most 1.2 times the processor's seconds."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(1_000), **{f"x{i}": draw.normal(size=1_000) for i in range(4)}})
    table = tmp_path / "rows.parquet"
    frame.assign(y=frame["x0"] + draw.normal(size=1_000)).to_parquet(table)
    spec = {"name": "rows", "columns": {"key": ["id"], "target": "y"}, "strategy": "KFold"}
    cpu, files, stored = [], [], []
    for run in range(RUNS):
        begun = time.process_time()
        model = {"estimator": "sklearn.linear_model:Ridge", "params": {"alpha": 0.1 * (run + 1)}, "metrics": ["r2"]}
        made = flows.evaluate(str(table), spec=spec, model=model, engine="plain")
        cpu.append(time.process_time() - begun)
        assert made.estimates
        files.append(sum(1 for path in home.path.rglob("*") if path.is_file()))
        stored.append((home.path / "mlflow.db").stat().st_size)
    first, last = statistics.median(cpu[1:6]), statistics.median(cpu[-5:])
    after = RUNS - 2
    found(
        runs=RUNS, cpu_seconds_of_the_second=round(first, 2), cpu_seconds_of_the_last=round(last, 2),
        ratio=round(last / first, 2), files_a_run=round((files[-1] - files[1]) / after, 1),
        database_kilobytes_a_run=round((stored[-1] - stored[1]) / after / 1_000, 1),
    )  # fmt: skip
    assert last <= 1.2 * first
