"""Every strategy keeps every promise, at sizes that divide evenly, do not, and are as small as it can bear.

Each call of the suite tries one row more as well.
"""

from typing import Any

import numpy as np
import pytest
from cases import CASES
from evenfold.splitters import (
    BalancedGroupKFold,
    DrawSplitter,
    ForwardChaining,
    GroupStratifiedShuffleSplit,
    Holdout,
    PurgedKFold,
    Rows,
    SpatialBlockKFold,
    Splitter,
    Stream,
    all_strategies,
)
from evenfold.splitters.conformance import CHECKS, check_conformance


def sizes(splitter: Splitter) -> list[int]:
    """Return what a case is tried at: the first of its class at the larger size, the others, if any, at the smaller."""
    first, *others = (each for each in CASES if type(each) is type(splitter))
    return [30] if splitter is not first else [60] if others else [60, 30]


@pytest.mark.parametrize(
    ("splitter", "n"), [(splitter, n) for splitter in CASES for n in sizes(splitter)], ids=lambda value: repr(value)
)
def test_a_strategy_keeps_its_promises(splitter: Splitter, n: int) -> None:
    check_conformance(splitter, n)


@pytest.mark.parametrize(
    ("splitter", "n", "seed"),
    [
        (GroupStratifiedShuffleSplit(4), 23, 2),  # so few groups that every draw of them is the same
        (Holdout(BalancedGroupKFold(3), 0.3), 23, 1),
        (Holdout(ForwardChaining(2)), 60, 0),  # time alone decides
        (Holdout(PurgedKFold(3)), 61, 2),
        (Holdout(SpatialBlockKFold(2, block_size=3)), 23, 2),  # the rows of a block are locked together
    ],
    ids=repr,
)
def test_a_strategy_is_not_accused_of_what_its_rows_leave_no_room_for(splitter: Splitter, n: int, seed: int) -> None:
    check_conformance(splitter, n, seed)


class FewerDraws(DrawSplitter):
    """Train sets of ``m`` draws with replacement, beside a test set of ten rows."""

    promises = DrawSplitter.promises | {"with_replacement"}

    def __init__(self, n_splits: int = 5, *, m: int = 30, random_state: int = 0) -> None:
        self.n_splits = n_splits
        self.m = m
        self.place = object()  # a copy's is written otherwise
        self.random_state = random_state

    def rows(self, X: Any = None, *columns: Any, **roles: Any) -> Rows:
        """Return the rows of ``X``, which is a table and never a list."""
        return super().rows(np.zeros(X.shape), *columns, **roles)

    def draw(self, rows: Rows, stream: Stream) -> Any:
        """Return ``m`` rows, any of them again, of those that are not tested, and ten that are."""
        shuffled = stream.permutation(rows.n)
        return np.sort(shuffled[10:][stream.below(rows.n - 10, self.m)]), np.sort(shuffled[:10])


@pytest.mark.parametrize("splitter", [FewerDraws(), FewerDraws(2, m=3)], ids=repr)
def test_rows_may_be_trained_on_twice_by_promise(splitter: Splitter) -> None:
    check_conformance(splitter)


def test_every_strategy_has_a_case() -> None:
    missing = set(all_strategies()) - {type(splitter).__name__ for splitter in CASES}
    assert not missing, f"add a line for {sorted(missing)} to CASES in tests/cases.py"


def test_every_promise_has_a_check() -> None:
    promised = {promise for splitter in [*CASES, FewerDraws()] for promise in splitter.promises}
    checked = {check.promise for check in CHECKS} - {None}
    unchecked = sorted(promised - checked)
    assert not unchecked, (
        f"add a check of {unchecked} to splitters/conformance/promises.py, and a fault that it catches"
    )
    assert promised == checked
