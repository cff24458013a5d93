"""Rows that are locked away before anything is split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evenfold.splitters import BalancedGroupKFold, Holdout, KFold, SplitError

ROWS = np.zeros((40, 1))


@pytest.mark.parametrize(
    ("inner", "fraction", "groups", "message"),
    [
        (KFold(2), 0.01, None, "a holdout of 0.01 of 40 rows leaves too few on one side; pass more rows"),
        (BalancedGroupKFold(2), 0.5, np.arange(40) % 2, "a holdout of 0.5 of 2 groups leaves too few on one side"),
        (KFold(2), 1, None, "fraction=1; choose a number above 0 and below 1"),
        (KFold(2), 0.0, None, "fraction=0.0; choose a number above 0 and below 1"),
        (KFold(2), "half", None, "fraction='half'; choose a number above 0 and below 1"),
    ],
)
def test_a_holdout_leaves_a_row_and_a_group_on_each_side(inner: Any, fraction: Any, groups: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        Holdout(inner, fraction).split(ROWS, None, groups)


def test_the_smallest_holdouts_are_taken() -> None:
    """One row of forty, and one group of three."""
    assert Holdout(KFold(2), 0.02).locked(ROWS).size == 1
    groups = np.arange(39) % 3
    locked = Holdout(BalancedGroupKFold(2), 1 / 3).locked(ROWS[:39], None, groups)
    assert np.unique(groups[locked]).size == 1
