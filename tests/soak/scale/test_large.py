"""What size and time cost: a hundred million keys, a hundred runs, ten thousand draws, simulated years."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.tasks import Home
from servers import environment, prefect_server
from year import FAULTS, flights, live_through

from evenfold import flows

pytestmark = pytest.mark.soak

SCRIPT = """
import json, resource, sys, time
import numpy as np, pyarrow as pa, pyarrow.compute as pc
from evenfold.manifests import decide, write_manifest
n, kind, root = int(sys.argv[1]), sys.argv[2], sys.argv[3]
keys = pa.array(np.arange(n))
if kind == "text":  # a chunk at a time, so that making them is not what takes most memory
    chunks = [keys[at : at + 1_000_000] for at in range(0, n, 1_000_000)]
    chunks = [pc.utf8_lpad(each.cast(pa.string()), 9, "0") for each in chunks]
    keys = pa.chunked_array([pc.binary_join_element_wise("user-", each, "") for each in chunks])
table = pa.table({"id": keys})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
started = time.process_time()
folder = write_manifest(decide({"name": "large", "columns": {"key": "id"}, "strategy": "KFold"}, table), root)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
told = {"gigabytes_beyond_keys": peak - before, "megabytes_on_disk": size, "cpu_seconds": time.process_time() - started}
print(json.dumps(told))
"""


def measured(n: int, kind: str, folder: Path) -> dict[str, float]:
    """Return memory beyond the keys, size on disk and CPU seconds of splitting and writing n rows, in a process."""
    command = [sys.executable, "-c", SCRIPT, str(n), kind, str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    shutil.rmtree(folder)
    told: dict[str, float] = json.loads(ran.stdout)
    return told


def test_a_hundred_million_integer_keys_fit(tmp_path: Path, found: Callable[..., None]) -> None:
    """Less than 4 GB beyond the key column, and at most 150 MB on disk."""
    told = measured(100_000_000, "int", tmp_path / "int")
    found(**{name: round(value, 2) for name, value in told.items()})
    assert told["gigabytes_beyond_keys"] < 4, told
    assert told["megabytes_on_disk"] <= 150, told


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


MOST = 1.15
DRAWS = """
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
    (tmp_path / "script.py").write_text(DRAWS)
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


def test_twelve_months_with_every_fault(home: Home, tmp_path: Path) -> None:
    """110 broken files, 12 right ones: 12 champions, each of a table that was right."""
    months = flights(350)
    done = live_through(home, tmp_path, months, [[], *([list(FAULTS)] * 11)])
    assert [each["champion"][0] for each in done if not each["fault"]] == [str(n + 1) for n in range(12)]
    assert sum(bool(each["fault"]) for each in done) == 110
