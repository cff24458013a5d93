"""Draws of train and test sets: exact, even, whole groups, and every row as likely as any other."""

import hashlib
from math import exp
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import (
    GroupShuffleSplit,
    GroupStratifiedShuffleSplit,
    ShuffleSplit,
    SplitError,
    StratifiedShuffleSplit,
    Stream,
)
from evenfold.splitters.kernels import groups_until, take_evenly
from evenfold.splitters.strategies.shuffles import exp_weights, weighted_choice
from hypothesis import given, settings, strategies as st


@pytest.mark.parametrize(
    ("test_size", "train_size", "sizes"),
    [(0.1, None, (27, 3)), (0.11, None, (26, 4)), (None, 0.75, (22, 8)), (0.25, 11, (11, 8)), (10, 20, (20, 10))],
)
def test_sizes_mean_what_scikit_learn_means(test_size: Any, train_size: Any, sizes: tuple[int, int]) -> None:
    """Shares of test rows round up, of train rows down; what is not given is the rest; 0.1 of 30 is 3."""
    train, test = next(ShuffleSplit(1, test_size=test_size, train_size=train_size).split(np.zeros(30)))
    assert (train.size, test.size) == sizes


@pytest.mark.parametrize(
    ("test_size", "train_size"), [(0, None), (30, None), (1.0, None), (-0.1, None), (20, 11), ("a", 0.5), (True, None)]
)
def test_sizes_that_cannot_be_are_refused(test_size: Any, train_size: Any) -> None:
    with pytest.raises(SplitError, match="choose"):
        ShuffleSplit(test_size=test_size, train_size=train_size).split(np.zeros(30))


@settings(max_examples=60)
@given(n=st.integers(1, 300), seed=st.integers(0, 10**6), data=st.data())
def test_systematic_sampling_takes_its_share_of_every_run(n: int, seed: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, n))
    taken = take_evenly(n, count, Stream(seed))
    reached = np.concatenate([[0], np.cumsum(np.bincount(taken, minlength=n))])
    runs = np.subtract.outer(reached, reached) * n
    lengths = np.subtract.outer(np.arange(n + 1), np.arange(n + 1)) * count
    assert taken.size == count == np.unique(taken).size
    assert np.abs(runs - lengths).max() < n


def test_every_row_is_equally_likely() -> None:
    """1,000 draws of 3 of 10 rows: each is tested 300 times, within 5 standard deviations."""
    for splitter, y in (
        (ShuffleSplit(1000, test_size=3), None),
        (StratifiedShuffleSplit(1000, test_size=3), list("aaabbbbbbc")),
        (StratifiedShuffleSplit(1000, test_size=3), np.arange(10) + 0.5),
    ):
        tested = np.bincount(np.concatenate([test for _, test in splitter.split(np.zeros(10), y)]), minlength=10)
        assert np.abs(tested - 300).max() < 5 * np.sqrt(1000 * 0.3 * 0.7)


@settings(max_examples=40)
@given(n=st.integers(4, 300), ties=st.integers(1, 300), share=st.floats(0.02, 0.98), seed=st.integers(0, 1000))
def test_numbers_keep_their_distribution(n: int, ties: int, share: float, seed: int) -> None:
    """Below any threshold a test set holds its share of rows, to within 3."""
    y = np.random.default_rng(seed).integers(0, ties, n) + 0.5
    splitter = StratifiedShuffleSplit(1, test_size=min(max(share, 1 / n), 1 - 1 / n), random_state=seed)
    train, test = next(splitter.split(None, y))
    levels = np.unique(y)
    below = np.searchsorted(np.sort(y[test]), levels, side="right")
    wanted = np.searchsorted(np.sort(y), levels, side="right") * test.size / n
    assert train.size + test.size == n
    assert np.abs(below - wanted).max() <= 3


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=2, max_size=30), share=st.floats(0.05, 0.95), seed=st.integers(0, 99)
)
def test_a_share_of_rows_is_met_to_half_a_group(sizes: list[int], share: float, seed: int) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    wanted = int(np.ceil(share * groups.size - 1e-9))
    if wanted >= groups.size:
        return
    _, test = next(GroupShuffleSplit(1, test_size=share, random_state=seed).split(None, None, groups))
    room = groups.size - max(sizes) >= wanted >= max(sizes)
    assert 0 < test.size < groups.size
    assert not room or abs(test.size - wanted) <= max(sizes) / 2


def test_a_giant_group_is_passed_over_while_others_can_be_tested() -> None:
    groups = np.concatenate([np.zeros(500), np.repeat(np.arange(1, 51), 10)])
    for train, test in GroupShuffleSplit(50).split(None, None, groups):
        assert 0 in groups[train]
        assert 150 <= test.size <= 250
    assert groups_until(np.array([4, 1]), 2, 2).tolist() == [1], "as far off as none at all"


def students(seed: int, years: int = 20, n: int = 1000, classes: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(years), rng.integers(0, years, n - years)])
    shares = rng.dirichlet([0.9 * classes] + [0.9] * (classes - 1), years)
    y = (rng.random(n)[:, None] > np.cumsum(shares, axis=1)[groups]).sum(axis=1)
    return np.minimum(y, classes - 1), groups


def test_sizes_and_prevalences_of_a_group_draw_are_close() -> None:
    """1,000 students of 20 years: errors well below a group draw's own, every year tested."""
    rng = np.random.default_rng(2)
    groups, shares = rng.integers(0, 20, 1000), rng.beta(1, 9, 20)
    y = (rng.random(1000) < shares[groups]).astype(int)
    errors = [
        (abs(train.size / 1000 - 0.8), abs(y[test].mean() - y.mean()))
        for train, test in GroupStratifiedShuffleSplit(200).split(None, y, groups)
    ]
    assert np.mean(errors, axis=0).max() <= 0.003
    tested = picks_of(GroupStratifiedShuffleSplit(500), y, groups)
    assert tested.min() > 0
    one_left = GroupStratifiedShuffleSplit(9, train_size=0.01).split(None, [0, 1] * 50, np.repeat([0, 1], [90, 10]))
    assert all(train.size for train, _ in one_left)
    assert tested.std() / tested.mean() <= 0.25


@pytest.mark.parametrize("classes", [3, 8])
def test_any_number_of_classes_is_kept(classes: int) -> None:
    y, groups = students(1, years=200, n=4000, classes=classes)

    def error(splitter: Any, given: Any) -> float:
        tests = [test for _, test in splitter.split(None, given, groups)]
        overall = np.bincount(y) / y.size
        return float(np.mean([np.abs(np.bincount(y[t], minlength=classes) / t.size - overall).max() for t in tests]))

    assert error(GroupStratifiedShuffleSplit(20), y) < error(GroupShuffleSplit(20), None) / 4
    assert error(GroupStratifiedShuffleSplit(20, beta=100), y) < error(GroupShuffleSplit(20), None) / 2


def test_the_published_rule_by_hand() -> None:
    y = np.array([0] * 8 + [1] * 2 + [0] * 2 + [1] * 8 + [0] * 9 + [1])
    groups = np.repeat([0, 1, 2], 10)
    splitter = GroupStratifiedShuffleSplit(40, train_size=20, beta=1e6)
    for train, _ in splitter.split(None, y, groups):
        assert set(groups[train]) in ({0, 1}, {1, 2})


def picks_of(splitter: GroupStratifiedShuffleSplit, y: Any, groups: Any) -> Any:
    """How often each group is tested."""
    return np.bincount(np.concatenate([np.unique(groups[test]) for _, test in splitter.split(None, y, groups)]))


def test_a_higher_beta_never_tests_more_groups() -> None:
    y, groups = students(5)
    low, high = (picks_of(GroupStratifiedShuffleSplit(200, beta=beta), y, groups) for beta in (1, 1000))
    assert np.count_nonzero(high) < np.count_nonzero(low)


def test_the_exponential_is_exact_to_one_part_in_2_to_the_32() -> None:
    """Against the mathematics library, from 0 down to where nothing is left."""
    x = -np.concatenate([np.linspace(0, 25, 20_001), [700.0, 1e300, np.inf]])
    wanted = np.array([exp(value) * 2.0**32 for value in x])
    assert np.abs(exp_weights(x) - wanted).max() <= 1
    assert exp_weights(np.zeros(1))[0] == 2**32
    # The same to the last bit everywhere, for the weights decide draws.
    pinned = exp_weights(-np.arange(20_001) / 800).astype("<i8").tobytes()
    assert hashlib.sha256(pinned).hexdigest()[:16] == "6b350937c2302904"


def test_weighted_choices_follow_their_weights() -> None:
    """The words of a range fall on the positions in proportion, and a weight of 0 is never chosen."""
    weights = np.array([0, 3, 0, 1, 4])
    chosen = [weighted_choice(weights, word * 2**58) for word in range(64)]
    assert np.bincount(chosen, minlength=5).tolist() == [0, 24, 0, 8, 32]


@pytest.mark.parametrize(
    ("splitter", "y", "groups", "message"),
    [
        (GroupShuffleSplit(), None, [1, 1, 1], "all 3 rows are one group; use KFold"),
        (GroupStratifiedShuffleSplit(), [0, 1, 0], [1, 1, 1], "all 3 rows are one group"),
        (GroupStratifiedShuffleSplit(), [0, 0, 0], [1, 2, 3], "y has one class"),
        (GroupStratifiedShuffleSplit(beta=-1), [0, 1, 0], [1, 2, 3], "beta=-1; choose a number of at least 0"),
        (GroupStratifiedShuffleSplit(beta=float("nan")), [0, 1, 0], [1, 2, 3], "beta=nan"),
        (GroupStratifiedShuffleSplit(train_size=3), [0, 1, 0], [1, 2, 3], "choose sizes"),
        (StratifiedShuffleSplit(), None, None, "StratifiedShuffleSplit needs y"),
        (StratifiedShuffleSplit(), [[0, 1], [1, 0], [0, 0]], None, "StratifiedShuffleSplit needs y"),
    ],
)
def test_rows_that_cannot_be_drawn_are_refused(splitter: Any, y: Any, groups: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        splitter.split(np.zeros(3), y, groups)
