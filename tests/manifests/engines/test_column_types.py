"""Columns beside the key go through an out-of-core sort as they are: type, zone and value."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from evenfold.manifests import decide
from evenfold.manifests.engines.engine import in_order
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
