"""Whether a table looks like the next one: by what its recipe may read, and against what was learnt from."""

from pathlib import Path
from typing import Any

import pytest
from evenfold.estimates import ModelSpec
from evenfold.manifests import Snapshot, decide, write_manifest
from evenfold.tasks import Home
from evenfold.tasks.arrivals import check_table, snapshot_of
from small import RIDGE, SPEC, small


@pytest.mark.parametrize(
    ("recipe", "stopped"),
    [
        ({}, ["lost_columns"]),
        ({"exclude": ["b"]}, []),
        ({"exclude": ["a"]}, ["lost_columns"]),
        ({"features": ["a"]}, []),
        ({"features": ["b"]}, ["lost_columns"]),
    ],
    ids=str,
)
def test_a_column_that_is_gone_stops_a_table_where_the_recipe_may_read_it(
    recipe: dict[str, Any], stopped: list[str], home: Home, tmp_path: Path
) -> None:
    rows, file = small(40), tmp_path / "rows.parquet"
    manifest = decide(SPEC, rows)
    place = snapshot_of(manifest.split_id)
    place.parent.mkdir(parents=True)
    Snapshot.of(manifest, rows).write(place)
    rows.drop(columns="b").to_parquet(file)
    found = check_table.fn(str(write_manifest(manifest, home.shared)), str(file), recipe=ModelSpec.of(RIDGE | recipe))
    assert found.failed == stopped
