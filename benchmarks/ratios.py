"""A million rows: each verb beside its floor, time and hashes beside their peers, and what a row and a group cost.

``python -m benchmarks ratios`` also writes the table of docs/scale.md, which is derived from these costs.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests import Plan, decide, join_rows, measure, verify, write_manifest
from evenfold.manifests.spill import BYTES_A_GROUP, BYTES_OF_ROWS
from evenfold.splitters import ForwardChaining, HashSplit, ShuffleSplit
from sklearn import model_selection as sklearn

from .draws_and_sorts import cpu, row
from .scale import _floor

N, DRAWS, PAGE = 1_000_000, 20, Path(__file__).parent.parent / "docs" / "scale.md"
BEGIN, END = "<!-- derived by python -m benchmarks ratios -->\n", "<!-- end -->\n"
SPEC = {"name": "rows", "columns": {"key": "key", "group": "group", "target": "y"}}
Row = dict[str, Any]


def rows() -> list[Row]:
    """Return the table's rows, and write what is derived from the costs into docs/scale.md."""
    strategies = _strategies()
    with tempfile.TemporaryDirectory() as folder:
        verbs = [each for kind in ("integer", "text") for each in _verbs(kind, Path(folder))]
        text = _derived(Path(folder)) + _hashed(*strategies[-2:])
    before, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + text + END + after.partition(END)[2], encoding="utf-8")
    return [*verbs, *strategies]


def _hashed(own: Row, same: Row) -> str:
    """Return what HashSplit's hash costs beside an engine's own, and beside the same hash in an engine."""
    return (
        f"\nHashSplit takes {own['ratio']:.0f} times as long as DuckDB's own hash of whole numbers, and "
        f"{same['ratio']:.1f} times as long as\nDuckDB takes for the same folds by its SHA-256.\n"
    )


def _table(path: Path, kind: str, groups: int) -> Path:
    rng = np.random.default_rng(0)
    key, group = pa.array(rng.permutation(N)), pa.array(rng.integers(0, groups, N))
    if kind == "text":
        key, group = (pc.binary_join_element_wise("clé-", each.cast(pa.string()), "") for each in (key, group))
    pq.write_table(pa.table({"key": key, "group": group, "y": rng.lognormal(size=N)}), path)
    return path


def _verbs(kind: str, folder: Path) -> list[Row]:
    path = _table(folder / f"{kind}.parquet", kind, N // 100)
    split = write_manifest(Plan(SPEC, path).decide(), folder / kind)
    works: list[tuple[str, Callable[[], Any], Callable[[], Any], str, float]] = [
        ("decide", lambda: Plan(SPEC, path).decide(), lambda: _floor(path), "read, order, take, encode, digest", 2.0),
        ("measure", lambda: measure(split, path), lambda: _measured(path, split), "join, sort, five distances", 1.3),
        ("join", lambda: join_rows(split, path, 0, "test"), lambda: _joined(path, split), "read, look up, take", 1.5),
        ("verify", lambda: verify(split), lambda: _proved(split), "read and digest files and columns, twice", 2.0),
    ]
    return [_beside(f"{verb}, {N:,} {kind} keys", *work) for verb, *work in works]


def _beside(work: str, ours: Callable[[], Any], peer: Callable[[], Any], name: str, most: float = np.inf) -> Row:
    mine, theirs = cpu(ours, 5), cpu(peer, 5)
    ratio = mine / theirs
    target = f"<= {most}" if most < np.inf else "none: docs/scale.md says why"
    return row(work, f"{mine:.3f} s", f"{theirs:.3f} s ({name})", ratio, target, ratio <= most)


def _joined(path: Path, split: Path) -> pa.Table:
    table, held = pq.read_table(path), pq.read_table(split / "assignments-0000.parquet")
    keys = table.column("key").combine_chunks()
    places = pc.index_in(held.column("key").cast(keys.type), value_set=keys)
    return table.take(places.filter(pc.equal(held.column("fold"), 0)))


def _measured(path: Path, split: Path) -> None:
    table, held = pq.read_table(path), pq.read_table(split / "assignments-0000.parquet")
    key = table.column("key").cast(held.column("key").type)
    place = pc.index_in(key, value_set=held.column("key").combine_chunks())
    fold, y = held.column("fold").to_numpy()[place.to_numpy()], table.column("y").to_numpy()
    group = table.column("group").combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.argsort(y)
    overall, steps = np.arange(1, N + 1) / N, np.diff(y[order])
    for number in range(5):
        here, mine = fold[order] == number, y[fold == number]
        gap = np.abs(np.cumsum(here) / here.sum() - overall)
        _ = gap.max(), (gap[:-1] * steps).sum(), mine.mean(), mine.std(), np.bincount(group[fold == number])


def _proved(split: Path) -> None:
    for path in split.glob("*.parquet"):
        hashlib.sha256(path.read_bytes()).digest()
        for _ in ("blocks", "split_id"):
            for column in pq.read_table(path).columns:
                for buffer in column.combine_chunks().buffers():
                    hashlib.sha256(buffer or b"").digest()


def _strategies() -> list[Row]:
    X, times, keys = np.empty((N, 0)), np.random.default_rng(0).random(N), np.random.default_rng(0).permutation(N)
    base = duckdb.connect()
    base.execute("set threads = 1")
    base.register("keys", pa.table({"id": keys}))

    def chained() -> Any:
        order = np.argsort(times)
        return [(order[train], order[test]) for train, test in sklearn.TimeSeriesSplit(5).split(X)]

    def hashed(of: str) -> Callable[[], Any]:
        return lambda: base.sql(f"select {of} as fold from keys").to_arrow_table()

    def mine() -> Any:
        return HashSplit(5).assign(X, key=keys)

    own, same = "hash(id) % 5", "('0x' || left(sha256('|' || id), 13))::hugeint * 5 >> 52"
    work = f"HashSplit, {N:,} integer keys"
    shuffle, theirs = ShuffleSplit(DRAWS, test_size=0.2), sklearn.ShuffleSplit(DRAWS, test_size=0.2, random_state=0)
    return [
        _beside(
            f"ForwardChaining, 5 pairs of {N:,} times", lambda: list(ForwardChaining(5).split(X, time=times)), chained,
            "argsort, TimeSeriesSplit, take", 1.5,
        ),
        _beside(
            f"ShuffleSplit, {DRAWS} pairs of {N:,}", lambda: list(shuffle.split(X)), lambda: list(theirs.split(X)),
            "scikit-learn's ShuffleSplit", 1.5,
        ),
        _beside(work, mine, hashed(own), "DuckDB's own hash, which its next version may change"),
        _beside(work, mine, hashed(same), "the same folds by DuckDB's sha256"),
    ]  # fmt: skip


def _derived(folder: Path) -> str:
    """Return the table of what tables of 1e8 to 1e11 rows cost one process, from what a row and a group cost here."""
    spent = {}
    for groups in (N // 100, N // 2):
        path = _table(folder / f"{groups}.parquet", "integer", groups)
        start = time.process_time()
        decide(SPEC, path, engine="duckdb", memory="1GB", to=folder / f"split of {groups}")
        spent[groups] = time.process_time() - start
    few, many = spent
    group = max(spent[many] - spent[few], 0.0) / (many - few)
    each = (spent[few] - group * few) / N
    lines = [
        f"A row costs {each * 1e6:.2f} us of CPU and {BYTES_OF_ROWS} bytes, a group {group * 1e6:.2f} us and "
        f"{BYTES_A_GROUP} bytes.\n",
        "| rows | groups | CPU hours | memory of the deciding process |",
        "|---|---|---|---|",
    ]
    for n, groups in ((10**8, 10**6), (10**9, 10**7), (10**11, 10**9)):
        hours = (each * n + group * groups) / 3600
        room = (BYTES_OF_ROWS * n + BYTES_A_GROUP * groups) / 1e9
        lines.append(f"| {n:.0e} | {groups:.0e} | {hours:,.2f} | {room:,.1f} GB |")
    return "\n".join(lines).replace("e+0", "e").replace("e+1", "e1") + "\n"
