"""Columns beside the key go through an out-of-core sort as they are: type, zone and value."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from evenfold.manifests import decide, fits_in_memory, require_room
from evenfold.manifests.engines.engine import in_order
from evenfold.manifests.tables import csv_files
from evenfold.manifests.tables.csv_files import about_rows
from evenfold.splitters import SplitError
from tables import table

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
    pa.nulls(3),
]


@pytest.mark.parametrize("empty", [False, True])
def test_a_sort_out_of_core_changes_no_type_and_no_value(empty: bool, tmp_path: Path) -> None:
    rows = pa.table({"place": [3, 2, 1], **{str(i): column for i, column in enumerate(COLUMNS)}})
    rows = rows.slice(0, 0) if empty else rows
    in_place = pa.concat_tables(in_order(iter([rows]), ["place"], tmp_path, 1 << 28))
    assert in_place.schema.equals(rows.schema)
    assert in_place.to_pylist() == rows.to_pylist()[::-1]


def test_an_ordered_category_is_its_value_after_a_sort(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays([1, 0], ["low", "high"], ordered=True)
    (sorted_rows,) = in_order(iter([pa.table({"place": [2, 1], "c": column})]), ["place"], tmp_path, 1 << 28)
    assert sorted_rows.equals(pa.table({"place": [1, 2], "c": ["low", "high"]}))


def test_categories_of_parts_are_counted_together(tmp_path: Path) -> None:
    """Each part's fit into 8 bits, those of all do not; values are as they were."""
    narrow = pa.dictionary(pa.int8(), pa.string())
    parts = [
        pa.table(
            {
                "place": range(start, start + 100),
                "c": pa.array([f"shop {i}" for i in range(start, start + 100)]).dictionary_encode().cast(narrow),
            }
        )
        for start in (100, 0)
    ]
    rows = pa.concat_tables(in_order(iter(parts), ["place"], tmp_path, 1 << 28))
    assert rows.schema.types == [pa.int64(), pa.dictionary(pa.int32(), pa.string())]
    assert rows.to_pylist() == parts[1].to_pylist() + parts[0].to_pylist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
        pa.array([{"a": dt.timedelta(1)}, None]),
        pa.DictionaryArray.from_arrays([0, 1], pa.array([1.5, 2.25], pa.float16())),
    ],
    ids=lambda column: str(column.type),
)
def test_what_no_sort_out_of_core_can_hold_is_refused_by_name(column: pa.Array, tmp_path: Path) -> None:
    rows = pa.table({"place": [2, 1], "odd one": column})
    with pytest.raises(
        SplitError, match=r"column 'odd one' is .*, which cannot be sorted out of core; .* allow more mem"
    ):
        list(in_order(iter([rows]), ["place"], tmp_path, 1 << 28))


def test_keys_and_groups_of_any_finite_number_are_taken_out_of_core(tmp_path: Path) -> None:
    rows = table().assign(group=lambda f: np.where(f["id"] % 2, 1e200, f["id"] % 7.0), id=lambda f: f["id"] * 1e160)
    spec = {"columns": {"key": "id", "group": "group"}, "params": {"n_splits": 2}}
    assert decide(spec, rows, engine="duckdb", to=tmp_path).split_id == decide(spec, rows).split_id


def test_a_column_that_begins_with_a_megabyte_of_nothing_is_declared_out_of_core(tmp_path: Path) -> None:
    n = 130_000  # of nine bytes
    lines = ["id,y,z\n", *(f"{i},{i / 2 if i > n - 99 else ''},{i % 3}\n" for i in range(n))]
    (tmp_path / "data.csv").write_text("".join(lines))
    spec = {"columns": {"key": "id", "target": "y"}, "strategy": "SortedStratifiedKFold"}
    with pytest.raises(SplitError, match=r"'y' has no value in any row that was read.*declare its type"):
        decide(spec, tmp_path / "data.csv", engine="duckdb", to=tmp_path / "splits")
    with pytest.raises(SplitError, match=r"'y' is missing .*in 129,902 of 130,000 rows"):
        decide(spec | {"types": {"y": "float"}}, tmp_path / "data.csv", engine="duckdb", to=tmp_path / "splits")


def test_what_is_wrong_in_later_rows_of_a_file_is_a_sentence_out_of_core(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("id,y\n" + "".join(f"{i},{i}\n" for i in range(100_000)) + "100000,a lot\n")
    with pytest.raises(SplitError, match=r"^[^\n]*data.csv cannot be read as CSV .*declare the column's type\.$"):
        decide(
            {"columns": {"key": "id", "target": "y"}}, tmp_path / "data.csv", engine="duckdb", to=tmp_path / "splits"
        )


def test_the_room_that_a_model_needs_is_judged_of_csv_and_of_named_columns(tmp_path: Path) -> None:
    rows = table(5_000).drop(columns="when")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_csv(tmp_path / "rows.csv.gz", index=False)
    with pytest.raises(
        SplitError, match=r"about (4,9\d\d|5,0\d\d) rows of 8 columns take about .* GB .*name fewer features"
    ):
        require_room(tmp_path / "rows.csv", "1MB")
    require_room(tmp_path / "rows.csv", "10MB")
    require_room(tmp_path / "rows.csv", "1MB", ["id", "number"])
    with pytest.raises(SplitError, match=r"rows of 2 columns take .*pass a table with fewer rows"):
        require_room(tmp_path / "rows.csv", "100kB", ["id", "number"])
    with pytest.raises(SplitError, match=r"about 5,000 rows of 8 columns"):
        require_room(tmp_path / "rows.csv.gz", "1MB")
    require_room(tmp_path / "rows.csv.gz", "10MB")


@pytest.fixture(scope="module")
def numbers() -> bytes:
    """Return 120,000 rows of digits as CSV, which are packed in several blocks by whatever packs them."""
    drawn = np.random.default_rng(0).normal(size=120_000)
    return ("row,number\n" + "".join(f"{row:06},{number:.9f}\n" for row, number in enumerate(drawn))).encode()


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_the_rows_of_a_csv_are_judged_by_how_tightly_its_beginning_is_packed(
    tmp_path: Path, suffix: str, numbers: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"rows.csv{suffix}"
    with pa.output_stream(str(file), compression="detect") as stream:
        stream.write(numbers)
    assert about_rows([file]) == pytest.approx(120_000, rel=0.02)
    monkeypatch.setattr(csv_files, "UNPACKED_BYTES", 1_000_000)
    assert about_rows([file]) == pytest.approx(120_000, rel=0.5)
    assert not fits_in_memory(file, ["row"], "1MB")
