"""What is kept of a table: as much as the next one, or the next batch, has to be compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from evenfold.manifests import Snapshot, check_arrival, decide, extend
from evenfold.manifests.growth.snapshots import types_of

SPEC = {"name": "weeks", "columns": {"key": "id", "target": "y"}, "strategy": "KFold"}


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


def test_a_batch_adds_to_what_is_known_of_the_rows_before_it() -> None:
    """Its values are no news in the next table, its targets are known, and columns that it lacks are still missed."""
    first = weeks(1)
    manifest = decide(SPEC, first)
    batch = weeks(2).tail(100).drop(columns="x").assign(extra=1.0)
    later = extend(manifest, batch, batch=True).manifest
    known = Snapshot.of(manifest, first).grown(later, 0).joined_by(Snapshot.of(later, batch))
    assert known.split_id == later.split_id
    assert known.target is not None
    assert known.target.null_count == 0
    whole = weeks(2).assign(extra=1.0)
    assert check_arrival(later, whole, known).findings == []
    whole.loc[150, "y"] += 1
    (told,) = check_arrival(later, whole.drop(columns="x"), known, gates={"changed_targets": "off"}).findings
    assert told.figures["gone"] == ["x"]
