"""Exchanges between two bins keep their word, and points that are close meet."""

import math
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import Stream
from evenfold.splitters.numbers import combined
from evenfold.splitters.packing.cost import Aim, close_pairs, subset_sums
from evenfold.splitters.packing.pack import Packing, TwoBins
from evenfold.splitters.packing.searches import Population
from hypothesis import given, settings, strategies as st
from tables import counts


@settings(max_examples=30)
@given(counts(), st.integers(0, 99))
def test_the_cost_of_an_exchange_is_what_the_packing_then_costs(table: Any, seed: int) -> None:
    aim = Aim(table, np.array([0.5, 0.2, 0.3]))
    bins = np.arange(table.shape[0]) % 3
    entries = np.flatnonzero(bins != 2)
    pair = TwoBins(Packing(aim, bins, Stream(0)), 0, 1)
    number = int(Stream(seed).below(1 << entries.size, 1)[0])
    moved = entries[(number >> np.arange(entries.size)) & 1 == 1]
    after = bins.copy()
    after[moved] = 1 - after[moved]
    predicted = pair.within(math.inf, subset_sums(pair.changes), entries)[1][number]
    if len(set(after.tolist())) < 3:
        assert predicted == math.inf
    else:
        assert predicted == pytest.approx(aim.costs(aim.loads(after))[:2].sum(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("size_weight", ["relative", "exact", 0.0])
def test_exchanges_up_to_a_limit_are_all_found_and_the_best_of_joined_ones_is_the_same(size_weight: Any) -> None:
    table = Stream(3).below(9, 120).reshape(40, 3)
    aim, bins = Aim(table, np.array([0.5, 0.2, 0.3]), size_weight=size_weight), np.arange(40) % 3
    few = TwoBins(Packing(aim, bins, Stream(0), np.flatnonzero(bins != 2)[:10]), 0, 1)
    sums = subset_sums(few.changes)
    costs = few.within(math.inf, sums, few.entries)[1]
    for limit in np.sort(costs)[[0, 1, 30, 500, 1000]].tolist():
        numbers, found = few.within(limit, sums, few.entries)
        assert numbers.tolist() == np.flatnonzero(costs <= limit).tolist()
        assert found.tolist() == costs[numbers].tolist()
    pair = TwoBins(Packing(aim, bins, Stream(0)), 0, 1)
    cost, moved, width = pair.best_of_joined(math.inf, Stream(1), 0.0)
    again = pair.best_of_joined(cost, Stream(1), 0.0)
    assert (again[0], again[1].tolist(), again[2]) == (cost, moved.tolist(), width)
    assert pair.best_of_joined(cost * (1.0 - 1e-9), Stream(1), 0.0)[0] == math.inf


@settings(max_examples=30)
@given(counts(), st.integers(0, 99))
def test_what_few_entries_come_to_no_exchange_of_two_bins_betters(table: Any, seed: int) -> None:
    aim, stream = Aim(table, np.array([0.5, 0.2, 0.3])), Stream(seed)
    packing = Packing(aim, np.arange(table.shape[0]) % 3, stream)
    packing.improve(400)
    pairs = ((0, 1), (0, 2), (1, 2))
    assert not any(Packing(aim, packing.bins.copy(), stream).exchange(*pair) for pair in pairs)


def test_the_code_of_a_place_is_the_documented_sum() -> None:
    """Column j times an odd number to the power j + 1: the order of codes is that of the kinds, which are dealt."""
    step = 0x9E3779B97F4A7C15
    places = np.array([[0, 1, 0, 3], [0, 0, 1, -2]])
    sums = [(a * step + b * step**2) % 2**64 for a, b in places.T.tolist()]
    assert combined(places).tolist() == sums


def test_subset_sums_are_all_of_them() -> None:
    vectors = np.array([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
    assert subset_sums(vectors).tolist() == [[0, 1, 10, 11, 100, 101, 110, 111], [0, 2, 20, 22, 200, 202, 220, 222]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("width", "met"), [(1e-300, 3), (5e-324, 3), (2.0**-23, 2)])
def test_a_grid_too_fine_for_numbers_puts_points_into_the_same_cells_on_every_machine(width: float, met: int) -> None:
    points = np.array([[2.0**40, -(2.0**40), 3.0, 0.0]])
    i, j, _ = close_pairs(points, points[:, :1], width, Stream(0), 4)
    assert (i.tolist(), j.tolist()) == ([*range(met)], [0] * met)


def test_close_points_meet_and_distant_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.uniform(-1e3, 1e3, (2, 3, 1000))
    right[:, 500] = left[:, 20] + 1e-6
    i, j, width = close_pairs(left, right, 1e3, Stream(0), 2000)
    assert (20, 500) in set(zip(i.tolist(), j.tolist(), strict=True))
    assert 0 < i.size <= 4000
    assert np.abs(left[:, i] - right[:, j]).max() <= width


def test_points_that_coincide_do_not_flood() -> None:
    i, _, _ = close_pairs(np.zeros((2, 1000)), np.zeros((2, 1000)), 1.0, Stream(0), 5000)
    assert 1000 <= i.size <= 10_000


def test_a_width_is_kept_where_a_quarter_of_the_budget_meets_rounded_down() -> None:
    left, right = np.zeros((2, 1)), np.zeros((2, 1))
    assert close_pairs(left, right, 1.0, Stream(0), 6)[2] == 1.0
    assert close_pairs(left, right, 1.0, Stream(0), 8)[2] > 1.0


def test_a_population_begins_at_the_cost_of_the_packing() -> None:
    aim = Aim(np.array([[3], [1]]), np.full(2, 0.5), sizes=np.array([8, 8]), weights=np.array([2.0]))
    assert np.allclose(Population(aim, np.arange(2), Stream(0)).costs[0], aim.costs(aim.loads(np.arange(2))))
