"""Workers of a pool or a cluster read shared results too: a forged one runs nothing there either."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from servers import ROOT, environment
from test_resume import CLI

sys.path.insert(0, str(ROOT / "tests" / "security"))
from test_forged_results import forgeries

pytestmark = pytest.mark.soak
FORGERIES = ("a function for a kind", "a record of Prefect's", "a class inside", "cut short", "very deep")


@pytest.mark.parametrize("runner", ["processes", "dask"])
def test_a_forged_result_runs_nothing_in_a_worker(runner: str, tmp_path: Path, found: Callable[..., None]) -> None:
    """Each fold's kept result is replaced by a forgery; the workers drop them, fit again, and no mark is made."""
    if runner == "dask" and importlib.util.find_spec("prefect_dask") is None:
        pytest.skip("Dask is not installed; make soak installs it")
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(200), "x": draw.normal(size=200), "y": draw.normal(size=200)})
    frame.to_parquet(tmp_path / "rows.parquet")
    home, mark = tmp_path / "home", tmp_path / "mark"
    env = environment(tmp_path, {"EVENFOLD_HOME": str(home), "EVENFOLD_WORKERS": "2", "EVENFOLD_RUNNER": runner})
    del env["PREFECT_HOME"]
    asked = ["--target", "y", "--key", "id", "--name", "rows", "--strategy", "KFold", "-k", "5", "--json"]
    command = [*CLI, "evaluate", str(tmp_path / "rows.parquet"), *asked, "--model", "sklearn.linear_model:Ridge"]

    def evaluated(*more: str) -> Any:
        done = subprocess.run([*command, *more], env=env, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = evaluated("--engine", "plain")
    kept = sorted(path for path in (home / "results" / "score").glob("*") if path.is_file())
    assert len(kept) == 5
    for path, name in zip(kept, FORGERIES, strict=True):
        path.write_bytes(forgeries(mark)[name].replace(b"score/forged", f"score/{path.name}".encode()))
    again = evaluated()
    assert not mark.exists()
    assert again["n_cached"] == 0
    assert [each["test"] for each in again["scores"]] == [each["test"] for each in first["scores"]]
    found(forged=len(kept))
