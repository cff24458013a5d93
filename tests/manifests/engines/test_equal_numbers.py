"""Numbers that many rows share are cut into the same bins wherever a split is decided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenfold.manifests import decide
from evenfold.manifests.store.write import describe
from tables import TYPES, shuffled, table

TIED: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda at: np.where(at % 4, 0.0, at / 8),
    "zeros between others": lambda at: np.where(at % 3, -0.0, at - 40.0),
    "five numbers": lambda at: at % 5 / 4,
    "rounded": lambda at: np.round(at**2 / 900.0),
    "one number": lambda at: np.full(at.size, 0.5),
}
PARTS = {"parts": {"train": 0.7, "validation": 0.3}, "effort": 1}


FOLDED, PARTED = ("BalancedGroupKFold", {"effort": 1}, 0.2), ("BalancedGroupSplit", PARTS, None)


@pytest.mark.parametrize(
    ("tied", "strategy", "params", "holdout"), [(tied, *FOLDED) for tied in TIED] + [("zeros", *PARTED)]
)
def test_equal_numbers_are_cut_alike_out_of_core(
    tied: str, strategy: str, params: Any, holdout: float | None, tmp_path: Path
) -> None:
    rows = table()
    rows["number"] = TIED[tied](np.arange(len(rows)))
    columns = {"key": "id", "group": "group", "target": "number"}
    spec = {"columns": columns, "types": TYPES, "strategy": strategy, "params": params, "holdout": holdout}
    stored = decide(spec, shuffled(rows), engine="duckdb", memory="1GB", to=tmp_path)
    assert stored.header == describe(decide(spec, rows)) | {"files": stored.header["files"]}
