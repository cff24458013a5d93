"""Folds and pairs that were decided elsewhere."""

from typing import Any

import numpy as np
import pytest
from evenfold.splitters import FromSklearn, Predefined, PredefinedPairs, SplitError
from sklearn.model_selection import PredefinedSplit

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
    ],
)
def test_labels_that_cannot_be_are_refused(folds: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        Predefined(folds).split(np.zeros(4))


def test_pairs_may_be_masks_or_positions() -> None:
    mask = np.array([True, False, True, False])
    assert [side.tolist() for side in next(PredefinedPairs([(mask, [1])]).split(np.zeros(4)))] == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "holds no pairs"),
        ([([0], [1], [2])], "holds no pairs"),
        ([([0, 1], [1, 2])], "pair 0 put 1 rows in both"),
        ([([0], [1]), ([0], [4])], r"pair 1 has positions outside 0\.\.3"),
        ([([0], [])], "pair 0 has 1 rows to train on and 0 to test"),
        ([([True, False], [1])], "pair 0 has a mask of 2 values for 4 rows"),
    ],
)
def test_pairs_that_cannot_be_are_refused(pairs: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        PredefinedPairs(pairs).split(np.zeros(4))


def test_what_a_wrapped_splitter_refuses_is_refused_before_the_first_pair() -> None:
    wrapped = FromSklearn("sklearn.model_selection:StratifiedKFold", {"n_splits": 5})
    with pytest.raises(SplitError, match=r"cannot split these rows \(.*n_splits=5.*\); change its params\."):
        wrapped.split(np.zeros(8), [0, 1] * 4)
