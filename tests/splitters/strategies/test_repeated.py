"""Repeats: the first is the strategy itself, the others differ, and what cannot be repeated says so."""

from typing import Any

import numpy as np
import pytest
from evenfold.splitters import (
    BalancedGroupKFold,
    Bootstrap,
    FractionalStratifiedSplit,
    KFold,
    LeaveOneOut,
    Repeated,
    SplitError,
)

ROWS = np.zeros((53, 1))


def test_repeat_0_is_the_strategy_itself() -> None:
    labels = Repeated(KFold(5, random_state=7), 4).assign(ROWS)
    assert labels.shape == (53, 4)
    assert labels.dtype == np.int16
    assert np.array_equal(labels[:, 0], KFold(5, random_state=7).assign(ROWS))
    assert np.array_equal(labels[:, :2], Repeated(KFold(5, random_state=7), 2).assign(ROWS)), "a further one moves none"


def test_of_few_groups_the_first_repeat_is_the_best_and_the_others_are_other_partitions() -> None:
    groups = np.repeat(np.arange(12), [3, 5, 8, 9, 13, 14, 20, 21, 22, 35, 40, 41])
    labels = Repeated(BalancedGroupKFold(3), 10).assign(groups, groups=groups)
    assert np.array_equal(labels[:, 0], BalancedGroupKFold(3).assign(groups, groups=groups))
    assert len({BalancedGroupKFold(3, random_state=seed).report(groups, groups=groups).cost for seed in range(5)}) == 1
    assert len({(one[:, None] == one).tobytes() for one in labels.T}) == 10


def test_a_named_strategy_takes_the_seed_unless_it_has_its_own() -> None:
    named = {"strategy": "KFold", "params": {"n_splits": 4}}
    assert np.array_equal(Repeated(named, 1, random_state=9).assign(ROWS)[:, 0], KFold(4, random_state=9).assign(ROWS))
    seeded = {"strategy": "KFold", "params": {"random_state": 2}}
    assert np.array_equal(Repeated(seeded, 1, random_state=9).assign(ROWS)[:, 0], KFold(random_state=2).assign(ROWS))
    pathed = {"strategy": "evenfold.splitters.strategies.kfold:KFold"}
    assert np.array_equal(Repeated(pathed, 1).assign(ROWS)[:, 0], KFold().assign(ROWS))


def test_parts_are_repeated_when_none_is_kept_for_the_end() -> None:
    splitter = Repeated(FractionalStratifiedSplit(), 3)
    tests = [set(test) for _, test in splitter.split(None, np.arange(50.0))]
    assert [len(test) for test in tests] == [10, 10, 10]
    assert tests[0] != tests[1]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (LeaveOneOut(), "nothing to repeat"),
        (Bootstrap(5), "nothing to repeat"),
        (FractionalStratifiedSplit({"train": 0.6, "validation": 0.2, "test": 0.2}), "keeps a test part for the end"),
        ("KFold", "is not a strategy; pass one"),
        ({"strategy": "KFolds"}, "there is no strategy 'KFolds'; did you mean KFold"),
        ({"strategy": "KFold", "params": {"n_fold": 3}}, "KFold cannot be made of"),
        ({"strategy": "KFold", "seed": 3}, "is not a strategy; pass one"),
        ({"strategy": "collections:OrderedDict"}, "lies in Python's standard library"),
    ],
)
def test_what_cannot_be_repeated_is_refused(strategy: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        Repeated(strategy).assign(ROWS, np.arange(53.0))


def test_too_few_partitions_are_an_error_and_not_a_repetition() -> None:
    """4 rows have 3 partitions into two pairs; a fourth repeat would repeat one of them."""
    assert Repeated(KFold(2), 3).assign(ROWS[:4]).shape == (4, 3)
    with pytest.raises(SplitError, match="too few different partitions; choose n_repeats of 1 to 3"):
        Repeated(KFold(2), 4).assign(ROWS[:4])
