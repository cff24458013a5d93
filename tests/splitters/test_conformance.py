"""Every strategy keeps every promise, at sizes that divide evenly, do not, and are as small as it can bear.

Each call of the suite tries one row more as well.
"""

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cases import CASES
from evenfold.splitters import (
    BalancedGroupKFold,
    ForwardChaining,
    GroupStratifiedShuffleSplit,
    Holdout,
    KFold,
    PurgedKFold,
    Rows,
    SpatialBlockKFold,
    Splitter,
    all_strategies,
)
from evenfold.splitters.conformance import CHECKS, check_conformance, data_for


def sizes(splitter: Splitter) -> list[int]:
    """Return what a case is tried at: a complete search, of which seconds are made of every few rows, at the least."""
    return [30] if splitter.get_params(deep=False).get("effort") == "max" else [60, 30]


@pytest.mark.parametrize(
    ("splitter", "n"), [(splitter, n) for splitter in CASES for n in sizes(splitter)], ids=lambda value: repr(value)
)
def test_a_strategy_keeps_its_promises(splitter: Splitter, n: int) -> None:
    """A splitter does what each check that applies to it says; the message names those that fail."""
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
    """Few rows allow one good split alone, and a share can be missed by as much as must stay together."""
    check_conformance(splitter, n, seed)


def test_every_strategy_has_a_case() -> None:
    """No exported strategy escapes the suite."""
    missing = set(all_strategies()) - {type(splitter).__name__ for splitter in CASES}
    assert not missing, f"add a line for {sorted(missing)} to CASES in tests/cases.py"


def test_every_promise_has_a_check() -> None:
    """A word nobody checks is no promise, and a check that nothing promises is no use."""
    promised = {promise for splitter in CASES for promise in splitter.promises}
    checked = {check.promise for check in CHECKS} - {None}
    unchecked = sorted(promised - checked)
    assert not unchecked, (
        f"add a check of {unchecked} to splitters/conformance/promises.py, and a fault that it catches"
    )
    assert promised == checked


def test_what_another_thread_draws_once_is_not_held_against_a_splitter() -> None:
    """A client's thread that waits for a random while may draw from the global state during any split."""
    waiting = [random.random]

    class Meanwhile(KFold):
        """Another thread draws in its first split."""

        def pairs(self, rows: Rows) -> Iterator[tuple[Any, Any]]:
            if waiting:
                thread = threading.Thread(target=waiting.pop())
                thread.start()
                thread.join()
            return super().pairs(rows)

    (alone,) = (each for each in CHECKS if each.name.startswith("leaves the global random state alone"))
    splitter = Meanwhile()
    assert alone.holds(splitter, data_for(splitter, 60))
    assert not waiting
