"""A manifest grows alike whether its rows are in memory or not, and what has grown is read row after row too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import CASES
from evenfold.manifests import (
    Manifest,
    StoredManifest,
    audit,
    decide,
    extend,
    join_rows,
    measure,
    partition,
    read_manifest,
    verify,
    write_manifest,
)
from evenfold.manifests.anywhere.auditing import ROW_BY_ROW
from evenfold.manifests.engines import ordered
from evenfold.manifests.store import rows as stored_rows
from evenfold.manifests.store.write import describe
from evenfold.reports import report_html
from evenfold.splitters import SplitError, Splitter
from tables import TYPES, assert_alike, figures, quick_spec_of, shuffled, spec_of, table

# However long folds were searched for, new rows join them alike.
GROWING = [
    splitter
    for splitter in CASES
    if splitter.kind == "labels" and splitter.grows and spec_of(splitter) is not None and splitter.needs.groups != "any"
    if not any(searched in repr(splitter) for searched in ("effort", "optimiser"))
]
QUICK = {"params": {"effort": 1}}
TWO_PARTS = {"params": {"parts": {"train": 0.6, "test": 0.4}, "effort": 1}}
KEYS: list[list[str]] = [["id"], ["name"], ["when"], ["name", "when"], ["day", "id"]]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred rows be several shards and batches, so that every border is crossed."""
    monkeypatch.setattr(ordered, "SHARD_ROWS", 20)
    monkeypatch.setattr(stored_rows.rows_in_order, "__defaults__", (13,))


def stored(manifest: Manifest, folder: Path) -> StoredManifest:
    return StoredManifest(write_manifest(manifest, folder))


def grown(manifest: Any, data: Any, **options: Any) -> tuple[Any, tuple[Any, ...]]:
    made = extend(manifest, data, **options)
    return made.manifest, (made.added, made.deleted, made.returned, made.quarantined, made.moved, made.notes)


def assert_same(found: StoredManifest, wanted: Manifest) -> None:
    """The header, the codes, the status and the tables of groups are those of growing in memory."""
    assert found.header == describe(wanted) | {"files": found.header["files"]}
    held = read_manifest(found.folder)  # which compares every digest
    assert (held.status == wanted.status).all()
    assert (held.born == wanted.born).all() if wanted.born is not None else held.born is None
    assert held.group_table is None or held.group_table.equals(wanted.group_table)


def months() -> list[pd.DataFrame]:
    """Return what a table is month after month: it grows, loses rows, gets some back, and groups change."""
    rows = table(120, seed=4)
    changed = rows.assign(
        group=rows["group"].where(rows["group"] != "group 1", "group 2").where(rows["group"] != "group 3", "renamed"),
        label=rows["label"].mask(rows.index % 40 == 0, "fresh"),
    )
    return [rows.iloc[:60], rows.iloc[3:90], changed.iloc[2:108], changed]


@pytest.mark.parametrize(
    ("splitter", "holdout"),
    [(splitter, 0.2 if number % 3 == 0 else None) for number, splitter in enumerate(GROWING)],
    ids=repr,
)
def test_folds_of_new_rows_do_not_depend_on_where_they_join(
    splitter: Splitter, holdout: float | None, tmp_path: Path
) -> None:
    """Rows go, come back and merge groups over two or three months: one split_id, one plan_id, the same sentences."""
    spec = dict(quick_spec_of(splitter) or {})
    spec |= {"holdout": holdout} if holdout and "parts" not in spec["params"] else {}
    first, *later = months()[: 4 if holdout else 3]
    whole = decide(spec, first)
    there = stored(whole, tmp_path)
    for data in later:
        whole, told = grown(whole, data)
        there, said = grown(there, shuffled(data), memory="64MB")
        assert said == told
        assert_same(there, whole)
    for manifest in (whole, there) if splitter.needs.groups else ():  # rows of merged groups are quarantined once
        assert extend(manifest, later[-1]).notes == ("there is nothing new.",)
    found = verify(there.folder)
    assert found.intact
    assert any("0 rows moved" in proof for proof in found.proved)
    assert not list(tmp_path.glob(".spilling-*"))


def named(n: int = 1_200) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return table(n).assign(
        name=[f"clé-{i % 977:04d}-é{i}" for i in rng.permutation(n)],
        when=pd.Timestamp("1969-06-01") + pd.to_timedelta(np.arange(n) * 7919 % (n * 11), unit="min"),
        day=(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n) % 300, unit="D")).date,
    )


@pytest.mark.parametrize("key", KEYS, ids="+".join)
def test_keys_of_any_type_join_alike(key: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text with accents, times, days and several columns, in a little memory."""
    monkeypatch.setattr(ordered, "SHARD_ROWS", 160)
    monkeypatch.setattr(stored_rows.rows_in_order, "__defaults__", (121,))
    rows = named()
    spec = QUICK | {"columns": {"key": key, "group": "group", "target": "number"}, "types": {"group": "text"}}
    whole = decide(spec, rows.iloc[:800])
    there = stored(whole, tmp_path)
    for end in (1_000, 1_200):
        whole, told = grown(whole, rows.iloc[end // 50 : end])
        there, said = grown(there, shuffled(rows.iloc[end // 50 : end]), memory="8MB")
        assert said == told
        assert_same(there, whole)


@pytest.mark.parametrize("columns", [{"target": "label"}, {"target": "number"}, {"group": "group", "target": "label"}])
def test_a_batch_of_new_rows_joins_alike(columns: dict[str, Any], tmp_path: Path) -> None:
    """From what the header remembers; rows that are known are refused, and nothing is written."""
    rows = table(150)
    spec = {"columns": {"key": "id", **columns}, "types": TYPES} | (QUICK if "group" in columns else {})
    whole = decide(spec, rows.iloc[:100])
    there = stored(whole, tmp_path)
    with pytest.raises(SplitError, match="rows of the batch are in the manifest already"):
        extend(there, rows.iloc[99:], batch=True)
    assert [path.name for path in (tmp_path / "split").iterdir()] == ["1.0"]
    found, said = grown(there, rows.iloc[100:], batch=True)
    wanted, told = grown(whole, rows.iloc[100:], batch=True)
    assert said == told
    assert_same(found, wanted)
    again, _ = grown(there, rows.iloc[100:], batch=True)
    assert again.folder == found.folder


@pytest.mark.parametrize(("rule", "merged"), [("hash", "quarantine"), ("freeze", "quarantine"), ("fill", "accept")])
def test_other_rules_hold_out_of_core_too(rule: str, merged: Any, tmp_path: Path) -> None:
    """Where new rows go by hash or nowhere, and where groups that merge are accepted."""
    spec = QUICK | {"columns": {"key": "id", "group": "group", "target": "label"}, "types": TYPES, "on_new_rows": rule}
    first, *_, last = months()
    whole, there = decide(spec, first), stored(decide(spec, first), tmp_path)
    wanted, told = grown(whole, last, merged=merged)
    found, said = grown(there, shuffled(last), merged=merged)
    assert said == told
    assert_same(found, wanted)


@pytest.mark.parametrize("target", ["label", "number"])
@pytest.mark.parametrize(
    ("strategy", "more"),
    [("BalancedGroupSplit", TWO_PARTS), ("BalancedGroupKFold", QUICK | {"holdout": 0.3}), ("KFold", {"holdout": 0.3})],
)
def test_a_split_of_which_nothing_is_tested_any_more_is_measured(
    strategy: str, more: dict[str, Any], target: str, tmp_path: Path
) -> None:
    """Where the last tested rows are deleted: it says so by sizes, and has no figure of rows that are not there."""
    group = {} if strategy == "KFold" else {"group": "group"}
    spec = {"columns": {"key": "id", "target": target, **group}, "types": TYPES, "strategy": strategy, **more}
    manifest, rows = decide(spec, table()), table()
    left = rows[~rows["id"].isin(manifest.keys["id"].to_numpy()[manifest.membership.column() >= 0])]
    whole = extend(manifest, left, max_missing=1.0).manifest
    report = measure(whole, left)
    assert {(fold.rows, fold.mean) for fold in report.folds} == {(0, None)}
    assert report.n_rows == len(left) == sum(part.rows for part in report.parts)
    there = extend(stored(manifest, tmp_path), shuffled(left), max_missing=1.0).manifest
    assert_alike(measure(there, shuffled(left)).model_dump(), report.model_dump())
    assert "0 rows" in report_html(whole, report, left)


def test_nothing_new_and_too_much_missing_are_said_alike(tmp_path: Path) -> None:
    """No version without a change, and none of a table that is cut short."""
    rows = table()
    there = stored(decide({"columns": {"key": "id"}}, rows), tmp_path)
    made = extend(there, shuffled(rows))
    assert made.manifest.folder == there.folder
    assert made.notes == ("there is nothing new.",)
    with pytest.raises(SplitError, match=r"20 of the 97 rows .*are not in the data"):
        extend(there, rows.iloc[20:])
    with pytest.raises(SplitError, match="no key column"):
        extend(stored(decide({"name": "other"}, rows), tmp_path), rows)
    with pytest.raises(SplitError, match=r"rows that are new or absent take about .* GB .* are allowed"):
        extend(stored(decide({"name": "third", "columns": {"key": "id"}}, rows.iloc[:5]), tmp_path), rows, memory="9kB")


def test_draws_grow_as_a_whole_and_say_what_that_takes(tmp_path: Path) -> None:
    """What is made from all rows at once is read into memory where it fits there, and else refused with its size."""
    spec = spec_of(next(s for s in CASES if type(s).__name__ == "PoissonBootstrap"))
    rows = table(120)
    whole = decide(spec, rows.iloc[:90])
    there = stored(whole, tmp_path)
    found, said = grown(there, rows)
    wanted, told = grown(whole, rows)
    assert said == told
    assert found.split_id == wanted.split_id
    for verb in (extend, measure, audit):
        with pytest.raises(SplitError, match=r"holds draws .*90 rows at once, about .* GB, and .* allow more memory"):
            verb(there, rows, memory="1kB")  # type: ignore[operator]


SEEN: list[Callable[[pd.DataFrame], pd.DataFrame]] = [
    lambda f: f,
    lambda f: f.iloc[4:],
    lambda f: pd.concat([f, f.tail(3).assign(id=[9001, 9002, 9003])]),
    lambda f: f.assign(group=f["group"].mask(f.index % 9 == 0, "merged")),
]


@pytest.mark.parametrize(
    "columns", [{"group": "group", "target": "number"}, {"group": "group", "target": "label"}, {"target": "label"}]
)
def test_what_has_grown_is_measured_and_audited_alike(columns: dict[str, Any], tmp_path: Path) -> None:
    """Deleted and quarantined rows are in no figure, whether they are in the data or not."""
    first, second, third, last = months()
    whole = decide({"columns": {"key": "id", **columns}, "types": TYPES} | (QUICK if "group" in columns else {}), first)
    for data in (second, third):
        whole = extend(whole, data).manifest
    there = stored(whole, tmp_path)
    now = third.sort_values("id")
    assert_alike(measure(there, shuffled(now), memory="64MB").model_dump(), measure(whole, now).model_dump())
    more = pd.concat([now, last.iloc[:2]]).sort_values("id")  # two that were deleted are back
    assert_alike(measure(there, shuffled(more), memory="64MB").model_dump(), measure(whole, more).model_dump())
    for wrong in SEEN:
        data = wrong(more.reset_index(drop=True))
        found, wanted = audit(there, shuffled(data), memory="64MB"), audit(whole, data.sort_values("id"))
        asked = {name for name, why in found.not_asked.items() if why == ROW_BY_ROW}
        assert figures(found) == {k: v for k, v in figures(wanted).items() if k not in asked}
        assert set(found.passed) == set(wanted.passed) - asked


def test_what_has_grown_is_parted_and_read_in_key_order(tmp_path: Path) -> None:
    """Batches of all generations come in key order, and a table is parted by the folds that are in use."""
    first, second, third, _ = months()
    whole = decide(QUICK | {"columns": {"key": "id", "group": "group", "target": "label"}, "types": TYPES}, first)
    for data in (second, third):
        whole = extend(whole, data).manifest
    there = stored(whole, tmp_path / "splits")
    read = pa.concat_tables(there.batches())
    assert read.column("id").to_pylist() == whole.keys.column("id").to_pylist()
    assert read.column("fold").to_pylist() == whole.in_use.column().tolist()
    rows = pa.Table.from_pandas(shuffled(third), preserve_index=False)
    parted = partition(there, rows, tmp_path / "parted", memory="64MB")
    for split in range(parted.n_splits):
        for role in ("train", "test"):
            assert parted.read(split, role).equals(join_rows(whole, rows, split, role))  # type: ignore[arg-type]


KILLED = """
import os, signal, sys, time
from evenfold.manifests import StoredManifest, extend, partition
from evenfold.manifests.anywhere import growing, joining
def stop(*_): print("writing", flush=True); time.sleep(60)
growing.digested = joining._write = stop
less, whole, rows, to = sys.argv[1:]
writer = os.fork()
if not writer:
    extend(StoredManifest(less), rows)
print(writer, flush=True)
sys.stdin.readline()
os.waitpid(writer, 0)
partition(StoredManifest(whole), rows, to)
"""


def test_a_killed_run_leaves_no_version_and_the_next_one_clears_what_it_wrote(tmp_path: Path) -> None:
    """Killed while files are written: nothing that a reader takes for whole, and the next run completes."""
    rows, to = table(120), tmp_path / "parted"
    rows.to_parquet(tmp_path / "rows.parquet")
    spec = {"columns": {"key": "id", "target": "label"}, "types": TYPES}
    known, less = decide(spec, rows), decide(spec | {"name": "less"}, rows.iloc[:100])
    whole, there = stored(known, tmp_path / "whole"), stored(less, tmp_path / "less")
    arguments = [str(path) for path in (there.folder, whole.folder, tmp_path / "rows.parquet", to)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", KILLED, *arguments], **pipes) as process:
        told = sorted([process.stdout.readline(), process.stdout.readline()])
        assert told[1] == "writing\n"
        os.kill(int(told[0]), signal.SIGKILL)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "writing\n"
        os.kill(process.pid, signal.SIGKILL)
    assert not to.exists()
    assert [path.name for path in there.folder.parent.glob("[0-9]*")] == ["1.0"]
    assert list((tmp_path / "less").rglob(".writing-*"))
    assert list(tmp_path.glob(".writing-*"))
    assert extend(there, rows).manifest.split_id == extend(less, rows).manifest.split_id
    assert partition(whole, rows, to).rows(0, "test") == 24
    assert not list(tmp_path.rglob(".writing-*"))
    assert not list(tmp_path.rglob(".spilling-*"))
