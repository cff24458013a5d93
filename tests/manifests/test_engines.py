"""The same folds and identities wherever a split is decided, and every type of column goes through as it is."""

import datetime as dt
import decimal
import os
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import CASES
from evenfold.manifests import Manifest, StoredManifest, decide, join_rows, measure, require_room, write_join
from evenfold.manifests.exchange import partition
from evenfold.manifests.plan import planned
from evenfold.manifests.store.stored import describe, written
from evenfold.manifests.tables.read import source_of
from evenfold.splitters import SplitError, Splitter
from tables import TYPES, quick_spec_of, spec_of, table, to_csv, to_folder

NAMED = {type(splitter): splitter for splitter in reversed(CASES) if spec_of(splitter) is not None}.values()
QUICK = {"params": {"effort": 1}}
GROUPED = {"columns": {"key": "id", "group": "group", "target": "number"}, "types": TYPES} | QUICK


def out_of_core(spec: Any, data: Any, folder: Path, memory: str = "1GB") -> StoredManifest:
    return decide(spec, data, engine="duckdb", memory=memory, to=folder)


def assert_same(stored: StoredManifest, manifest: Manifest) -> None:
    assert stored.header == describe(manifest) | {"files": stored.header["files"]}
    held = stored.rows
    assert np.array_equal(held.codes, manifest.codes)
    assert (held.group_table is None) == (manifest.group_table is None)
    assert held.group_table is None or held.group_table.equals(manifest.group_table)


@pytest.mark.parametrize("splitter", NAMED, ids=repr)
def test_folds_do_not_depend_on_where_they_are_decided(splitter: Splitter, tmp_path: Path) -> None:
    spec, rows = quick_spec_of(splitter), table()
    assert_same(out_of_core(spec, rows.sample(frac=1, random_state=3), tmp_path), decide(spec, rows))


def hard(n: int = 400) -> pd.DataFrame:
    """Return rows whose keys, groups and targets are what engines treat differently."""
    rng = np.random.default_rng(5)
    word = np.array(["clé", unicodedata.normalize("NFD", "clé"), "Ω", "ß", "zz", "Z", "日本", "e\u0301\u0327"])
    skewed = np.minimum(rng.zipf(1.3, n), 60)
    return pd.DataFrame(
        {
            "text": [f"{word[i % 8]}-{i:05d}" for i in rng.permutation(n)],
            "a": np.arange(n) // 7 - 20,
            "b": [f"{word[1:][i % 7]}" for i in range(n)],
            "when": [dt.datetime(1969, 12, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i, microseconds=i) for i in range(n)],
            "day": [dt.date(1960, 1, 1) + dt.timedelta(days=i) for i in range(n)],
            "float": rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
            "group": [f"{word[g % 8]} {g}" for g in skewed],
            "ties": rng.integers(0, 30, n) / 4,
            "one value": np.where(rng.random(n) < 0.8, 0.0, rng.normal(size=n)),
            "whole": rng.integers(0, 12, n).astype(float),
            "many": rng.integers(0, 500, n),
            "flag": rng.random(n) < 0.3,
            "none": np.where(rng.random(n) < 0.5, None, "x"),
        }
    ).sample(frac=1, random_state=1)


@pytest.mark.parametrize(
    ("key", "target"),
    [("text", "ties"), ("a b", "one value"), ("b a", "whole"), ("when", "many"), ("day", "text"), ("float", "when"),
     ("when text", "flag")],
)  # fmt: skip
def test_keys_and_targets_of_any_type_are_taken_alike_out_of_core(key: str, target: str, tmp_path: Path) -> None:
    """Accents in either form, times before 1970, tiny and huge floats, and several columns together."""
    spec = QUICK | {"columns": {"key": key.split(), "target": target, "group": "group"}}
    assert_same(out_of_core(spec, hard(), tmp_path), decide(spec, hard()))


def test_several_columns_are_shared_out_alike_out_of_core(tmp_path: Path) -> None:
    """Columns of two classes and of more, with a locked part."""
    columns = {"key": "text", "stratify": ["flag", "whole", "b"], "group": "group"}
    spec = QUICK | {"columns": columns, "holdout": 0.25}
    assert_same(out_of_core(spec, hard(), tmp_path), decide(spec, hard()))


SOURCES: list[Callable[[pd.DataFrame, Path], Any]] = [
    lambda frame, folder: f"{to_folder(frame, folder)}/*.parquet",
    to_csv,
    lambda frame, folder: duckdb.connect().from_df(frame),
    lambda frame, folder: pl.from_pandas(frame).lazy().filter(pl.col("number") > -1),
    lambda frame, folder: pa.Table.from_pandas(frame),
]


@pytest.mark.parametrize("source", SOURCES)
def test_rows_may_lie_anywhere(source: Callable[..., Any], tmp_path: Path) -> None:
    stored = out_of_core(GROUPED, source(table(), tmp_path), tmp_path / "splits")
    assert stored.split_id == decide(GROUPED, table()).split_id
    assert stored.rows.n == stored.n == 97


def two_files(folder: Path, first: str, second: str) -> Path:
    (folder / "files").mkdir()
    for name, text in (("a", first), ("b", second)):
        (folder / "files" / f"{name}.csv").write_text(text)
    return folder / "files"


def test_several_csv_files_have_one_type_out_of_core_as_in_memory(tmp_path: Path) -> None:
    lines = [f"{i},{i % 7 + i // 20 / 2:g},{i if i > 20 else ''}\n" for i in range(40)]
    data = two_files(tmp_path, "id,y,z\n" + "".join(lines[:20]), "id,y,z\n" + "".join(lines[20:]))
    spec = {"columns": {"key": "id", "target": "y"}, "strategy": "SortedStratifiedKFold"}
    assert decide(spec, data).types == {"id": "int", "y": "float"}
    assert_same(out_of_core(spec, data, tmp_path / "splits"), decide(spec, data))
    for engine in ("memory", "duckdb"):
        with pytest.raises(SplitError, match=r"'z' is missing .*in 21 of 40 rows"):
            decide(spec | {"columns": {"key": "id", "target": "z"}}, data, engine=engine, to=tmp_path / "other")


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_csv_files_that_are_no_one_table_are_refused_wherever_they_are_read(engine: Any, tmp_path: Path) -> None:
    for number, (second, message) in enumerate(
        (
            ("id,y\nx1,1\nx2,2\n", r"cannot be read as CSV \(.*incompatible types: int64 vs string"),
            ("id,y,z\n5,1,2\n6,2,2\n", r"differ in columns \(z\); give both the same"),
            ("id,z\n5,1\n6,2\n", r"differ in columns \(y, z\); give both the same"),
        )
    ):
        (tmp_path / str(number)).mkdir()
        data = two_files(tmp_path / str(number), "id,y\n1,1\n2,2\n", second)
        with pytest.raises(SplitError, match=message):
            decide({"columns": {"key": "id"}, "params": {"n_splits": 2}}, data, engine=engine, to=tmp_path / "splits")


def test_names_that_differ_in_case_alone_are_two_columns(tmp_path: Path) -> None:
    rows = table()
    rows = rows.assign(ID=rows["id"].to_numpy()[::-1], Number=rows["number"])
    spec = {"columns": {"key": ["flag", "Id", "ID"], "group": "group", "target": "Number", "stratify": ["number"]}}
    stored = out_of_core(spec, rows.assign(Id=rows["id"] % 3), tmp_path)
    assert_same(stored, decide(spec, rows.assign(Id=rows["id"] % 3)))
    write_join(stored, rows.assign(Id=rows["id"] % 3), 0, "test", tmp_path / "one.parquet", memory="24kB")
    assert pq.read_table(tmp_path / "one.parquet").equals(
        join_rows(stored.rows, rows.assign(Id=rows["id"] % 3), 0, "test")
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.assign(id=f["id"].mask(f.index < 3, f["id"].iloc[3])), r"not unique: 3 of 97 rows repeat"),
        (lambda f: f.assign(id=f["id"].astype("Int64").mask(f.index < 3)), r"key column 'id' is missing .* in 3 of 97"),
        (lambda f: f.assign(number=f["number"].mask(f.index < 2)), r"column 'number' is missing .* in 2 of 97 rows"),
        (lambda f: f.assign(group=f["group"].mask(f.index > 95)), r"'group' is missing .* in 1 of 97 .* stand alone"),
    ],
)
def test_rows_that_cannot_be_split_leave_nothing_behind(
    spoil: Callable[..., Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SplitError, match=message):
        out_of_core(GROUPED, spoil(table()), tmp_path / "splits")
    assert not list(tmp_path.iterdir())


def test_more_groups_than_memory_holds_are_refused_with_the_size(tmp_path: Path) -> None:
    n = table()["group"].nunique()
    with pytest.raises(SplitError, match=rf"looks at {n} groups at once, .* are allowed; allow more memory\.$"):
        out_of_core(GROUPED, table(), tmp_path, memory="1kB")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells how much of a mapping is held")
def test_what_was_read_of_a_mapped_column_takes_no_memory(tmp_path: Path) -> None:
    plan = planned(GROUPED, table(), engine="duckdb", to=tmp_path)
    address = plan.table.column("number").chunk(0).buffers()[1].address

    def held() -> int:
        mapping = Path("/proc/self/smaps").read_text().split(f"\n{address:x}-")[1]
        return int(mapping.split("\nRss:")[1].split()[0])

    plan.table.column("number").to_numpy().sum()
    assert held() > 0
    plan.check()
    assert held() == 0
    assert_same(written(plan.decide(), tmp_path), decide(GROUPED, table()))


KILLED = """
import sys, time
from evenfold.manifests import spill
spill._Column.array = lambda self: (print("spilled", flush=True), time.sleep(600))
from evenfold.manifests import decide
spec = {"columns": {"key": "id", "group": "group"}, "params": {"effort": 1}}
decide(spec, sys.argv[1], engine="duckdb", to=sys.argv[2])
"""


def test_a_killed_run_leaves_nothing_half_written_and_the_next_one_completes(tmp_path: Path) -> None:
    table().to_parquet(tmp_path / "data.parquet")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "data.parquet"), str(tmp_path / "splits")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"spilled\n"
        os.kill(process.pid, signal.SIGKILL)
    assert list((tmp_path / "splits").glob(".spilling-*"))
    assert not list((tmp_path / "splits").rglob("manifest.json"))
    spec = QUICK | {"columns": {"key": "id", "group": "group"}}
    stored = out_of_core(spec, str(tmp_path / "data.parquet"), tmp_path / "splits")
    assert_same(stored, decide(spec, table()))
    assert not list((tmp_path / "splits").glob(".spilling-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="the size of files can be limited on Linux only")
def test_a_disk_that_fills_while_rows_are_spilled_gives_a_sentence(tmp_path: Path) -> None:
    import resource

    rows = pa.table({"id": np.random.default_rng(0).permutation(60_000), "group": np.arange(60_000) % 99})
    pq.write_table(rows, tmp_path / "d.parquet")
    spec, (soft, hard) = QUICK | {"columns": {"key": "id", "group": "group"}}, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(SplitError, match="nothing was"):
            out_of_core(spec, tmp_path / "d.parquet", tmp_path / "splits", memory="64MB")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "splits").exists()


def test_many_rows_with_text_keys_have_one_identity(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 140_000
    keys = pa.array([f"clé-{i:07d}" for i in rng.permutation(n)])
    groups = pa.array(np.minimum(rng.zipf(1.2, n), 60_000)).cast(pa.string())
    rows = pa.table({"key": keys, "group": groups, "y": rng.lognormal(size=n)})
    spec = QUICK | {"columns": {"key": "key", "group": "group", "target": "y"}}
    stored = out_of_core(spec, rows, tmp_path / "splits", memory="100MB")
    assert stored.split_id == decide(spec, rows).split_id
    assert measure(stored.rows).worst["size"] < 1.0


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_table_of_groups_and_classes_beyond_any_memory_is_refused(engine: Any, tmp_path: Path) -> None:
    n = 60_000
    rows = pa.table({"id": np.arange(n), "group": np.arange(n), "class": [f"class {i}" for i in range(n)]})
    spec = {"columns": {"key": "id", "group": "group", "stratify": ["class"]}}
    with pytest.raises(SplitError, match=r"60,000 groups by 60,000 classes are a table of 29 GB, and 16 GB are the"):
        decide(spec, rows, engine=engine, to=tmp_path / "splits")
    assert not (tmp_path / "splits").exists()


PARTS = {"parts": {"train": 0.7, "validation": 0.3}, "effort": 1}


@pytest.mark.parametrize(
    ("tied", "strategy", "params"),
    [
        (lambda at: np.where(at % 4, 0.0, at / 8), "BalancedGroupSplit", PARTS),
        (lambda at: np.where(at % 3, -0.0, at - 40.0), "BalancedGroupKFold", QUICK["params"]),
        (lambda at: np.round(at**2 / 900.0), "BalancedGroupKFold", QUICK["params"]),
        (lambda at: np.full(at.size, 0.5), "BalancedGroupKFold", QUICK["params"]),
    ],
)
def test_equal_numbers_are_cut_alike_out_of_core(tied: Any, strategy: str, params: Any, tmp_path: Path) -> None:
    rows = table()
    rows["number"] = tied(np.arange(len(rows)))
    spec = GROUPED | {
        "strategy": strategy,
        "params": params,
        "holdout": None if strategy == "BalancedGroupSplit" else 0.2,
    }
    assert_same(out_of_core(spec, rows.sample(frac=1, random_state=2), tmp_path), decide(spec, rows))


COLUMNS = [
    pa.array([3, None, 1], pa.timestamp("us", "Europe/Berlin")),
    pa.array([3, None, 1], pa.timestamp("ns", "Asia/Tokyo")),
    pa.array([3, None, 1], pa.timestamp("s")),
    pa.array(["c", None, "a"]),
    pa.array(["c", None, "a"], pa.large_string()),
    pa.array(["c", None, "a"]).dictionary_encode(),
    pa.array([5, None, 7]).dictionary_encode(),
    pa.array([b"c", None, b"a"]),
    pa.array([b"cc", None, b"aa"], pa.binary(2)),
    pa.array([1, None, 2], pa.time32("s")),
    pa.array([dt.date(2020, 1, 3), None, dt.date(2020, 1, 1)], pa.date64()),
    pa.array([dt.timedelta(1), None, dt.timedelta(microseconds=1)]),
    pa.array([1.5, None, 0.25], pa.float16()),
    pa.array([1.5, None, -0.0], pa.float32()),
    pa.array([decimal.Decimal(10) ** 40, None, decimal.Decimal(1)], pa.decimal256(50, 0)),
    pa.array([decimal.Decimal("1.25"), None, decimal.Decimal(1)]),
    pa.array([2**64 - 1, None, 1], pa.uint64()),
    pa.array([[1, None], None, []], pa.list_(pa.int8())),
    pa.array([{"a": 1}, None, {"a": 2}]),
    pa.array([b"c" * 16, None, b"a" * 16], pa.uuid()),
    pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    pa.array([{"a": dt.timedelta(1)}, None, None]),
    pa.nulls(3),
]


@pytest.mark.parametrize("empty", [False, True])
def test_rows_that_are_taken_a_stretch_at_a_time_change_no_type_and_no_value(
    empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "BATCH_ROWS", 3)
    rows = pa.table({str(i): column for i, column in enumerate(COLUMNS)})
    order = np.array([2, 0, 1, 0])
    order = order[:0] if empty else order
    stretches = list(partition.rows_of(source_of(rows), order, memory=1))
    assert [stretch.num_rows for stretch in stretches] == ([0] if empty else [3, 1])
    taken = pa.concat_tables(stretches)
    assert taken.schema.equals(rows.schema)
    assert taken.to_pylist() == rows.take(pa.array(order)).to_pylist()


def test_keys_and_groups_of_any_finite_number_are_taken_out_of_core(tmp_path: Path) -> None:
    rows = table().assign(group=lambda f: np.where(f["id"] % 2, 1e200, f["id"] % 7.0), id=lambda f: f["id"] * 1e160)
    spec = {"columns": {"key": "id", "group": "group"}, "params": {"n_splits": 2}}
    assert decide(spec, rows, engine="duckdb", to=tmp_path).split_id == decide(spec, rows).split_id


def test_the_room_that_a_model_needs_is_judged_of_csv_and_of_named_columns(tmp_path: Path) -> None:
    rows = table(5_000).drop(columns="when")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_csv(tmp_path / "rows.csv.gz", index=False)
    with pytest.raises(
        SplitError, match=r"a model of 8 columns looks at (4,9\d\d|5,0\d\d) rows .* GB .*fewer rows, or features"
    ):
        require_room(tmp_path / "rows.csv", "1MB")
    require_room(tmp_path / "rows.csv", "10MB")
    require_room(tmp_path / "rows.csv", "1MB", ["id", "number"])
    with pytest.raises(SplitError, match=r"of 2 columns looks at .*fewer rows, or features\.$"):
        require_room(tmp_path / "rows.csv", "100kB", ["id", "number"])
    with pytest.raises(SplitError, match=r"of 8 columns looks at 5,000 rows"):
        require_room(tmp_path / "rows.csv.gz", "1MB")
    require_room(tmp_path / "rows.csv.gz", "10MB")
