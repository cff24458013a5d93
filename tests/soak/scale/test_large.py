"""A hundred million rows: split and written in less than 4 GB beyond the keys, and 150 MB on disk."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


