"""A table of any size parted by its folds, joined to them and written beside them, in little memory."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import CASES
from evenfold.manifests import (
    StoredManifest,
    as_cv,
    audit,
    decide,
    export,
    extend,
    join_rows,
    measure,
    partition,
    write_join,
)
from evenfold.splitters import SplitError
from tables import PARTS, REPEATED, TYPES, shuffled, spec_of, split, table, visits

GROUPED: dict[str, Any] = {
    "columns": {"key": "id", "group": "group", "target": "number"},
    "types": TYPES,
    "params": {"effort": 1},  # however long folds were searched for, what they come to is found alike
}
LITTLE = "20kB"  # the manifest of a hundred rows fits into it, and their table does not


def kept(spec: Any, folder: Path, data: Any = None) -> StoredManifest:
    return decide(spec, table() if data is None else data, to=folder)


PARTED: list[dict[str, Any]] = [
    GROUPED,
    {"columns": {"key": ["when", "id"], "target": "label"}, "types": TYPES, "holdout": 0.2},
    {"columns": {"target": "label"}},
    {"columns": {"key": "id", "target": "number"}, "strategy": "FractionalStratifiedSplit", "types": TYPES},
]


@pytest.mark.parametrize("spec", PARTED)
def test_a_table_is_parted_by_its_folds_without_being_in_memory(spec: dict[str, Any], tmp_path: Path) -> None:
    rows = pa.Table.from_pandas(shuffled(table()) if spec["columns"].get("key") else table(), preserve_index=False)
    manifest = decide(spec, rows)
    parted = partition(kept(spec, tmp_path / "splits", rows), rows, tmp_path / "parted", memory="64MB")
    assert parted.n_splits == manifest.n_splits
    for number in range(parted.n_splits):
        for role in ("train", "test"):
            wanted = join_rows(manifest, rows, number, role)  # type: ignore[arg-type]
            assert parted.read(number, role).equals(wanted)  # type: ignore[arg-type]
            assert parted.rows(number, role) == wanted.num_rows  # type: ignore[arg-type]
            assert parted.read(number, role, ["unread"]).equals(wanted.select(["unread"]))  # type: ignore[arg-type]
    batches = pa.concat_tables(parted.batches(0, "test", ["id"]))
    assert sorted(batches.column("id").to_pylist()) == sorted(join_rows(manifest, rows, 0, "test")["id"].to_pylist())
    whole = pd.read_parquet(tmp_path / "parted")  # by a reader that is not ours
    assert len(whole) == 97
    assert set(whole["fold"].astype(int)) == set(np.unique(manifest.codes).tolist())


def test_a_table_that_cannot_be_parted_leaves_nothing(tmp_path: Path) -> None:
    stored = kept(GROUPED, tmp_path / "splits")
    with pytest.raises(SplitError, match="3 rows of the manifest are not in the data"):
        partition(stored, table().iloc[3:], tmp_path / "parted")
    with pytest.raises(SplitError, match="begin with 'fold' are ours"):
        partition(stored, table().assign(fold_1=1), tmp_path / "parted")
    for repeat in (3, -1):
        with pytest.raises(SplitError, match=f"there is no repeat {repeat} in .*; choose 0"):
            partition(stored, table(), tmp_path / "parted", repeat=repeat)
    assert [path.name for path in tmp_path.iterdir()] == ["splits"]


@pytest.mark.parametrize("key", ["id", None])
def test_a_manifest_on_disk_is_a_cv_and_its_folds_are_joined_as_in_memory(tmp_path: Path, key: str | None) -> None:
    spec = GROUPED | {"columns": {**GROUPED["columns"], "key": key}, "holdout": {"fraction": 0.2}}
    rows = table()
    stored = kept(spec, tmp_path / "splits", rows)
    data = rows if key is None else shuffled(rows)
    if key:
        data = data.drop(index=data.index[3]).reset_index(drop=True)
        stored = extend(stored, data, max_missing=0.5).manifest
    whole = stored.rows
    cv, known = as_cv(stored, data, memory="64MB"), whole.as_cv(data)
    assert cv.get_n_splits() == known.get_n_splits() == 5
    for (train, test), (learnt, tested) in zip(cv.split(data), known.split(data), strict=True):
        assert train.tolist() == learnt.tolist()
        assert test.tolist() == tested.tolist()
    with pytest.raises(SplitError, match="rows and the manifest was joined to"):
        cv.split(data.head(5))
    data.to_parquet(tmp_path / "rows.parquet")
    for role in ("train", "test"):
        n = write_join(stored, tmp_path / "rows.parquet", 1, role, tmp_path / "one.parquet", memory=LITTLE)
        wanted = join_rows(whole, tmp_path / "rows.parquet", 1, role).replace_schema_metadata(None)
        assert n == wanted.num_rows
        assert pq.read_table(tmp_path / "one.parquet").equals(wanted)
    for asked in ({"fold": 9}, {"fold": 0, "repeat": 2}, {"fold": 0, "role": "both"}):
        with pytest.raises(SplitError, match="there is no"):
            write_join(
                stored, tmp_path / "rows.parquet", **{"role": "test", "to": tmp_path / "x.csv"} | asked, memory=LITTLE
            )
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_fold_without_rows_is_a_file_without_rows(suffix: str, tmp_path: Path) -> None:
    rows = table()
    first = kept(GROUPED, tmp_path / "splits", rows)
    data = rows[rows["id"].isin(join_rows(first.rows, rows, 0, "train").column("id").to_pylist())]
    stored = extend(first, data, max_missing=0.9).manifest
    ours, theirs = tmp_path / f"ours{suffix}", tmp_path / f"theirs{suffix}"
    assert write_join(stored, data, 0, "test", theirs) == write_join(stored, data, 0, "test", ours, memory=LITTLE) == 0
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(("to", "suffix"), [("csv", ".csv"), ("spark", ".parquet")])
def test_folds_are_exported_from_disk_with_the_bytes_of_memory(tmp_path: Path, to: Any, suffix: str) -> None:
    rows = shuffled(table())
    rows.to_parquet(tmp_path / "rows.parquet")
    stored = kept(GROUPED, tmp_path / "splits", rows)
    for data in (None, tmp_path / "rows.parquet"):
        ours, theirs = tmp_path / f"ours{suffix}", tmp_path / f"theirs{suffix}"
        told = export(stored, to, ours, data, memory=LITTLE)
        known = export(stored.rows, to, theirs, data)
        assert (told.rows, told.note) == (known.rows, known.note)
        assert ours.read_bytes() == theirs.read_bytes()
    if to != "csv":
        locked = kept(GROUPED | {"name": "locked", "holdout": {"fraction": 0.2}}, tmp_path / "splits", rows)
        with pytest.raises(SplitError, match=r"no word for 20 rows locked \(-2\)"):
            export(locked, to, tmp_path / f"never{suffix}", memory=LITTLE)
        assert not (tmp_path / f"never{suffix}").exists()


def test_what_takes_more_than_memory_is_refused_with_its_size_before_a_row_is_read(tmp_path: Path) -> None:
    draws = spec_of(next(splitter for splitter in CASES if type(splitter).__name__ == "PoissonBootstrap"))
    for spec in (GROUPED, {**(draws or {}), "name": "draws"}):
        stored = kept(spec, tmp_path / "splits")
        (stored.folder / "assignments-0000.parquet").write_bytes(b"")
        for verb, end in ((measure, ", or only decide"), (audit, ", or only decide"), (extend, r"\."), (as_cv, r"\.")):
            with pytest.raises(SplitError, match=rf"97 rows at once, .* GB, and .* allowed; allow more memory{end}"):
                verb(stored, table(), memory="1kB")  # type: ignore[operator]
        with pytest.raises(SplitError, match="97 rows at once"):
            export(stored, "csv", tmp_path / "folds.csv", memory="1kB")
    assert [path.name for path in tmp_path.iterdir()] == ["splits"]


KILLED = """
import os, signal, sys, time
from evenfold.manifests import StoredManifest, extend, partition
from evenfold.manifests.exchange import partition as parted
def stop(*_): print("writing", flush=True); time.sleep(600)
os.fsync = parted._write_parted = stop
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
    rows, to = table(120), tmp_path / "parted"
    rows.to_parquet(tmp_path / "rows.parquet")
    spec = {"columns": {"key": "id", "target": "label"}, "types": TYPES}
    less = decide(spec | {"name": "less"}, rows.iloc[:100])
    whole, there = (kept(spec, tmp_path / "whole", rows), kept(less.spec, tmp_path / "less", rows.iloc[:100]))
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


@pytest.mark.parametrize(
    ("role", "strategy", "params"),
    [("test", "StratifiedKFold", {}), ("train", "Repeated", REPEATED), ("train", "Bootstrap", {})],
)
def test_joined_rows_are_those_of_the_cv(role: Any, strategy: str, params: dict[str, Any]) -> None:
    frame = visits()
    manifest = split(frame, strategy=strategy, params=params)
    repeats = 3 if strategy == "Repeated" else 1
    pairs = list(manifest.as_cv(frame).split())
    for i in (0, manifest.n_splits - 1):
        repeat, fold = divmod(i, manifest.n_splits // repeats)
        made = join_rows(manifest, pl.from_pandas(frame), fold, role, repeat)
        assert made.to_pandas().equals(frame.iloc[pairs[i][role == "test"]].reset_index(drop=True))


def test_locked_rows_are_never_joined() -> None:
    frame = visits().assign(y=visits()["day"] / 7)
    manifest = split(frame, strategy="FractionalStratifiedSplit", params=PARTS)
    handed = [join_rows(manifest, frame, 0, role)["id"].to_pylist() for role in ("train", "test")]  # type: ignore[arg-type]
    locked = set(np.array(manifest.keys["id"].to_pylist())[manifest.codes == -2])
    assert len(locked) == 60
    assert not locked & {*handed[0], *handed[1]}
