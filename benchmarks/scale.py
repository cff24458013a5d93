"""A split of ten million rows against what any implementation must do, and out of core against in memory."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests import Plan, decide, write_manifest
from evenfold.splitters.numbers import stable_order

ROWS, GROUPS_OF = {"integer": 10_000_000, "text": 1_000_000}, 100  # rows of each kind, and rows a group
SPEC = {"columns": {"key": "key", "group": "group", "target": "y"}}


def rows() -> list[dict[str, Any]]:
    """Return CPU seconds of deciding, of the floor, and of deciding out of core, for integer and text keys."""
    with tempfile.TemporaryDirectory() as folder:
        return [row for kind in ("integer", "text") for row in _of_kind(kind, Path(folder))]


def _of_kind(kind: str, folder: Path) -> list[dict[str, Any]]:
    path = _data(folder / f"{kind}.parquet", kind)
    floor, memory = _cpu(lambda: _floor(path)), _cpu(lambda: Plan(SPEC, path).decide())
    # Out of core the manifest is written as it is decided, so in memory its writing counts as well.
    made, places = Plan(SPEC, path).decide(), iter([folder / f"{kind}, first", folder / f"{kind}, second"])
    written = memory + _cpu(lambda: write_manifest(made, next(places)))
    streamed = _cpu(lambda: decide(SPEC, path, engine="duckdb", memory="1GB", to=folder / kind))
    n = ROWS[kind]
    return [
        _row(f"decide, {n:,} {kind} keys", memory, floor, "read, order, take, encode, digest", 2.0),
        _row(f"decide and write out of core, {n:,} {kind} keys", streamed, written, "in memory", 1.5),
    ]


def _row(work: str, ours: float, peer: float, name: str, most: float) -> dict[str, Any]:
    ratio = round(ours / peer, 2)
    told = {"work": work, "ours": f"{ours:.2f} s", "peer": f"{peer:.2f} s ({name})", "ratio": ratio}
    return told | {"target": f"<= {most}", "met": ratio <= most}


def _data(path: Path, kind: str) -> Path:
    rng, n = np.random.default_rng(0), ROWS[kind]
    key, group = pa.array(rng.permutation(n)), pa.array(rng.integers(0, n // GROUPS_OF, n))
    if kind == "text":
        key = pc.binary_join_element_wise("clé-", key.cast(pa.string()), "")
        group = pc.binary_join_element_wise("g", group.cast(pa.string()), "")
    pq.write_table(pa.table({"key": key, "group": group, "y": rng.lognormal(size=n)}), path)
    return path


def _floor(path: Path) -> None:
    table = pq.read_table(path)
    text = pa.types.is_string(table.schema.field("key").type)
    order = pc.sort_indices(table.column("key")) if text else stable_order(table.column("key").to_numpy())
    taken = table.take(pa.array(order)).combine_chunks()
    taken.column("group").combine_chunks().dictionary_encode()
    stable_order(taken.column("y").to_numpy())
    for column in taken.columns:
        for buffer in column.combine_chunks().buffers():
            hashlib.sha256(buffer or b"").digest()


def _cpu(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of the faster of two runs."""
    seconds = []
    for _ in range(2):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


if __name__ == "__main__":
    for row in rows():
        print(row)
