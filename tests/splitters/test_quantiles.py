"""Numbers are cut into bins of about as many rows; new rows lift the emptiest bins, and nothing moves."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import BalancedGroupKFold, BalancedGroupSplit, BalancedKFold, Holdout, LabelSplitter
from evenfold.splitters.kernels import fill
from evenfold.splitters.numbers import Stream
from evenfold.splitters.packing.cost import bins_of_numbers, edges_of
from hypothesis import given, strategies as st


def bins_of(y: Any, bins: int = 10) -> Any:
    return bins_of_numbers(np.asarray(y, dtype=np.float64), np.argsort(y, kind="stable"), bins)[0]


def sizes_of(counts: Sequence[int], bins: int = 10) -> list[int]:
    return np.bincount(bins_of(np.repeat(np.arange(len(counts)), counts), bins)).tolist()


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 15, 97, 1000])
def test_numbers_that_are_all_different_are_cut_by_rank(n: int) -> None:
    y = np.random.default_rng(n).permutation(n)
    assert bins_of(y).tolist() == (y * min(10, n) // n).tolist()


@given(st.lists(st.integers(1, 60) | st.integers(20, 60), min_size=1, max_size=40), st.integers(1, 12))
def test_equal_numbers_share_a_bin_and_few_different_ones_have_one_each(counts: list[int], bins: int) -> None:
    """Whatever the counts: no more bins than asked for, none empty, in the order of the numbers.

    Up to ten numbers of 20 rows and more are classes.
    """
    y = np.repeat(np.arange(len(counts)), counts)
    found = bins_of(y, bins)
    assert sorted(set(found.tolist())) == list(range(int(found.max()) + 1))
    assert found.max() < bins
    assert (np.diff(found) >= 0).all()
    assert all(np.ptp(found[y == value]) == 0 for value in range(len(counts)))
    if len(counts) <= bins and min(counts) >= min(20, y.size // bins):
        assert found.tolist() == y.tolist()


def test_a_number_that_most_rows_have_leaves_nine_even_bins_to_the_others() -> None:
    """700 zeros are a bin, and 300 amounts nine bins; with amounts on both sides, bins by their rows."""
    assert sizes_of([700] + [1] * 300) == [700, 34, 33, 33, 34, 33, 33, 34, 33, 33]
    assert sizes_of([1] * 100 + [700] + [1] * 200) == [34, 33, 33, 700, 34, 33, 33, 34, 33, 33]
    assert sizes_of([600, 200] + [1] * 200) == [600, 200] + [25] * 8


def test_few_rows_make_few_bins() -> None:
    """Of 970 zeros and 30 amounts the amounts are one bin: of bins of 3 rows a small part would need too many."""
    assert sizes_of([970] + [1] * 30) == [970, 30]
    assert sizes_of([960] + [1] * 40) == [960, 20, 20]
    assert sizes_of([1] * 3 + [907] + [1] * 90) == [3, 907, 23, 22, 23, 22]
    assert sizes_of([1] * 60) == [6] * 10, "as of all numbers that are different"


def test_a_bin_of_its_own_is_not_bought_with_larger_ones_beside_it() -> None:
    """Of three bins one for 3 rows and one for 72 would leave 124 to the third."""
    assert sizes_of([3, 72, 1, 27, 36, 42, 18], 3) == [75, 64, 60]


def test_rounded_numbers_are_cut_where_it_is_most_even() -> None:
    """Of twelve numbers of 10 rows two bins have two each; a cut within a number goes to its nearer end."""
    assert sorted(sizes_of([10] * 12)) == [10] * 8 + [20] * 2
    assert max(sizes_of([7] * 43)) == 35


def test_zeros_of_either_sign_are_one_number() -> None:
    """-0.0 and 0.0 are equal, so they share a bin."""
    assert edges_of(np.array([-1.0, -0.0, 0.0, 1.0]), 4).tolist() == [0.0, 1.0]


ZEROS = np.random.default_rng(0)
N = 600
SPENT = np.where(ZEROS.random(N) < 0.03, ZEROS.lognormal(size=N), 0.0)
CUSTOMERS = ZEROS.integers(0, 150, N)


@pytest.mark.parametrize(
    ("splitter", "groups", "off"),
    [(BalancedKFold(5), None, 1.0), (BalancedGroupKFold(5), CUSTOMERS, 1.0), (BalancedGroupSplit(), CUSTOMERS, 1.0)],
    ids=repr,
)
def test_rows_beyond_the_zeros_are_shared_out_as_a_class_would_be(
    splitter: LabelSplitter, groups: Any, off: float
) -> None:
    """Of 97 % zeros every fold or part has its share of the other rows, to within one."""
    labels = splitter.assign(None, SPENT, groups)
    spent = SPENT > 0
    for code in set(labels.tolist()):
        assert abs(np.sum(spent[labels == code]) - np.mean(labels == code) * spent.sum()) <= off


def test_a_locked_part_has_its_share_of_the_rows_beyond_the_zeros_and_of_what_columns_make_together() -> None:
    locked = Holdout(BalancedGroupKFold(4), 0.2).locked(None, SPENT, CUSTOMERS)
    assert abs(np.sum(SPENT[locked] > 0) - 0.2 * np.sum(SPENT > 0)) <= 1
    columns = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10)
    locked = Holdout(BalancedKFold(4), 0.2).locked(None, columns)
    assert np.unique(columns[locked], axis=0, return_counts=True)[1].tolist() == [2, 2, 2, 2]


def test_filling_is_as_even_as_whole_rows_allow_in_500_random_cases() -> None:
    for case in range(500):
        rng = np.random.default_rng(case)
        n_bins, n_classes = rng.integers(2, 9), rng.integers(1, 7)
        shares = np.full(n_bins, 1 / n_bins) if case % 2 else rng.dirichlet(np.full(n_bins, 3.0))
        strata = rng.integers(0, n_classes, rng.integers(1, 60))
        bins = fill(strata, np.zeros((n_bins, n_classes), dtype=np.int64), shares, Stream(case))
        counts = np.zeros((n_bins, n_classes), dtype=np.int64)
        np.add.at(counts, (bins, strata), 1)
        off = counts - shares[:, None] * counts.sum(axis=0)
        assert np.abs(off).max() < 1
        assert np.abs(off.sum(axis=1)).max() < 1


def test_filling_never_feeds_a_fuller_bin_before_an_emptier_one_in_500_random_cases() -> None:
    for case in range(500):
        rng = np.random.default_rng(case)
        n_bins, n_classes = rng.integers(2, 9), rng.integers(1, 7)
        held = rng.integers(0, rng.integers(1, 6), (n_bins, n_classes))
        strata = rng.integers(0, n_classes, rng.integers(1, 60))
        after = held.copy()
        np.add.at(after, (fill(strata, held, np.full(n_bins, 1 / n_bins), Stream(case)), strata), 1)
        assert np.all((after == held) | (after <= after.min(axis=0) + 1))
