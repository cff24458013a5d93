"""Ten thousand draws: memory that does not grow with them, and one table in the record."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from servers import environment, prefect_server

pytestmark = pytest.mark.soak
MOST = 1.15
SCRIPT = """
import json, resource, sys, time
from evenfold.flows import evaluate, evaluation

seconds_to_record = []
run = evaluation.run
def timed(step, *arguments, **named):
    started = time.monotonic()
    returned = run(step, *arguments, **named)
    if step is evaluation.record_evaluation:
        seconds_to_record.append(time.monotonic() - started)
    return returned
evaluation.run = timed

if __name__ == "__main__":
    data, n = sys.argv[1], int(sys.argv[2])
    spec = {"name": "rows", "columns": {"key": ["id"], "target": "y"}, "strategy": "Bootstrap",
            "params": {"n_splits": n}}
    model = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
    made = evaluate(data, spec=spec, model=model)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(dict(peak=peak, record=seconds_to_record[0], fits=made.n_fits, run=made.run_id,
                          seconds=made.seconds)))
"""


def test_ten_thousand_draws_need_the_memory_of_a_thousand(tmp_path: Path, found: Callable[..., None]) -> None:
    """The peak of the whole flow stays within 1.15 times that of 1,000 draws; every score is in one recorded table."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(1000), **{f"x{i}": draw.normal(size=1000) for i in range(5)}})
    frame.assign(y=frame["x0"] + draw.normal(size=1000)).to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "script.py").write_text(SCRIPT)
    with prefect_server(tmp_path) as api:

        def run(n: int) -> dict[str, Any]:
            env = environment(tmp_path, {"EVENFOLD_HOME": str(tmp_path / f"home-{n}"), "PREFECT_API_URL": api})
            command = [sys.executable, "script.py", "rows.parquet", str(n)]
            done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return dict(json.loads(done.stdout.strip().splitlines()[-1]))

        few, many = run(1_000), run(10_000)
    assert many["fits"] == 10_001
    assert many["peak"] <= MOST * few["peak"]
    table = next((tmp_path / "home-10000" / "mlartifacts").rglob(f"{many['run']}/artifacts/scores.parquet"))
    assert sorted(pd.read_parquet(table)["draw"]) == list(range(10_000))
    found(
        peak_mb_of_1000=round(few["peak"]), peak_mb_of_10000=round(many["peak"]),
        seconds_to_record_10000=round(many["record"], 2), seconds_of_10000=round(many["seconds"], 1),
    )  # fmt: skip
