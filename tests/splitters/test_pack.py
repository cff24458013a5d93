"""The pack kernel: exact costs, optima that are optima, bounds that hold."""

import hashlib
import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import BalancedGroupKFold, SplitError, Stream
from evenfold.splitters.packing.cost import MISSING, MOST_CELLS, Aim, cost_of_chance, require_table
from evenfold.splitters.packing.exact import MOST_ENTRIES, best_packing, bound_by_prices, covering_bound
from evenfold.splitters.packing.pack import HIGH_EFFORT, Packing, deal_identical, kinds, pack_to, place
from evenfold.splitters.packing.report import lower_bound, report_on
from evenfold.splitters.packing.searches import MOST_SUMS, Published, is_affordable
from hypothesis import given, settings, strategies as st
from scipy.optimize import linprog
from tables import counts

SHARES = {"folds": [1 / 3, 1 / 3, 1 / 3], "parts": [0.6, 0.3, 0.1]}


def groups(seed: int, n: int, n_classes: int, mean: float = 40.0) -> Any:
    rng = np.random.default_rng(seed)
    sizes = np.maximum(1, rng.lognormal(0, 1, n) * mean).astype(int)
    mixes = rng.dirichlet(np.full(n_classes, 0.5), n)
    return np.array([rng.multinomial(size, mix) for size, mix in zip(sizes, mixes, strict=True)])


def total(aim: Aim, bins: Any) -> float:
    return math.fsum(aim.costs(aim.loads(np.asarray(bins))).tolist())


@cache
def every_packing(n: int, k: int) -> Any:
    """Return all packings of ``n`` entries into ``k`` bins that leave none empty."""
    packings = np.array(list(itertools.product(range(k), repeat=n)))
    return packings[[len(set(row)) == k for row in packings.tolist()]]


def least_cost(aim: Aim, packings: Any) -> float:
    """Return the least cost of packings of few entries; what a set of entries costs in a bin is asked once."""
    bits = 1 << np.arange(aim.sizes.size)
    rows = np.column_stack([aim.sizes, aim.table])
    loads = (rows[(number & bits) > 0].sum(axis=0) for number in range(1 << bits.size))
    of_set = np.stack([aim.costs(np.repeat(load[:, None], aim.n_bins, axis=1)) for load in loads])
    return float(sum(of_set[(packings == f) @ bits, f] for f in range(aim.n_bins)).min())


def test_the_cost_is_the_published_one_computed_by_hand() -> None:
    """Bins of 6 and 4 rows with 3 and 1 of class 0: (6/10-1/2)^2 twice, and shares 1/2 and 1/4 beside 4/10."""
    table = np.array([[3, 3], [1, 2], [0, 1]])
    aim = Aim(table, np.array([0.5, 0.5]), size_weight=1.0)
    size, classes, missing = aim.terms(aim.loads(np.array([0, 1, 1])))
    assert size.tolist() == pytest.approx([0.01, 0.01])
    assert classes.tolist() == pytest.approx([2 * 0.1**2, 2 * 0.15**2])
    assert missing.tolist() == [0, 0]


def test_the_relative_cost_measures_a_bin_by_its_own_share() -> None:
    """A bin that should hold 2 of 10 rows and holds 3 is half too big: 0.25."""
    table = np.array([[3], [7]])
    aim = Aim(table, np.array([0.2, 0.8]))
    assert aim.terms(aim.loads(np.array([0, 1])))[0].tolist() == pytest.approx([0.25, (1 / 8) ** 2])


def test_a_column_that_a_bin_lacks_costs_one_only_where_enough_entries_have_it() -> None:
    """Two entries of class 1 can be in two bins; one entry of class 2 cannot."""
    table = np.array([[5, 1, 0], [5, 1, 0], [5, 0, 2]])
    aim = Aim(table, np.array([0.5, 0.5]))
    assert aim.terms(aim.loads(np.array([0, 0, 1])))[2].tolist() == [0, 1]
    assert total(aim, [0, 0, 1]) - total(aim, [0, 1, 1]) > MISSING / 2


def test_a_column_of_two_classes_counts_as_much_by_its_rarer_class_twice() -> None:
    """Weight 2 on one class of two is the cost of both."""
    table = groups(0, 12, 2)
    both = Aim(table, np.full(3, 1 / 3))
    one = Aim(table[:, :1], np.full(3, 1 / 3), sizes=table.sum(axis=1), weights=np.array([2.0]))
    bins = np.arange(12) % 3
    assert total(one, bins) == pytest.approx(total(both, bins), rel=1e-12)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.sampled_from(list(SHARES)))
def test_identical_entries_are_dealt_in_their_shares(values: list[int], name: str) -> None:
    shares = np.array(SHARES[name])
    table = np.array(values)[:, None] * np.array([1, 2])
    kind = kinds(table)
    assert all((kind[i] == kind[j]) == (values[i] == values[j]) for i in range(len(values)) for j in range(i))
    bins = deal_identical(kind, shares, Stream(1))
    for value in set(values):
        dealt = bins[np.array(values) == value]
        assert [int(np.sum(dealt == f)) for f in range(3)] == np.floor(dealt.size * shares + 1e-12).astype(int).tolist()


@pytest.mark.parametrize(("name", "size_weight"), [("folds", "relative"), ("parts", 1.0)])
def test_refining_lowers_the_cost_tenfold_and_more(name: str, size_weight: Any) -> None:
    """From a start by size, which is good already, exchanges bring 200 groups below a tenth of its cost."""
    aim = Aim(groups(3, 200, 3), np.array(SHARES[name]), size_weight=size_weight)
    bins = np.full(200, -1)
    place(aim, bins, Stream(0))
    before = total(aim, bins)
    packing = Packing(aim, bins.copy(), Stream(1))
    packing.improve(10)
    assert packing.cost == pytest.approx(total(aim, packing.bins), rel=1e-12)
    assert packing.cost < before / 10


def test_wandering_stays_below_its_limit_and_gets_about() -> None:
    aim = Aim(groups(5, 16, 2), np.full(4, 0.25))
    packing = Packing(aim, pack_to(aim, Stream(0), "max"), Stream(1))
    limit, seen = 20 * packing.cost, set()
    for _ in range(30):
        packing.wander(1, limit)
        seen.add(packing.bins.tobytes())
        assert total(aim, packing.bins) <= limit * (1 + 1e-9)
    assert len(seen) > 10


@settings(max_examples=8)
@given(counts(30), st.integers(2, 5), st.sampled_from([1, 3, "max"]), st.integers(0, 9))
def test_no_bin_is_empty_while_there_are_entries(table: Any, k: int, effort: Any, seed: int) -> None:
    bins = pack_to(Aim(table, np.full(k, 1 / k)), Stream(seed), effort)
    assert bins.min() >= 0
    assert len(set(bins.tolist())) == min(k, table.shape[0])
    assert bins.max() < k


@pytest.mark.parametrize(
    ("seed", "name", "size_weight"), [(0, "folds", "relative"), (1, "parts", 1.0), (2, "parts", "relative")]
)
def test_most_effort_finds_the_optimum_of_all_packings(seed: int, name: str, size_weight: Any) -> None:
    """All 18,150 packings of 9 groups are tried: none is better, nor than the default; the report says it is proved."""
    aim = Aim(groups(seed, 9, 3), np.array(SHARES[name]), size_weight=size_weight)
    least = least_cost(aim, every_packing(9, 3))
    bins = pack_to(aim, Stream(seed), "max")
    by_default = pack_to(aim, Stream(seed), close=True, exact=True)  # as folds and parts of whole groups are packed
    assert max(total(aim, bins), total(aim, by_default)) <= least * (1 + 1e-9)
    report = report_on(aim, bins, Stream(0))
    assert report.optimal
    assert report.gap == 0
    assert report.lower_bound == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize(("name", "looseness"), [("folds", 1.01), ("parts", 3.0), ("folds", 100.0)])
def test_a_complete_search_finds_the_optimum_by_itself(name: str, looseness: float) -> None:
    aim = Aim(groups(11, 8, 2), np.array(SHARES[name]))
    least = least_cost(aim, every_packing(8, 3))
    bins, bound = best_packing(aim, least * looseness)
    assert total(aim, bins) == pytest.approx(least, rel=1e-9)
    assert bound == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize(("name", "seed"), [("folds", 0), ("parts", 1), ("parts", 2)])
def test_the_linear_program_bounds_the_optimum_closely(name: str, seed: int) -> None:
    aim = Aim(groups(seed, 8, 2), np.array(SHARES[name]))
    least = least_cost(aim, every_packing(8, 3))
    assert covering_bound(aim, 2 * least) == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_prices_are_worth_what_the_best_mixture_of_bins_costs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenfold.splitters.packing.exact.SHOWN", 20)  # at first; the others join in rounds
    n, counts_of_bins = 7, np.array([2.0, 1.0])
    masks = np.tile(np.arange(1, 1 << n), 2)
    kind = np.repeat([0, 1], (1 << n) - 1)
    costs = np.random.default_rng(seed).uniform(0.01, 0.3, masks.size)
    holds = (masks[None, :] >> np.arange(n)[:, None]) & 1
    fills = kind[None, :] == np.arange(2)[:, None]
    best = linprog(costs, A_eq=np.vstack([holds, fills]), b_eq=[1] * n + counts_of_bins.tolist()).fun
    assert bound_by_prices(n, masks, costs, kind, counts_of_bins)[0] == pytest.approx(best, abs=1e-8)


@settings(max_examples=25)
@given(counts(7), st.sampled_from(list(SHARES)), st.integers(0, 9))
def test_no_packing_is_below_the_bound(table: Any, name: str, seed: int) -> None:
    aim = Aim(table, np.array(SHARES[name]))
    packings = every_packing(table.shape[0], 3)
    least = least_cost(aim, packings)
    bound = lower_bound(aim, total(aim, packings[seed % len(packings)]), Stream(seed))
    assert bound <= least * (1 + 1e-7) + 1e-15
    assert bound == pytest.approx(least, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("giant", [0, 120])
def test_a_bound_of_many_entries_is_what_whole_rows_or_a_large_entry_cost(giant: int) -> None:
    table, k = np.vstack([[giant + 3, 1], np.tile([[2, 1], [1, 3]], (MOST_ENTRIES, 1))]), 5
    n, sizes = int(table.sum()), np.arange(1, table.sum() + 1)
    rates, off = table.sum(axis=0) / n, (sizes * k / n - 1) ** 2
    # The least cost of any size: with shares as near as whole rows come, or from the entry's own rows on.
    torn = [((sizes * rate - np.rint(sizes * rate)) / sizes) ** 2 for rate in rates]
    over = [np.maximum(own / sizes - rate, 0) ** 2 for own, rate in zip(table[0], rates, strict=True)]
    least = k * (sum(torn) + off).min(), (sum(over) + off * k / (k - 1))[table[0].sum() - 1 :].min()
    assert np.argmax(least) == (giant > 0)
    bound = lower_bound(Aim(table, np.full(k, 1 / k)), math.inf, Stream(0))
    assert bound == pytest.approx(max(least), rel=1e-9)


def test_a_giant_entry_bounds_the_cost() -> None:
    """A group of 60 % of the rows makes one fold of two at least a fifth too big, which the bound knows."""
    table = np.vstack([[600, 600], np.full((80, 2), 5)])
    aim = Aim(table, np.full(2, 0.5))
    bins = np.minimum(np.arange(81), 1)
    report = report_on(aim, bins, Stream(0))
    assert report.cost == pytest.approx(2 * 0.2**2)
    assert report.optimal
    small = Aim(np.full((100, 2), 50), np.full(2, 0.5))
    assert lower_bound(small, 1.0, Stream(0)) == 0.0, "bins of many small entries can be as large as is wanted"


def test_a_search_without_budget_proves_nothing_wrong() -> None:
    aim = Aim(groups(2, 14, 2), np.full(4, 0.25))
    best = total(aim, pack_to(aim, Stream(0), "max"))
    bins, bound = best_packing(aim, best * 2, budget=0)
    assert bins is None
    assert bound <= best
    many = Aim(groups(2, MOST_ENTRIES + 1, 2), np.full(4, 0.25))
    assert best_packing(many, 1.0) == (None, 0.0), "nor does one of more entries than can be searched"


@pytest.mark.parametrize("k", [2, 4])
def test_few_groups_come_out_differently_under_each_seed_and_always_well(k: int) -> None:
    """Of 40 seeds nearly all give another partition, each at most a third of the cost of chance."""
    aim = Aim(groups(13, 20, 2, mean=60), np.full(k, 1 / k))
    packings = [pack_to(aim, Stream(seed)) for seed in range(40)]
    partitions = {tuple((bins[:, None] == bins).ravel().tolist()) for bins in packings}
    assert len(partitions) >= 36
    assert max(total(aim, bins) for bins in packings) <= cost_of_chance(aim) / 3 * (1 + 1e-9)


def test_few_groups_in_folds_cost_what_the_published_search_reaches() -> None:
    """20 groups of about 50 rows, 10 % of a class: no seed costs more than that search at its worst; most differ."""
    k, rng = 5, np.random.default_rng(0)
    sizes = rng.multinomial(1000, np.full(20, 0.05))
    rare = rng.binomial(sizes, rng.beta(1, 9, 20))
    table = np.column_stack([sizes - rare, rare])
    aim, published = (Aim(table, np.full(k, 1 / k), size_weight=weight) for weight in ("relative", 1.0))
    theirs = [total(published, Published().pack(published, Stream(seed))) for seed in range(9)]
    packings = [pack_to(aim, Stream(seed), close=True) for seed in range(20)]
    ours = [total(published, bins) for bins in packings]
    assert np.median(ours) <= np.median(theirs)
    assert max(ours) <= max(theirs)
    assert max(total(aim, bins) for bins in packings) <= cost_of_chance(aim) / 48 * (1 + 1e-9)
    assert len({tuple((bins[:, None] == bins).ravel().tolist()) for bins in packings}) >= 15


def test_where_close_is_out_of_reach_seeds_still_differ_a_little_above_the_best() -> None:
    """Sizes from 7 to 900 rows: no packing of 20 groups into 5 is close, and the missing class is not let go."""
    aim = Aim(groups(13, 20, 2), np.full(5, 0.2))
    enough, packings = cost_of_chance(aim) / 48, [pack_to(aim, Stream(seed), close=True) for seed in range(12)]
    best = total(aim, pack_to(aim, Stream(0), "max"))
    assert best > enough
    costs = [total(aim, bins) for bins in packings]
    assert max(costs) <= 2 * best + 2 * enough
    assert len({tuple((bins[:, None] == bins).ravel().tolist()) for bins in packings}) >= 6


def test_the_packing_depends_on_the_table_alone() -> None:
    table = groups(6, 150, 4)
    shares = np.array([0.5, 0.3, 0.2])
    wanted = pack_to(Aim(table, shares), Stream(7))
    for same in (np.asfortranarray(table), table.astype(np.int32), np.repeat(table, 2, axis=0)[::2]):
        assert np.array_equal(pack_to(Aim(same, shares), Stream(7)), wanted)


def test_a_rare_class_is_in_every_bin() -> None:
    table = groups(8, 300, 3, mean=100)
    table[:, 2] = 0
    table[::45, 2] = 1
    for seed in range(5):
        bins = pack_to(Aim(table, np.full(5, 0.2)), Stream(seed))
        assert np.bincount(bins, table[:, 2], 5).min() >= 1


def test_a_hundred_thousand_small_groups_are_even_to_a_row() -> None:
    rng = np.random.default_rng(0)
    table = rng.multinomial(1, [0.6, 0.3, 0.1], 100_000) * rng.integers(1, 4, (100_000, 1))
    aim = Aim(table, np.full(5, 0.2))
    loads = aim.loads(pack_to(aim, Stream(0), 2))
    assert np.abs(loads - loads.sum(axis=1, keepdims=True) / 5).max() < 1


def zipf(seed: int = 5, n: int = 120) -> Any:
    rng = np.random.default_rng(seed)
    sizes = 3_000 // np.arange(1, n + 1) + 1
    return np.array(
        [rng.multinomial(size, mix) for size, mix in zip(sizes, rng.dirichlet(np.full(3, 0.5), n), strict=True)]
    )


def test_high_effort_moves_large_groups() -> None:
    aim = Aim(zipf(n=60), np.full(5, 0.2))
    low, high = pack_to(aim, Stream(0), HIGH_EFFORT - 1), pack_to(aim, Stream(0), HIGH_EFFORT)
    assert total(aim, high) < total(aim, low) * 0.999
    assert np.bincount(high, minlength=5).min() >= 1
    few = Aim(zipf(n=MOST_ENTRIES + 1), np.full(3, 1 / 3))
    most, best = (total(few, pack_to(few, Stream(2), effort)) for effort in ("max", HIGH_EFFORT))
    assert most <= best * (1 + 1e-9), "the best of three starts is taken"


def test_high_effort_costs_no_more_where_groups_are_alike() -> None:
    seed = 0
    aim = Aim(groups(seed, 60, 3), np.array([0.5, 0.3, 0.15, 0.05]))
    assert total(aim, pack_to(aim, Stream(seed), 64)) <= total(aim, pack_to(aim, Stream(seed), 63))
    single = np.eye(4, dtype=np.int64)[np.random.default_rng(seed).integers(0, 4, 103)]
    exact = Aim(single, np.full(4, 0.25), size_weight="exact")
    assert np.ptp(np.bincount(pack_to(exact, Stream(seed), 64))) == 1


def test_high_effort_is_pinned() -> None:
    bins = pack_to(Aim(zipf(), np.full(5, 0.2)), Stream(3), 64)
    assert hashlib.sha256(bins.astype("<i8").tobytes()).hexdigest()[:16] == "437a2899f8497e1d"
    assert (BalancedGroupKFold(5).version, BalancedGroupKFold(5, effort=64).version) == (6, "6.1")


def test_a_population_is_left_out_where_bins_have_very_many_columns() -> None:
    for columns in (MOST_SUMS // 5 - 1, MOST_SUMS // 5):  # and one more: the sizes
        assert is_affordable(Aim(np.ones((5, columns), dtype=np.int64), np.full(5, 0.2))) == (columns < MOST_SUMS // 5)
    assert is_affordable(Aim(zipf(), np.full(5, 0.2)))
    require_table(MOST_CELLS // 4, 4)
    with pytest.raises(SplitError, match="are a table of 16 GB, and 16 GB are the most"):
        require_table(MOST_CELLS // 4 + 1, 4)
