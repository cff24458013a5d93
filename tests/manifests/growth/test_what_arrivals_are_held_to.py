"""To what a table that arrives is held: rows that were learnt from and are there, and the tables that joined before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests import Snapshot, decide, extend
from evenfold.manifests.growth.arrivals import check_arrival

SPEC = {"name": "rows", "columns": {"key": "id", "target": "y"}, "strategy": "KFold"}


def rows(n: int) -> pd.DataFrame:
    return pd.DataFrame({"id": range(n), "y": np.random.default_rng(0).normal(size=n)})


def grown(*ends: int) -> Any:
    """Return the manifest of rows up to the first end, to which those up to the others joined one by one."""
    manifest = decide(SPEC, rows(ends[0]))
    for end in ends[1:]:
        manifest = extend(manifest, rows(end)).manifest
    return manifest


def test_rows_that_were_deleted_before_have_not_vanished_again() -> None:
    left = rows(100).tail(95)
    manifest = extend(grown(100), left).manifest
    found = check_arrival(manifest, left.tail(94), Snapshot.of(manifest, left), gates={"vanished_rows": 0})
    (told,) = (each.figures for each in found.findings if each.check == "vanished_rows")
    assert told == {"rows": 1, "known": 95}


def test_rows_that_nothing_was_learnt_from_are_not_missed() -> None:
    """A table that was stopped brought them; the next one may be without them again, and those before may not."""
    first = grown(100)
    manifest = grown(100, 150)
    learnt = Snapshot.of(first, rows(100)).grown(manifest, 0)
    assert not check_arrival(manifest, rows(100), learnt, gates={"vanished_rows": 0}).failed
    found = check_arrival(manifest, rows(99), learnt, gates={"vanished_rows": 0})
    (told,) = (each.figures for each in found.findings if each.check == "vanished_rows")
    assert told == {"rows": 1, "known": 100}


def test_what_joins_is_compared_with_the_median_of_what_joined_and_not_with_the_first_table() -> None:
    """From three generations on."""
    manifest = grown(100, 110, 130, 190)
    told = check_arrival(manifest, rows(210), Snapshot.of(manifest, rows(190))).passed["new_rows"]
    assert told == "20 new rows, as many as usual (20, the median of 3)."
    manifest = grown(100, 110, 130)
    told = check_arrival(manifest, rows(150), Snapshot.of(manifest, rows(130))).not_asked["new_rows"]
    assert told == "2 generations joined so far, and 3 are needed"
