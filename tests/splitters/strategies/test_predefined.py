"""Folds and pairs that were decided elsewhere, strategies that are repeated, and rows that are locked before."""

from typing import Any

import numpy as np
import pytest
from evenfold.splitters import (
    BalancedGroupKFold,
    Bootstrap,
    Crossed,
    FractionalStratifiedSplit,
    FromSklearn,
    Holdout,
    KFold,
    LeaveOneOut,
    Predefined,
    PredefinedPairs,
    Repeated,
    SplitError,
)
from evenfold.splitters.base import strategy_of
from sklearn.model_selection import PredefinedSplit, RepeatedKFold, check_cv

FOLDS = np.array([0, 1, -1, 2, 1, 0, -1, 2])


def test_the_pairs_are_those_of_scikit_learn() -> None:
    """Labels of -1 and above mean what they mean in scikit-learn's PredefinedSplit."""
    ours, theirs = Predefined(FOLDS).split(np.zeros(8)), PredefinedSplit(FOLDS).split()
    for (train, test), (their_train, their_test) in zip(ours, theirs, strict=True):
        assert (train.tolist(), test.tolist()) == (their_train.tolist(), their_test.tolist())


def test_locked_and_excluded_rows_are_in_no_pair() -> None:
    """-2 is locked and -3 excluded: neither is trained on."""
    seen = {int(row) for pair in Predefined([0, 1, -2, -3, -1]).split(np.zeros(5)) for side in pair for row in side}
    assert seen == {0, 1, 4}


def test_a_column_of_the_rows_is_as_good_as_a_parameter() -> None:
    assert np.array_equal(Predefined().assign(np.zeros(8), fixed=FOLDS.astype(float)), FOLDS)
    assert Predefined().get_n_splits(np.zeros(8), fixed=FOLDS) == Predefined(FOLDS).get_n_splits() == 3


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        ([0, 1], "folds has 2 labels for 4 rows"),
        ([0, 1, -4, 0], "labels run from -4 to 1"),
        ([-1, -1, -2, -1], "labels run from -2 to -1"),
        ([0, 1, 3, 3], "no row has label 2, and labels go up to 3"),
        ([0, 0, 0, 10**12], "no row has label 1,"),
        ([0, 0, -2, 0], "every row is in fold 0, so there is nothing to train on"),
        ([0, 1, None, 0], "folds is missing"),
        ([0, 1, 0.5, 0], "folds holds fractional"),
        (["a", "b", "a", "b"], "folds holds text"),
        ("part", "folds is 'part', and takes labels; a column of them is named .* --fold part"),
    ],
)
def test_labels_that_cannot_be_are_refused(folds: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        Predefined(folds).split(np.zeros(4))


@pytest.mark.parametrize("folds", [[0, -1, 0, -2], [0, 1, 0, -3]])
def test_something_to_train_on_is_another_fold_or_rows_that_are_never_tested(folds: list[int]) -> None:
    assert Predefined(folds).assign(np.zeros(4)).tolist() == folds


def test_pairs_may_be_masks_or_positions() -> None:
    mask = np.array([True, False, True, False])
    assert [side.tolist() for side in next(PredefinedPairs([(mask, [1])]).split(np.zeros(4)))] == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "holds no pairs"),
        ([([0], [1], [2])], "holds no pairs"),
        (zip([[0]], [[1]], strict=True), "holds no pairs"),  # which would be gone before they are asked for
        ([([0, 1], [1, 2])], "pair 0 put 1 rows in both"),
        ([([0], [1]), ([0], [4])], r"pair 1 names 1 row that the data lack \(position 4 of 4 rows\)"),
        ([([0], [])], "pair 0 has 1 rows to train on and 0 to test"),
        ([([True, False], [1])], "pair 0 has a mask of 2 values for 4 rows"),
    ],
)
def test_pairs_that_cannot_be_are_refused(pairs: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        PredefinedPairs(pairs).split(np.zeros(4))


def test_what_a_wrapped_splitter_refuses_is_refused_before_the_first_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = FromSklearn("sklearn.model_selection:StratifiedKFold", {"n_splits": 5})
    with pytest.raises(SplitError, match=r"cannot split these rows \(.*n_splits=5.*\); change its params\."):
        wrapped.split(np.zeros(8), [0, 1] * 4)
    held = FromSklearn(RepeatedKFold(n_splits=3, random_state=np.random.RandomState(0)))
    first, again = ([test.tolist() for _, test in held.split(np.zeros((9, 1)))] for _ in range(2))
    assert first == again, "a generator of random numbers that it holds goes on nowhere"
    needs = [FromSklearn(f"sklearn.model_selection:{name}KFold").needs.groups for name in ("", "Group")]
    assert needs == [False, "optional"]
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    with pytest.raises(SplitError, match=r"'memory' .* may not be set in a deployed run"):
        FromSklearn("sklearn.model_selection:KFold", {"memory": "/"}).wrapped()


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
    with pytest.raises(SplitError, match=r"KFold has no parameter 'zzz'; it has n_splits\."):
        strategy_of({"strategy": "KFold", "params": {"zzz": 1}}, 0)
    with pytest.raises(SplitError, match="KFold does not pack groups into folds"):
        Crossed(seeded).rows(groups=ROWS[:, 0])


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
        ({"strategy": "KFold", "params": {"n_fold": 3}}, "KFold has no parameter 'n_fold'; did you mean n_splits"),
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


FORTY = np.zeros((40, 1))


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
        Holdout(inner, fraction).split(FORTY, None, groups)


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
        Holdout(inner, 0.2).split(FORTY)


def test_the_smallest_holdouts_are_taken() -> None:
    assert Holdout(KFold(2), 0.02).locked(FORTY).size == 1
    groups = np.arange(39) % 3
    locked = Holdout(BalancedGroupKFold(2), 1 / 3).locked(FORTY[:39], None, groups)
    assert np.unique(groups[locked]).size == 1


@pytest.mark.parametrize("inner", [BalancedGroupKFold(), FromSklearn("sklearn.model_selection:KFold")], ids=repr)
def test_the_number_of_splits_needs_no_rows_and_no_column_where_it_depends_on_none(inner: Any) -> None:
    assert Holdout(inner).get_n_splits() == 5
    assert Holdout(inner).get_n_splits(FORTY, np.arange(40) % 2) == 5
