"""Rows that are locked away before anything is split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evenfold.splitters import (
    BalancedGroupKFold,
    ForwardChaining,
    FromSklearn,
    Holdout,
    KFold,
    Predefined,
    PredefinedPairs,
    SplitError,
)
from sklearn.model_selection import PredefinedSplit, check_cv

ROWS = np.zeros((40, 1))


@pytest.mark.parametrize(
    ("inner", "fraction", "groups", "message"),
    [
        (KFold(2), 0.99, None, "a holdout of 0.99 of 40 rows leaves too few on one side; pass more rows"),
        (BalancedGroupKFold(2), 0.5, np.arange(40) % 2, "a holdout of 0.5 of 2 groups leaves too few on one side"),
        (KFold(2), 1, None, "fraction=1; choose a number above 0 and below 1"),
    ],
)
def test_a_holdout_leaves_a_row_and_a_group_on_each_side(inner: Any, fraction: Any, groups: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        Holdout(inner, fraction).split(ROWS, None, groups)


@pytest.mark.parametrize(
    "inner",
    [
        PredefinedPairs([([0, 1, 2, 3], [4, 5, 6, 7])]),
        Predefined([0, 1] * 20),
        FromSklearn(PredefinedSplit([0, 1] * 20)),
        FromSklearn("sklearn.model_selection:PredefinedSplit", {"test_fold": [0, 1] * 20}),
        FromSklearn(check_cv([([0, 1, 2, 3], [4, 5, 6, 7])])),
    ],
)
def test_positions_among_all_rows_are_not_taken_for_positions_among_the_rest(inner: Any) -> None:
    with pytest.raises(SplitError, match=r"names rows by their position among all 40, and a holdout locks 8 of them;"):
        Holdout(inner, 0.2).split(ROWS)


def test_the_smallest_holdouts_are_taken() -> None:
    assert Holdout(KFold(2), 0.02).locked(ROWS).size == 1
    groups = np.arange(39) % 3
    locked = Holdout(BalancedGroupKFold(2), 1 / 3).locked(ROWS[:39], None, groups)
    assert np.unique(groups[locked]).size == 1


@pytest.mark.parametrize("inner", [KFold(4), BalancedGroupKFold(4), ForwardChaining(4)], ids=repr)
def test_the_number_of_splits_needs_no_rows_and_no_column_where_it_depends_on_none(inner: Any) -> None:
    assert Holdout(inner).get_n_splits() == 4
    assert Holdout(inner).get_n_splits(ROWS, np.arange(40) % 2) == 4
