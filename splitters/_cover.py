"""A bound for few entries where branch and bound alone does not end: the linear program of covering them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from ._cost import Aim, FloatArray
from ._exact import best_packing, kinds_of_bins, subset_costs
from ._join import subset_sums
from ._order import stable_order
from ._random import IntArray

# Rounds of the linear program, and the most subsets that each adds to it.
ROUNDS, SHOWN = 25, 2_000
# A bound that is closer to the cost than a millionth proves it.
CLOSE = 1.0 - 1e-6


def covering_bound(aim: Aim, known: float) -> float:
    """Return a cost that no packing of few entries is below, given the cost of one; nearly always that of the best.

    The linear program gives prices of entries and bins. What these are worth is computed here, over all subsets, so
    that the bound is one whatever the solver's tolerance. A better packing can hold only subsets that cost hardly
    more than they are worth; these are few, and searched through.
    """
    order = stable_order(-aim.sizes)
    bins = kinds_of_bins(aim)
    costs = [subset_costs(aim, order, same[0]) / known for same in bins]
    masks = [np.flatnonzero(each <= 1.0) for each in costs]
    cover = Cover(
        order.size,
        np.concatenate(masks),
        np.concatenate([each[kept] for each, kept in zip(costs, masks, strict=True)]),
        np.repeat(np.arange(len(bins)), [kept.size for kept in masks]),
        np.array([len(same) for same in bins], dtype=np.float64),
    )
    bound, kept = cover.bound()
    if bound < CLOSE:
        bound = max(bound, best_packing(aim, known, subsets=kept).bound / known)
    return known * min(bound, 1.0)


@dataclass(frozen=True)
class Cover:
    """Subsets of ``n`` entries as bit masks, what each costs and the kind of bin it fills; and the bins of a kind.

    Costs are in units of a known packing's: only covers that cost less than 1 are of interest.
    """

    n: int
    masks: IntArray
    costs: FloatArray
    kind: IntArray
    counts: FloatArray

    def bound(self) -> tuple[float, list[IntArray]]:
        """Return a bound on the cost of a cover, and for each kind the subsets that a better one can hold.

        The program is solved for some subsets; those that cost less than its prices say join it, until there are
        none.
        """
        shown = stable_order(self.costs)[:SHOWN]
        best, kept = 0.0, np.ones(self.costs.size, dtype=np.bool_)
        for _ in range(ROUNDS):
            prices = self._prices(shown)
            if prices is None:
                break
            beyond = self.costs - subset_sums(prices[None, : self.n])[0][self.masks]
            least = np.array(
                [float(np.min(beyond, where=self.kind == f, initial=1.0)) for f in range(self.counts.size)]
            )
            bound = math.fsum([*prices[: self.n].tolist(), *(self.counts * least).tolist()])
            if bound > best:
                best, kept = bound, beyond - least[self.kind] <= 1.0 - bound
            cheap = np.flatnonzero(beyond < prices[self.n :][self.kind] - 1e-9)
            if cheap.size == 0:
                break
            shown = np.union1d(shown, cheap[stable_order(beyond[cheap])[:SHOWN]])
        return best, [self.masks[kept & (self.kind == f)] for f in range(self.counts.size)]

    def _prices(self, shown: IntArray) -> FloatArray | None:
        """Return prices of entries, then of bins, worth the most while no subset shown costs less than its own."""
        entries = self.masks[shown, None] >> np.arange(self.n) & 1
        holds = np.column_stack([entries, self.kind[shown, None] == np.arange(self.counts.size)])
        gain = -np.concatenate([np.ones(self.n), self.counts])
        solved = linprog(gain, A_ub=csr_array(holds, dtype=float), b_ub=self.costs[shown], bounds=(-1.0, 1.0))
        return None if solved.x is None else np.asarray(solved.x)
