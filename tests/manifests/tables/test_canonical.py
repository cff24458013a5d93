"""Columns in canonical form, without a Python object for every row."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
from evenfold.manifests import canonical_table
from evenfold.manifests.tables.canonical import coded, to_numpy
from evenfold.splitters.encoding import encode


def test_a_text_is_composed_on_its_own_whatever_stands_beside_it() -> None:
    apart, together = ["é", "e", "\u0301x"], ["é", "e\u0301x", "e"]
    for texts, composed in ((apart, apart), (together, ["é", "éx", "e"])):
        table = canonical_table(pa.table({"key": texts}), ["key"], {})
        assert table.column("key").to_pylist() == composed


def test_codes_of_a_column_are_those_of_its_python_values() -> None:
    moment = dt.datetime(2024, 5, 1, 12)
    for values in (
        ["b", "é", "b"],
        [3, -1, 3],
        [0.5, 0.0, 0.5],
        [True, False, True],
        [moment.date()] * 3,
        [moment] * 3,
    ):
        column = canonical_table(pa.table({"value": values}), ["value"], {}).column("value")
        codes, levels = encode(to_numpy(column), "value")
        assert (coded(column).codes.tolist(), coded(column).levels) == (codes.tolist(), levels)
