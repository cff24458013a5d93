"""What is kept of a table: as much as the next one has to be compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from evenfold.manifests.growth.snapshots import types_of
from evenfold.manifests.tables.read import schema_of


def weeks(n: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"id": range(100 * n), "y": random.normal(size=100 * n), "x": random.normal(size=100 * n)})
    return rows.assign(city=np.where(rows["id"] < 100, "Rome", "Oslo"))


@pytest.mark.parametrize("empty", [None, np.nan, pd.NaT, pa.nulls(200, pa.int64())])
def test_a_column_without_a_value_has_no_type_whatever_holds_it(empty: Any, tmp_path: Path) -> None:
    """Neither in a frame nor in a file whose schema says what it would hold; one value in the last row is one."""
    if isinstance(empty, pa.Array):
        empty = empty.to_pandas(types_mapper=lambda _: pd.Int64Dtype())
    frame = weeks(2).assign(gone=empty, late=np.where(weeks(2)["id"] == 199, 1.0, np.nan))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    for source in (pa.Table.from_pandas(frame), str(tmp_path / "rows.parquet")):
        assert types_of(source) == {"id": "int", "y": "float", "x": "float", "city": "text", "late": "float"}


def test_types_of_many_columns_open_a_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of many files is listed for each opening; 24 files of 400 columns took 25 s."""
    opened: list[Any] = []

    def counted(source: Any) -> pa.Schema:
        opened.append(source)
        return schema_of(source)

    monkeypatch.setattr("evenfold.manifests.growth.snapshots.schema_of", counted)
    pd.DataFrame({f"x{i}": [1.0, 2.0] for i in range(30)}).to_parquet(tmp_path / "rows.parquet")
    assert len(types_of(str(tmp_path / "rows.parquet"))) == 30
    assert len(opened) == 1
