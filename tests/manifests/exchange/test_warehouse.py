"""Folds as SQL come out of a warehouse as they stand in the manifest."""

import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import Manifest, decide, export, extend, warehouse_sql
from evenfold.splitters import SplitError
from servers import postgres


def rows(n: int = 500) -> pd.DataFrame:
    """Return rows with keys and groups of several types, one of them hard to quote."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 40, n)
    return pd.DataFrame(
        {
            "id": rng.permutation(n) - 100,
            "text": [f"clé '{i}' \\ \"日本\"" for i in rng.permutation(n)],
            "group": [f"it's \\ {g} ü" for g in group],
            "number": group * 10**15,
            "day": pd.to_datetime("1969-12-01") + pd.to_timedelta(group, unit="D"),
            "y": rng.normal(size=n).round(3),
        }
    )


SPECS: list[dict[str, Any]] = [
    {"columns": {"key": "id"}, "strategy": "HashSplit", "params": {"salt": "it's \\"}},
    {"columns": {"key": ["text", "id"]}, "strategy": "HashSplit", "params": {"n_splits": 30, "salt": "a"}},
    {"columns": {"key": "text"}, "strategy": "HashSplit", "params": {"parts": {"train": 0.7, "test": 0.3}}},
    {"columns": {"key": "id", "group": "group", "target": "y"}, "holdout": 0.2},
    {"columns": {"key": "id", "group": "number", "target": "y"}},
    {"columns": {"key": "id", "group": "day", "target": "y"}, "types": {"day": "date"}},
]


def counts_of(manifest: Manifest) -> dict[int, int]:
    values, counts = np.unique(manifest.codes, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def in_duckdb(sql: str, data: Path) -> dict[int, int]:
    with duckdb.connect() as database:
        database.execute(f"CREATE VIEW rows AS SELECT * FROM read_parquet('{data}')")
        *before, select = sql.rsplit("SELECT ", 1)
        database.execute("".join(before) or "SELECT 1")
        folds = database.execute(f"SELECT fold, count(*) FROM (SELECT {select.rstrip().rstrip(';')}) GROUP BY fold")
        return dict(folds.fetchall())


def folds_in_duckdb(sql: str, frame: pd.DataFrame) -> dict[Any, Any]:
    with duckdb.connect() as database:
        database.register("rows", frame)
        *before, select = sql.rsplit("SELECT ", 1)
        database.execute("".join(before) or "SELECT 1")
        return dict(database.execute(f"SELECT id, fold FROM (SELECT {select.rstrip().rstrip(';')})").fetchall())


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        pytest.skip("PostgreSQL is not installed")
    with postgres(tmp_path_factory.mktemp("postgres")) as port:
        yield port


def psql(port: int, sql: str) -> str:
    place = f"host=127.0.0.1 port={port} user=evenfold dbname=postgres"
    command = ["psql", place, "-qAt", "-v", "ON_ERROR_STOP=1"]
    return subprocess.run(command, input=sql, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("spec", SPECS)
def test_duckdb_comes_to_the_folds_of_the_manifest(spec: dict[str, Any], tmp_path: Path) -> None:
    manifest = decide(spec, rows())
    rows().to_parquet(tmp_path / "rows.parquet")
    made = export(manifest, "sql", tmp_path / "folds.sql")
    assert in_duckdb(Path(made.path).read_text(), tmp_path / "rows.parquet") == counts_of(manifest)


@pytest.mark.parametrize("spec", SPECS[1::2])
def test_postgresql_comes_to_the_folds_of_the_manifest(spec: dict[str, Any], server: int, tmp_path: Path) -> None:
    manifest = decide(spec, rows())
    rows().to_csv(tmp_path / "rows.csv", index=False)
    create = 'CREATE TABLE rows (id bigint, text text, "group" text, number bigint, day date, y float8);\n'
    load = f"\\copy rows FROM '{tmp_path / 'rows.csv'}' CSV HEADER\n"
    *before, select = warehouse_sql(manifest, "postgres").rsplit("SELECT ", 1)
    counting = f"SELECT fold, count(*) FROM (SELECT {select.rstrip().rstrip(';')}) AS s GROUP BY fold;"
    dropped = 'DROP TABLE IF EXISTS rows, "split_folds";\n'
    told = psql(server, dropped + create + load + "".join(before) + counting)
    assert {int(a): int(b) for a, b in (line.split("|") for line in told.split())} == counts_of(manifest)


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_spark_comes_to_the_folds_of_the_manifest(tmp_path: Path) -> None:
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install 'evenfold[spark]'")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    table = pa.Table.from_pandas(rows()).replace_schema_metadata(None)
    day = table.schema.get_field_index("day")
    pq.write_table(table.set_column(day, "day", table.column(day).cast(pa.date32())), tmp_path / "rows.parquet")
    spark.read.parquet(str(tmp_path / "rows.parquet")).createOrReplaceTempView("rows")
    for spec in SPECS:
        manifest = decide(spec, rows())
        *before, select = warehouse_sql(manifest, "spark").rsplit("SELECT ", 1)
        for statement in "".join(before).split(";\n")[:-1]:
            values = statement.partition("VALUES\n")[2]
            if values:  # a view in place of a table: this session has no warehouse
                names = "group_value, fold"
                spark.sql(f"SELECT * FROM VALUES {values} AS t({names})").createOrReplaceTempView("split_folds")
        found = spark.sql(
            f"SELECT fold, count(*) AS n FROM (SELECT {select.rstrip().rstrip(';')}) GROUP BY fold"
        ).collect()
        assert {int(row["fold"]): row["n"] for row in found} == counts_of(manifest)


@pytest.mark.parametrize("written", [lambda i: f"{i:04d}", float])
def test_keys_declared_whole_numbers_are_hashed_as_such_however_they_are_written(written: Any) -> None:
    frame = pd.DataFrame({"id": [written(i) for i in range(300)]})
    manifest = decide({"columns": {"key": "id"}, "strategy": "HashSplit", "types": {"id": "int"}}, frame)
    folds = folds_in_duckdb(warehouse_sql(manifest, "duckdb"), frame)
    assert [folds[written(i)] for i in range(300)] == manifest.codes.tolist()


def test_text_in_another_form_of_unicode_has_its_fold(server: int) -> None:
    frame = pd.DataFrame({"id": [f"cafe\u0301 {i}" if i % 2 else f"caf\u00e9 {i}" for i in range(200)]})
    frame["g"] = [f"cafe\u0301 {i % 20}" if i % 3 else f"caf\u00e9 {i % 20}" for i in range(200)]
    values = ", ".join(f"('{key}', '{group}')" for key, group in frame.itertuples(index=False))
    table = f'DROP TABLE IF EXISTS rows, "split_folds"; CREATE TABLE rows AS SELECT * FROM (VALUES {values}) v (id, g);'
    for group, strategy in ((None, "HashSplit"), ("g", "BalancedGroupKFold")):
        manifest = decide({"columns": {"key": "id", "group": group}, "strategy": strategy}, frame)
        known = dict(zip(manifest.keys["id"].to_pylist(), manifest.codes.tolist(), strict=True))
        folds = folds_in_duckdb(warehouse_sql(manifest, "duckdb"), frame)
        assert {unicodedata.normalize("NFC", key): fold for key, fold in folds.items()} == known
        *before, select = warehouse_sql(manifest, "postgres").rsplit("SELECT ", 1)
        counting = f"SELECT fold, count(*) FROM (SELECT {select.rstrip().rstrip(';')}) AS s GROUP BY fold;"
        told = psql(server, table + "".join(before) + counting)
        assert {int(a): int(b) for a, b in (line.split("|") for line in told.split())} == counts_of(manifest)


def test_a_row_of_no_known_group_is_seen_to_have_no_fold(tmp_path: Path) -> None:
    manifest = decide(SPECS[3], rows())
    more = pd.concat([rows(), rows(1).assign(id=-500, group="unheard of"), rows(1).assign(id=-501, group=None)])
    folds = folds_in_duckdb(warehouse_sql(manifest, "duckdb"), more)
    assert len(folds) == 502
    assert {key for key, fold in folds.items() if fold is None} == {-500, -501}
    assert "NFC" in export(manifest, "sql", tmp_path / "folds.sql", dialect="snowflake").note
    assert "NFC" not in export(manifest, "sql", tmp_path / "folds.sql", dialect="postgres").note


def test_what_no_rule_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SplitError, match="follow from no rule and no table of groups; export to csv or spark"):
        warehouse_sql(decide({"columns": {"key": "id", "target": "y"}}, rows()), "duckdb")
    grown = extend(decide(SPECS[0], rows()), rows().iloc[:-5]).manifest
    with pytest.raises(SplitError, match="deleted or quarantined"):
        export(grown, "sql", tmp_path / "folds.sql")
    assert not list(tmp_path.iterdir())
    frozen = decide(SPECS[0] | {"on_new_rows": "freeze"}, rows().iloc[:-5])
    assert "SELECT" in warehouse_sql(frozen, "duckdb")
    with pytest.raises(SplitError, match="the manifest holds 5 rows whose fold is not that of the key"):
        warehouse_sql(extend(frozen, rows()).manifest, "duckdb")
