"""The best packing of few entries, with proof: a search of all ways to cover them with good subsets."""

from __future__ import annotations

import math

import numpy as np
from evenfold.splitters.numbers import IntArray, stable_order
from scipy.optimize import linprog
from scipy.sparse import csr_array

from .cost import MISSING, Aim, FloatArray, subset_sums

MOST_ENTRIES = 22  # the cost of every subset is computed: 2**22 of them
BUDGET = 400_000_000  # subsets looked at in all
NODE = 5_000  # what a node costs besides, in subsets
DEEPENING = 1.0 / 64.0, 1.0 / 8.0, 1.0 / 2.0, 1.0  # the search is first done for much cheaper packings: it is quick
ROUNDING = 1e-9  # a packing is better only if it is so by more than rounding


def best_packing(
    aim: Aim, incumbent: float, budget: int = BUDGET, subsets: list[IntArray] | None = None
) -> tuple[IntArray | None, float]:
    """Return the best packing of at most ``MOST_ENTRIES`` entries that leaves no bin empty, given the cost of one.

    None where none was found that is better; and beside it a bound, where the budget ends the largest cost below which
    the search was completed. Branch and bound: the largest entry without a bin is covered by each subset that fits,
    cheap ones first, while the prices of the entries left (a solution of the dual of the covering problem) leave room
    for something better. ``subsets``: all that a better packing can hold, for each of the ``kinds_of_bins``.
    """
    if not aim.n_bins <= aim.sizes.size <= MOST_ENTRIES:
        return None, 0.0
    order = stable_order(-aim.sizes)
    search = _Search(aim, order, incumbent, budget)
    bound = 0.0
    for part in DEEPENING if subsets is None else DEEPENING[-1:]:
        if search.run(incumbent * part, subsets):
            bound = search.best if search.cover else incumbent * part
        # Where not even the first, much cheaper aim was searched through, the budget is gone.
        if search.cover or bound == 0.0:
            break
    if not search.cover:
        return None, bound
    bins = np.empty(order.size, dtype=np.int64)
    for f, mask in search.cover:
        bins[order[np.flatnonzero((mask >> np.arange(order.size)) & 1)]] = f
    return bins, bound


class _Search:
    """Depth-first over the bins of the largest entry left; bins with the same aim are one kind."""

    def __init__(self, aim: Aim, order: IntArray, incumbent: float, budget: int) -> None:
        self.kinds = kinds_of_bins(aim)
        self.costs = [subset_costs(aim, order, bins[0]) for bins in self.kinds]
        self.n, self.all = order.size, (1 << order.size) - 1
        self.best, self.left = incumbent, budget
        self.cover: list[tuple[int, int]] = []

    def run(self, below: float, subsets: list[IntArray] | None = None) -> bool:
        """Search for the cheapest cover below ``below``; return whether the search was completed."""
        self.best = below * (1.0 - ROUNDING)
        good = subsets or [np.flatnonzero(costs <= below) for costs in self.costs]
        prices = _prices(self.n, [(masks, costs[masks]) for masks, costs in zip(good, self.costs, strict=True)])
        self.price = subset_sums(prices[None])[0]
        self.lists: list[list[tuple[IntArray, FloatArray]]] = []
        for masks, costs in zip(good, self.costs, strict=True):
            # What a subset costs beyond its prices, never below 0: in this order _fitting cuts a list where room ends.
            reduced = costs[masks] - self.price[masks]
            order = stable_order(reduced)
            masks, reduced = masks[order], reduced[order]
            holds = (masks >> entry & 1 == 1 for entry in range(self.n))
            self.lists.append([(masks[held], reduced[held]) for held in holds])
        try:
            self._cover(self.all, tuple(len(bins) for bins in self.kinds), 0.0, [])
        except _BudgetSpent:
            return False
        return True

    def _cover(self, rest: int, free: tuple[int, ...], cost: float, chosen: list[tuple[int, int]]) -> None:
        # The lowest bit is the largest entry left: every cover holds it in exactly one subset.
        entry = (rest & -rest).bit_length() - 1
        for kind, masks in self._fitting(entry, rest, free, cost):
            after = tuple(count - (other == kind) for other, count in enumerate(free))
            if sum(after) == 1:
                self._close(rest, kind, masks, after.index(1), cost, chosen)
                continue
            for mask, more in zip(masks.tolist(), self.costs[kind][masks].tolist(), strict=True):
                # With all that is left in one bin, the others would stay empty.
                if mask != rest and cost + more + self.price[rest ^ mask] < self.best:
                    self._cover(rest ^ mask, after, cost + more, [*chosen, (kind, mask)])

    def _fitting(self, entry: int, rest: int, free: tuple[int, ...], cost: float) -> list[tuple[int, IntArray]]:
        # cost + costs[mask] + price[rest ^ mask] < best, with the prices of `rest` taken to the other side.
        room = self.best - cost - float(self.price[rest])
        fitting = []
        for kind, count in enumerate(free):
            if count:
                masks, reduced = self.lists[kind][entry]
                within = masks[: int(np.searchsorted(reduced, room))]
                self.left -= within.size + NODE
                fitting.append((kind, within[within & ~rest == 0]))
        if self.left < 0:
            raise _BudgetSpent
        return fitting

    def _close(
        self, rest: int, kind: int, masks: IntArray, last: int, cost: float, chosen: list[tuple[int, int]]
    ) -> None:
        """Give the last bin what each of ``masks`` leaves, and keep the best."""
        if masks.size == 0:
            return
        totals = cost + self.costs[kind][masks] + self.costs[last][rest ^ masks]
        i = int(np.argmin(totals))
        if totals[i] < self.best:
            self.best = float(totals[i])
            # The search counts bins of one kind only; which of them gets which subset is all the same.
            names = [iter(bins) for bins in self.kinds]
            cover = [*chosen, (kind, int(masks[i])), (last, rest ^ int(masks[i]))]
            self.cover = [(next(names[of]), mask) for of, mask in cover]


class _BudgetSpent(Exception):
    """The search has looked at as many subsets as it may."""


def kinds_of_bins(aim: Aim) -> list[list[int]]:
    """Return the bins of each share."""
    kinds: dict[float, list[int]] = {}
    for f, wanted in enumerate(aim.wanted.tolist()):
        kinds.setdefault(wanted, []).append(f)
    return list(kinds.values())


def subset_costs(aim: Aim, order: IntArray, f: int) -> FloatArray:
    """Return what bin ``f`` costs with each subset of the entries, bit i standing for entry ``order[i]``."""
    vectors = aim.vectors[:, order]
    rows = subset_sums(vectors[:1])[0]
    squares = np.zeros(rows.size)
    for excess in vectors[1:]:
        total = subset_sums(excess[None])[0]
        squares += total * total
    off = rows - aim.wanted[f]
    # The empty subset is given its cost below; here it must only not be 0 / 0.
    rows[0] = math.inf
    costs: FloatArray = squares / (rows * rows) + aim.pull[f] * (off * off)
    subsets = np.arange(rows.size)
    for column in np.flatnonzero(aim.needed).tolist():
        having = int(np.sum(1 << np.flatnonzero(aim.table[order, column])))
        costs[subsets & having == 0] += MISSING
    costs[0] = math.inf
    return costs


def _prices(n: int, lists: list[tuple[IntArray, FloatArray]]) -> FloatArray:
    """Return prices of entries, largest first, as high as can be with no subset costing less than its entries do."""
    prices = np.zeros(n)
    left = [(masks, costs.copy()) for masks, costs in lists]
    for entry in range(n):
        held = [(costs, (masks >> entry) & 1 == 1) for masks, costs in left]
        # An entry that no subset holds gets an infinite price: there is no cover, and nothing will fit.
        prices[entry] = min(float(np.min(costs, where=holds, initial=math.inf)) for costs, holds in held)
        for costs, holds in held:
            costs[holds] -= prices[entry]
    return prices


# Rounds of the linear program, and the most subsets that each adds to it.
ROUNDS, SHOWN = 25, 2_000
# A bound that is closer to the cost than a millionth proves it.
PROVED = 1.0 - 1e-6


def covering_bound(aim: Aim, incumbent: float) -> float:
    """Return a cost that no packing of few entries is below, given the cost of one; nearly always that of the best.

    The linear program prices entries and bins; what these are worth is computed over all subsets, whatever the solver's
    tolerance. The few subsets that cost hardly more than they are worth are searched through.
    """
    order = stable_order(-aim.sizes)
    bins = kinds_of_bins(aim)
    # In units of the known cost, so that a subset above 1 can be in no better packing.
    costs = [subset_costs(aim, order, same[0]) / incumbent for same in bins]
    masks = [np.flatnonzero(cost <= 1.0) for cost in costs]
    bound, covers = bound_by_prices(
        order.size,
        np.concatenate(masks),
        np.concatenate([cost[covers] for cost, covers in zip(costs, masks, strict=True)]),
        np.repeat(np.arange(len(bins)), [covers.size for covers in masks]),
        np.array([len(same) for same in bins], dtype=np.float64),
    )
    if bound < PROVED:
        bound = max(bound, best_packing(aim, incumbent, subsets=covers)[1] / incumbent)
    return incumbent * min(bound, 1.0)


def bound_by_prices(
    n: int, masks: IntArray, costs: FloatArray, kind: IntArray, counts: FloatArray
) -> tuple[float, list[IntArray]]:
    """Return a bound on the cost of a cover, and for each kind of bin the subsets that a better cover can hold.

    ``masks``: subsets of ``n`` entries, each with its cost, in units of a known packing's, and its kind of bin;
    ``counts``: the bins of a kind. Subsets that cost less than the program's prices join it in rounds.
    """
    cheapest = stable_order(costs)[:SHOWN]
    best, able = 0.0, np.ones(costs.size, dtype=np.bool_)
    for _ in range(ROUNDS):
        # Prices of entries, then of bins, worth the most while no subset that is shown costs less than its own.
        entries = masks[cheapest, None] >> np.arange(n) & 1
        holds = np.column_stack([entries, kind[cheapest, None] == np.arange(counts.size)])
        # linprog minimises. The bounds on prices keep entries that no subset shown holds from being worth any amount.
        gain = -np.concatenate([np.ones(n), counts])
        prices = linprog(gain, A_ub=csr_array(holds, dtype=float), b_ub=costs[cheapest], bounds=(-1.0, 1.0)).x
        if prices is None:
            break
        beyond = costs - subset_sums(prices[None, :n])[0][masks]
        least = np.array([float(np.min(beyond, where=kind == f, initial=1.0)) for f in range(counts.size)])
        # Any cover costs its entries' prices and, for each bin, at least what the cheapest subset of its kind costs
        # beyond them. That holds for all prices, however far the solver's are from the best ones.
        bound = math.fsum([*prices[:n].tolist(), *(counts * least).tolist()])
        if bound > best:
            # A cover with this subset costs at least bound + (beyond - least); a better one stays below 1.
            best, able = bound, beyond - least[kind] <= 1.0 - bound
        cheap = np.flatnonzero(beyond < prices[n:][kind] - 1e-9)
        if cheap.size == 0:
            break
        cheapest = np.union1d(cheapest, cheap[stable_order(beyond[cheap])[:SHOWN]])
    return best, [masks[able & (kind == f)] for f in range(counts.size)]
