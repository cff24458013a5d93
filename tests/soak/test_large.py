"""A hundred million rows: split and written in less than 4 GB beyond the keys, and 150 MB on disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

SCRIPT = """
import json, resource, sys, time
import numpy as np, pyarrow as pa
from evenfold.manifests import decide, write_manifest
n, kind, root = int(sys.argv[1]), sys.argv[2], sys.argv[3]
keys = pa.array(np.arange(n)) if kind == "int" else pa.array([f"user-{i:09d}" for i in range(n)], pa.large_string())
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


def test_a_hundred_million_integer_keys_fit(tmp_path: Path) -> None:
    """Less than 4 GB beyond the key column, and at most 150 MB on disk."""
    told = measured(100_000_000, "int", tmp_path / "int")
    assert told["gigabytes_beyond_keys"] < 4, told
    assert told["megabytes_on_disk"] <= 150, told


def test_text_keys_cost_a_stated_multiple(tmp_path: Path) -> None:
    """Ten million of each: the ratio is published with the results."""
    whole = {kind: measured(10_000_000, kind, tmp_path / kind) for kind in ("int", "text")}
    assert whole["text"]["gigabytes_beyond_keys"] < 4, whole
    assert whole["text"]["cpu_seconds"] / whole["int"]["cpu_seconds"] < 20, whole
