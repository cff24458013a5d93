"""The same folds and identities wherever a split is decided: in memory, or out of core by DuckDB."""

from __future__ import annotations

import datetime as dt
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
from evenfold.manifests import Manifest, StoredManifest, decide, join_rows, measure, write_join
from evenfold.manifests.engines.engine import in_order
from evenfold.manifests.store.write import describe
from evenfold.splitters import SplitError, Splitter
from tables import TYPES, quick_spec_of, spec_of, table

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
    """Columns of two classes and of more, with a locked part; seventy labels a row have no number of 64 bits."""
    columns = {"key": "text", "stratify": ["flag", "whole", "b"], "group": "group"}
    spec = QUICK | {"columns": columns, "holdout": 0.25}
    assert_same(out_of_core(spec, hard(), tmp_path / "few"), decide(spec, hard()))
    rng, names = np.random.default_rng(7), [f"label {j}" for j in range(70)]
    rows = pd.DataFrame(rng.integers(0, 2, (300, 70)), columns=names)
    rows["id"], rows["group"] = np.arange(300), rng.integers(0, 40, 300)
    spec = QUICK | {"columns": {"key": "id", "group": "group", "stratify": names}}
    assert_same(out_of_core(spec, rows, tmp_path / "many"), decide(spec, rows))


def test_tens_of_thousands_of_folds_by_hash_are_decided_alike_out_of_core(tmp_path: Path) -> None:
    """More folds than 16 bits number, of so few rows each that one could be empty."""
    rows = pd.DataFrame({"id": np.arange(400_000)})
    spec = {"columns": {"key": "id"}, "strategy": "HashSplit", "params": {"n_splits": 33_000, "salt": "a"}}
    assert out_of_core(spec, rows, tmp_path).split_id == decide(spec, rows).split_id


@pytest.mark.parametrize(
    "columns",
    [{"key": "id", "target": "number"}, {}, {"target": "label"}, {"target": "number", "group": "group"}],
    ids=" ".join,
)
def test_a_strategy_is_chosen_and_rows_without_a_key_stay_in_their_order_alike_out_of_core(
    columns: dict[str, str], tmp_path: Path
) -> None:
    spec = {"columns": columns} | (QUICK if "group" in columns else {})
    assert_same(out_of_core(spec, table(), tmp_path), decide(spec, table()))


def to_folder(frame: pd.DataFrame, folder: Path) -> str:
    (folder / "parts").mkdir()
    frame.iloc[:20].to_parquet(folder / "parts" / "a.parquet")
    frame.iloc[20:].to_parquet(folder / "parts" / "b.parquet")
    return str(folder / "parts" / "*.parquet")


def to_csv(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def to_database(frame: pd.DataFrame, folder: Path) -> str:
    with duckdb.connect(str(folder / "data.db")) as database:
        database.register("frame", frame)
        database.execute("create table rows as select * from frame")
    return f"duckdb://{folder}/data.db#rows"


def to_relation(frame: pd.DataFrame, folder: Path) -> Any:
    return duckdb.connect(to_database(frame, folder).removeprefix("duckdb://").partition("#")[0]).table("rows")


def to_memory_files(frame: pd.DataFrame, folder: Path) -> str:
    frame.to_parquet("memory://evenfold/data.parquet")
    return "memory://evenfold/data.parquet"


SOURCES: list[Callable[[pd.DataFrame, Path], Any]] = [
    to_folder,
    to_csv,
    to_database,
    to_relation,
    to_memory_files,
    lambda frame, folder: pl.from_pandas(frame).lazy().filter(pl.col("number") > -1),
    lambda frame, folder: pa.Table.from_pandas(frame),
]


@pytest.mark.parametrize(("source", "engine"), [*((source, "duckdb") for source in SOURCES), (to_database, "auto")])
def test_rows_may_lie_anywhere(source: Callable[..., Any], engine: Any, tmp_path: Path) -> None:
    stored = decide(GROUPED, source(table(), tmp_path), engine=engine, to=tmp_path / "splits")
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


def test_parts_of_different_types_are_not_sorted_as_one_table(tmp_path: Path) -> None:
    parts = iter([pa.table({"id": [2, 1], "y": [1, 2]}), pa.table({"id": [3], "y": [1.5]})])
    with pytest.raises(SplitError, match=r"column 'y' is int64 in the first rows and double in later ones; declare"):
        list(in_order(parts, ["id"], tmp_path, 1 << 28))


def test_names_that_differ_in_case_alone_are_two_columns(tmp_path: Path) -> None:
    rows = table()
    rows = rows.assign(ID=rows["id"].to_numpy()[::-1], Number=rows["number"])
    spec = {"columns": {"key": ["flag", "Id", "ID"], "group": "group", "target": "Number", "stratify": ["number"]}}
    stored = out_of_core(spec, rows.assign(Id=rows["id"] % 3), tmp_path)
    assert_same(stored, decide(spec, rows.assign(Id=rows["id"] % 3)))
    write_join(stored, rows.assign(Id=rows["id"] % 3), 0, "test", tmp_path / "one.parquet", memory="20kB")
    assert pq.read_table(tmp_path / "one.parquet").equals(
        join_rows(stored.rows, rows.assign(Id=rows["id"] % 3), 0, "test")
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.assign(id=f["id"].mask(f.index < 3, f["id"].iloc[3])), r"not unique: 3 of 97 rows repeat"),
        (lambda f: f.assign(id=f["id"].astype("Int64").mask(f.index < 3)), r"key column 'id' is missing in 3 of 97"),
        (lambda f: f.assign(number=f["number"].mask(f.index < 2)), r"column 'number' is missing .* in 2 of 97 rows"),
        (lambda f: f.assign(number=f["number"].mask(f.index < 2, np.inf)), r"column 'number' is infinite in 2 of 97"),
        (lambda f: f.assign(number=f["number"].mask(f.index < 2, -1e151)), r"numbers beyond 1e\+150 in 2 of"),
        (
            lambda f: f.assign(group=f["group"].mask(f.index > 95)),
            r"'group' is missing .* in 1 of 97 .* stand alone",
        ),
        (lambda f: f.iloc[:0], r"0 rows"),
        (lambda f: f.assign(group="one"), r"all 97 rows are one group"),
        (lambda f: f.drop(columns="group"), r"no column 'group'"),
    ],
)
def test_rows_that_cannot_be_split_leave_nothing_behind(
    spoil: Callable[..., Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SplitError, match=message):
        out_of_core(GROUPED, spoil(table()), tmp_path / "splits")
    assert not list(tmp_path.iterdir())


def test_too_little_memory_is_said_with_the_size(tmp_path: Path) -> None:
    spec = {"columns": {"key": "id", "target": "number"}, "types": TYPES}
    with pytest.raises(SplitError, match=r"looks at 97 rows at once, which takes about .* GB; allow more|are allowed"):
        out_of_core(spec, table(), tmp_path, memory="1kB")
    for size in ("much", "1.2.3GB", "."):
        with pytest.raises(SplitError, match="write a size such as '2GB'"):
            out_of_core(spec, table(), tmp_path, memory=size)
    with pytest.raises(SplitError, match="pass the folder as to="):
        decide(GROUPED, table(), engine="duckdb")  # type: ignore[call-overload]


KILLED = """
import sys, time
from evenfold.manifests.engines import spill
spill._Column.array = lambda self: (print("spilled", flush=True), time.sleep(60))
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
