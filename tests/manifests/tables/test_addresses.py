"""Data behind an address are read as a file's are, and are known to have changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import decide, read_table
from evenfold.manifests.tables.read import opened, source_of, stamp
from evenfold.splitters import SplitError
from fsspec.implementations.memory import MemoryFileSystem

ROWS = pa.table({"id": np.arange(500)[::-1].copy(), "g": np.arange(500) % 40, "y": np.sqrt(np.arange(500))})
SPEC = {"columns": {"key": "id", "group": "g", "target": "y"}}


@pytest.fixture
def bucket() -> Iterator[str]:
    """Yield the address of a folder of two Parquet objects, and of something that is none."""
    store = fsspec.filesystem("memory")
    for number in range(2):
        with store.open(f"/rows/part-{number}.parquet", "wb") as file:
            pq.write_table(ROWS.slice(250 * number, 250), file)
    store.pipe("/rows/_SUCCESS", b"")
    yield "memory://rows"
    store.rm("/rows", recursive=True)


@pytest.fixture
def database(tmp_path: Path) -> str:
    with duckdb.connect(tmp_path / "base.db") as connection:
        connection.register("rows", ROWS)
        connection.execute("create table flights as select * from rows")
    return f"duckdb://{tmp_path}/base.db#flights"


@pytest.fixture(params=["bucket", "database"])
def address(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def test_a_table_behind_an_address_is_the_table(address: str) -> None:
    assert read_table(address).equals(ROWS)
    assert read_table(address, ["y"]).equals(ROWS.select(["y"]))
    assert source_of(address).names == ROWS.column_names
    assert source_of(address).schema == ROWS.schema
    blocks = list(source_of(address).batches(["id"], rows=100))
    assert all(block.num_rows <= 100 for block in blocks)
    assert pa.concat_tables(blocks).equals(ROWS.select(["id"]))
    with pytest.raises(SplitError, match="nowhere"):
        read_table(address, ["nowhere"])


def test_an_address_is_split_as_its_rows_are_in_memory_and_out_of_core(address: str, tmp_path: Path) -> None:
    wanted = decide(SPEC, ROWS).split_id
    assert decide(SPEC, address).split_id == wanted
    assert decide(SPEC, address, engine="duckdb", memory="1MB", to=tmp_path).split_id == wanted


def beside_each_other(folder: Path, **tables: pa.Table) -> tuple[Path, str]:
    for name, part in tables.items():
        pq.write_table(part, folder / name.replace("_", "."))
    return folder, f"file://{folder}"


def test_objects_of_other_types_are_read_as_files_are(tmp_path: Path) -> None:
    whole = pa.table({"id": np.arange(50), "y": np.arange(50)})
    parts = pa.table({"id": np.arange(50, 90), "y": np.arange(40) / 2})
    folder, address = beside_each_other(tmp_path, a_parquet=whole, b_PARQUET=parts)
    assert read_table(address).sort_by("id").equals(read_table(folder).sort_by("id"))
    assert sum(part.num_rows for part in source_of(address).batches(["y"])) == 90
    spec = {"columns": {"key": "id", "target": "y"}}
    wanted = decide(spec, folder).split_id
    assert decide(spec, address, engine="duckdb", memory="1MB", to=tmp_path / "splits").split_id == wanted


@pytest.mark.parametrize("wrong", ["memory://nowhere/rows.parquet", "memory://nowhere/*.parquet", "nothing://rows"])
def test_an_address_without_rows_is_a_sentence(wrong: str) -> None:
    with pytest.raises(SplitError, match=r"holds no Parquet file|cannot be read"):
        read_table(wrong)


def test_rows_that_are_written_again_behind_an_address_are_another_version(bucket: str) -> None:
    known = stamp(bucket)
    assert stamp(bucket) == known
    store = fsspec.filesystem("memory")
    store.copy("/rows/part-0.parquet", "/rows/part-2.parquet")
    more = stamp(bucket)
    store.rm("/rows/part-0.parquet")
    assert len({known, more, stamp(bucket)}) == 3


class Remembering(MemoryFileSystem):
    """A store whose client keeps what it once listed, as that of s3 does."""

    protocol = "remembering"
    listed: dict[str, Any] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("remembering:/")))

    def find(self, path: str, *args: Any, **options: Any) -> Any:
        """Return what lies below a path, or lay there when it was asked for first."""
        return self.listed.setdefault(path, super().find(path, *args, **options))

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listed.clear()


def test_what_a_store_listed_before_is_listed_anew(bucket: str) -> None:
    fsspec.register_implementation("remembering", Remembering)
    known = stamp("remembering://rows")
    fsspec.filesystem("memory").copy("/rows/part-0.parquet", "/rows/part-2.parquet")
    assert stamp("remembering://rows") != known
    assert opened("remembering://rows").n_rows == 750


def test_a_database_that_is_written_to_is_another_version(database: str) -> None:
    known = stamp(database)
    with duckdb.connect(database.removeprefix("duckdb://").partition("#")[0]) as connection:
        connection.execute("insert into flights select 501, 1, 1.0")
    assert stamp(database) != known
    assert read_table(database).num_rows == 501


def test_a_deployed_run_reads_no_address_outside_its_roots(
    database: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    for address in (database, bucket):
        with pytest.raises(SplitError, match="not below a folder that a deployed run may read"):
            read_table(address)
    monkeypatch.setenv("EVENFOLD_DATA_ROOTS", f"{tmp_path},memory://rows")
    assert read_table(database).equals(ROWS)
    assert read_table(bucket).equals(ROWS)
