"""Bounds that hold for any rows: sizes, ties, constant targets, as many folds as rows, and every container."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import KFold, SortedStratifiedKFold, StratifiedKFold
from evenfold.splitters.kernels import places_in
from evenfold.splitters.numbers import stable_order
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

SEEDS = st.integers(0, 2**64)


def spread(counts: Any) -> int:
    return int(np.ptp(np.asarray(counts), axis=0).max(initial=0))


def table(labels: Any, y: Any, k: int) -> Any:
    values, codes = np.unique(y, return_inverse=True)
    return np.bincount(labels.astype(int) * values.size + codes, minlength=k * values.size).reshape(k, values.size)


@st.composite
def folds_of_rows(draw: st.DrawFn) -> tuple[int, int]:
    n = draw(st.integers(2, 200))
    return n, draw(st.integers(2, n) | st.just(n))


@settings(max_examples=60)
@given(shape=folds_of_rows(), classes=st.integers(2, 12), seed=SEEDS, data=st.data())
def test_classes_differ_by_one_row_in_any_two_folds(
    shape: tuple[int, int], classes: int, seed: int, data: st.DataObject
) -> None:
    """Classes as uneven as they like, rarer than there are folds: counts and sizes differ by 1 at most."""
    n, k = shape
    y = np.array(data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)))
    y[0], y[1] = 0, 1
    labels = StratifiedKFold(k, rare="spread", random_state=seed).assign(None, y)
    counts = table(labels, y, k)
    assert spread(counts) <= 1
    assert spread(counts.sum(axis=1)) <= 1


@settings(max_examples=80)
@given(
    shape=folds_of_rows(), ties=st.integers(1, 200), leftovers=st.sampled_from(["spread", "random", "end"]), seed=SEEDS
)
def test_counts_below_any_threshold_differ_by_the_bound(
    shape: tuple[int, int], ties: int, leftovers: Any, seed: int
) -> None:
    """From a constant target (one tie) to none: 1 row where the left-over rows are last, 2 otherwise."""
    n, k = shape
    y = np.random.default_rng(n).integers(0, ties, n).astype(float)
    splitter = SortedStratifiedKFold(k, leftovers=leftovers, random_state=seed)
    labels = splitter.assign(None, y)
    below = np.cumsum(table(labels, y, k), axis=1)
    assert spread(np.bincount(labels, minlength=k)) <= 1
    assert spread(below) <= splitter.threshold_gap == (1 if leftovers == "end" else 2)


@pytest.mark.parametrize("leftovers", ["spread", "random", "end"])
def test_neighbours_in_a_block_are_in_different_folds(leftovers: Any) -> None:
    n, k = 1009, 10
    splitter = SortedStratifiedKFold(k, leftovers=leftovers)
    labels = splitter.assign(None, np.arange(float(n)))
    count, random = n % k, splitter._stream(0).permutation(n)
    left = {
        "spread": np.arange(1, count + 1) * n // (count + 1),
        "random": np.sort(random[:count]),
        "end": np.arange(n - count, n),
    }[leftovers]
    blocks = np.delete(labels, left).reshape(-1, k)
    assert (np.sort(blocks, axis=1) == np.arange(k)).all()
    assert np.unique(labels[left]).size == left.size == count


def test_every_partition_is_equally_likely() -> None:
    """4 rows in 2 plain folds: each of the 3 partitions a third of 3,000 times, within 5 standard deviations."""
    labels = [KFold(2, random_state=seed).assign(np.zeros(4)) for seed in range(3000)]
    seen = Counter(tuple(each == each[0]) for each in labels)
    assert len(seen) == 3
    assert max(abs(count - 1000) for count in seen.values()) < 5 * np.sqrt(3000 * 2 / 9)


NUMBERS = st.sampled_from(["f8", "f4", "f2", "i8", "u8", "i4", "u2", "i1", "?", "M8[us]", "m8[s]"])


@settings(max_examples=100)
@given(st.data())
def test_the_order_is_that_of_a_stable_argsort(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(NUMBERS))
    elements = {"allow_nan": False} if dtype.kind == "f" else {}
    if dtype.kind in "mM":
        values = data.draw(hnp.arrays("i8", st.integers(1, 80), elements=st.integers(-(2**62), 2**62))).view(dtype)
    else:
        values = data.draw(hnp.arrays(dtype, st.integers(1, 80), elements=elements))
    values = np.concatenate([values, values[: data.draw(st.integers(0, values.size))]])
    assert np.array_equal(stable_order(values), np.argsort(values, kind="stable"))


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1.0, 1e9), (1e12, -1e15)])
def test_the_order_is_right_where_leading_bits_are_equal(scale: float, offset: float) -> None:
    """200,000 numbers leave 46 bits for a value; crowds of neighbours are told apart all the same."""
    rng = np.random.default_rng(0)
    values = np.concatenate([offset + scale * rng.random(150_000), rng.pareto(1, 50_000)])[rng.permutation(200_000)]
    assert np.array_equal(stable_order(values), np.argsort(values, kind="stable"))


@given(st.data(), st.sampled_from([(0, 60), (-(2**63), -(2**63) + 60), (2**63 - 61, 2**63 - 1), (-(2**63), 2**63 - 1)]))
def test_places_among_numbers_are_those_of_a_dictionary(data: st.DataObject, ends: tuple[int, int]) -> None:
    numbers = st.lists(st.integers(*ends), min_size=1, max_size=80)
    ordered, wanted = np.unique(np.array(data.draw(numbers), dtype=np.int64)), data.draw(numbers)
    place = {number: i for i, number in enumerate(ordered.tolist())}
    assert places_in(ordered, np.array(wanted)).tolist() == [place.get(number, -1) for number in wanted]
