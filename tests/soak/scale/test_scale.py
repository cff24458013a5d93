"""A hundred million rows: the memory they take, and one identity wherever a split can be decided twice."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import decide, partition
from evenfold.splitters import SplitError

pytestmark = pytest.mark.soak
ROWS = int(os.environ.get("EVENFOLD_SOAK_ROWS", 100_000_000))
BOTH = ROWS // 10  # rows at which the split is decided in memory as well
MOST_MB = 9_000  # of text keys: what is mapped from the disk counts as well, until others want the room
SCRIPT = """
import json, resource, sys, time
from evenfold.manifests import decide
spec = {"columns": {"key": "key", "group": "group", "target": "y"}}
started = time.process_time()
options = {} if sys.argv[2] == "memory" else {"engine": "duckdb", "memory": "2500MB", "to": sys.argv[3]}
made = decide(spec, sys.argv[1], **options)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({"split_id": made.split_id, "cpu": time.process_time() - started, "peak": peak}))
"""


def rows(n: int, n_groups: int, folder: Path) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, part in enumerate(np.array_split(np.arange(n, dtype=np.int64), 50)):
        digits = pa.array(part * 61_803_399 % n).cast(pa.string())  # a bijection: n is a power of 10
        keys = pc.binary_join_element_wise("clé-", pc.utf8_lpad(digits, 9, padding="0"), "")
        groups = pc.binary_join_element_wise("g", pa.array(rng.integers(0, n_groups, part.size)).cast(pa.string()), "")
        table = pa.table({"key": keys, "group": groups, "y": rng.lognormal(size=part.size)})
        pq.write_table(table, folder / f"{number:02d}.parquet")
    return folder


def decided(data: Path, how: str, to: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", SCRIPT, str(data), how, str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_a_hundred_million_rows_take_few_bytes_each(tmp_path: Path, found: Callable[..., None]) -> None:
    made = decided(rows(ROWS, ROWS // 100, tmp_path / "data"), "duckdb", tmp_path / "splits")
    found(
        rows=ROWS, peak_mb=made["peak"], cpu_seconds=round(made["cpu"]), cpu_us_a_row=round(made["cpu"] / ROWS * 1e6, 2)
    )
    assert made["peak"] < MOST_MB


def test_out_of_core_costs_little_more_than_memory(tmp_path: Path, found: Callable[..., None]) -> None:
    data = rows(BOTH, BOTH // 100, tmp_path / "data")
    memory, duckdb = decided(data, "memory", tmp_path), decided(data, "duckdb", tmp_path / "splits")
    found(rows=BOTH, cpu_in_memory=round(memory["cpu"], 1), cpu_out_of_core=round(duckdb["cpu"], 1))
    assert duckdb["split_id"] == memory["split_id"]
    assert duckdb["cpu"] <= 1.5 * memory["cpu"]


def test_a_disk_that_is_full_while_rows_are_spilled_is_a_sentence(small_disk: Path, tmp_path: Path) -> None:
    n = 3_000_000
    columns = {"key": np.random.default_rng(0).permutation(n), "group": np.arange(n) % 999}
    pq.write_table(pa.table(columns | {"y": np.random.default_rng(1).normal(size=n)}), tmp_path / "rows.parquet")
    spec, data = {"columns": {"key": "key", "group": "group", "target": "y"}}, tmp_path / "rows.parquet"
    with pytest.raises(SplitError, match=r"64 MB of memory and the disk of .* are too little to sort the rows"):
        decide(spec, data, engine="duckdb", memory="64MB", to=small_disk / "splits")
    made = decide(spec, data, engine="duckdb", memory="500MB", to=tmp_path / "splits")
    with pytest.raises(SplitError, match=r"No space left on device|no room left"):
        partition(made, data, small_disk / "parted", memory="250MB")
    assert not list(small_disk.iterdir())
