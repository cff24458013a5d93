"""The pack kernel: entries of a table go whole into bins, so that every column is shared out evenly."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from evenfold.splitters.kernels.order import stable_order
from evenfold.splitters.kernels.random import IntArray, Stream

from .cost import Aim, FloatArray, cost_of_chance
from .exact import BUDGET, MOST_ENTRIES, NODE, best_packing
from .exchange import Packing
from .population import Population, fits
from .start import deal_identical, kinds, place

Effort = int | Literal["max"]

DEFAULT_EFFORT = 16
HIGH_EFFORT = 64  # from here on large entries are moved by a population of packings as well
MOST_EFFORT = 400
MOST_PATIENCE = 30
MOST_STARTS = 3
MOST_STARTS_OF_FEW = 50
NODES = 3_000  # of branch and bound by default: a tenth of a second, about
FEW, FEW_A_BIN = 20, 6  # with no more entries an optimiser ends at the same packing whatever the seed
MOVABLE = 256  # entries a bin, the smallest, that exchanges choose from where there are very many
ALIKE = 4  # and of entries that are alike, at most so many a bin
GOOD_ENOUGH = 1.0 / 3.0  # of what rows that fall into the bins one by one would cost
CLOSE = 1.0 / 48.0  # the same for folds and parts of whole groups: about what the published search reaches
LEAST_CLOSE = 15  # with fewer entries hardly any packing is so close, so that seeds would not differ
SLACK = 2.0  # of CLOSE: how much more than the best found packings may cost where that is not close


def pack_to(
    aim: Aim, stream: Stream, effort: Effort = DEFAULT_EFFORT, *, close: bool = False, exact: bool = False
) -> IntArray:
    """Return a bin for each entry of ``aim``, an int64 array; none stays empty while there are as many entries.

    Identical entries are dealt out at once, the others placed one by one, large before small; then ``effort``
    rounds of exchanges between pairs of bins lower the cost, each the best of about a million. Exchanges move small
    entries; from an effort of 64 on a population of packings moves the largest as well, and never to a higher cost.
    With few entries the seed chooses among all packings that cost at most ``GOOD_ENOUGH`` of what rows that fall into
    the bins one by one would cost (``close``: at most ``CLOSE`` of it with 15 entries or more, or near the best that
    half of ``effort`` starts found); with ``effort="max"`` it is the best one, proved where branch and bound comes to
    an end. With ``exact`` and the default effort so is that of up to 20 entries, within ``NODES`` of the search.

    Arithmetic is elementwise, column after column, so every machine takes the same path.
    O(entries x bins x columns), then about a millisecond a pair of bins and round.
    """
    if exact and effort != "max" and effort >= DEFAULT_EFFORT and aim.sizes.size <= FEW:
        return best_of_few(aim, stream, effort, NODES * NODE)
    if aim.sizes.size <= max(FEW if effort != "max" else MOST_ENTRIES, FEW_A_BIN * aim.n_bins):
        return pack_few(aim, stream, effort, close=close and aim.sizes.size >= LEAST_CLOSE)
    kind = kinds(np.column_stack([aim.sizes, aim.table]))
    dealt, movable = deal_identical(kind, aim.shares, stream), _movable(aim, kind)
    packings = [_placed(aim, dealt.copy(), stream, movable) for _ in range(MOST_STARTS if effort == "max" else 1)]
    for packing in packings:
        packing.improve(*((MOST_EFFORT, MOST_PATIENCE) if effort == "max" else (effort,)))
    best = min(packings, key=lambda packing: packing.cost)
    if searches_on(effort) and fits(best.aim):
        packing = Packing(best.aim, Population(best.aim, best.bins, stream).search(), stream, movable)
        packing.improve(MOST_EFFORT)
        best = packing if packing.cost < best.cost else best
    return best.bins


def searches_on(effort: Effort) -> bool:
    """Return whether a population of packings follows the exchanges: at high effort, where there are many entries."""
    return effort == "max" or effort >= HIGH_EFFORT


def pack_few(aim: Aim, stream: Stream, effort: Effort, *, close: bool = False) -> IntArray:
    """Return a bin for each of few entries: one of the many packings that are good enough, or the best."""
    if effort == "max":
        return best_of_few(aim, stream, MOST_STARTS_OF_FEW, BUDGET)
    enough = (CLOSE if close else GOOD_ENOUGH) * cost_of_chance(aim)
    best = best_of_starts(aim, stream, max(effort // 2, 1) if close else effort, enough)
    slack = SLACK * enough if close and best.cost > enough else 0.0
    # A best packing above the limit sets the limit itself: it is varied, and never for a worse one.
    best.wander(effort // 2, max(enough, best.cost + slack))
    return best.bins


def best_of_few(aim: Aim, stream: Stream, starts: int, budget: int) -> IntArray:
    """Return the best of some starts, or a better one where a search of all packings finds it within ``budget``."""
    best = best_of_starts(aim, stream, starts)
    proven = best_packing(aim, best.cost, budget).bins
    return best.bins if proven is None else proven


def best_of_starts(aim: Aim, stream: Stream, starts: int, enough: float = 0.0) -> Packing:
    """Return the best of ``starts`` packings that no exchange between two bins betters, or the first good enough."""
    best = _placed(aim, np.full(aim.sizes.size, -1), stream)
    for start in range(starts):
        # The first is the one placed above, improved in place: an effort of 0 returns it as it was placed.
        packing = best if start == 0 else _placed(aim, np.full(aim.sizes.size, -1), stream)
        packing.improve(MOST_EFFORT, enough=enough)
        if packing.cost < best.cost:
            best = packing
        if best.cost <= enough:
            break
    return best


def _placed(aim: Aim, bins: IntArray, stream: Stream, movable: IntArray | None = None) -> Packing:
    place(aim, bins, stream)
    # Exact sizes are those of the start: which bins are larger by a row is decided there.
    exact = np.bincount(bins, aim.sizes, aim.n_bins).astype(np.float64)
    return Packing(replace(aim, wanted=exact) if aim.exact else aim, bins, stream, movable)


def _movable(aim: Aim, kind: IntArray) -> IntArray:
    """Return the smallest entries, not too many of a kind, largest last."""
    by_kind = stable_order(kind)
    counts = np.bincount(kind)
    turn = np.empty(kind.size, dtype=np.int64)
    # Each entry's rank within its kind.
    turn[by_kind] = np.arange(kind.size) - np.repeat(np.cumsum(counts) - counts, counts)
    few = np.flatnonzero(turn < ALIKE * aim.n_bins)
    return few[stable_order(aim.sizes[few])[: MOVABLE * aim.n_bins]]


def pack_into(held: IntArray, table: IntArray, shares: FloatArray, stream: Stream) -> IntArray:
    """Return a bin for each entry of ``table``, where bin f holds ``held[f]`` of each column already.

    The entries go in largest first, each to the bin that lacks most of what it brings, then they are exchanged among
    themselves; what the bins hold stays. Costs and arithmetic are those of ``pack_to``.
    """
    n_bins = held.shape[0]
    # What a bin holds is one more entry, in its bin from the start and never among the movable ones.
    aim = Aim.of(np.vstack([held, table]), shares)
    bins = np.concatenate([np.arange(n_bins), np.full(table.shape[0], -1)])
    place(aim, bins, stream)
    packing = Packing(aim, bins, stream, np.arange(n_bins, bins.size))
    packing.improve(DEFAULT_EFFORT)
    return packing.bins[n_bins:]
