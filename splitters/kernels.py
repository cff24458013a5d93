"""Kernels of strategies: rows dealt at random, sizes by shares, hashes of keys, numbers joined and looked up."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from math import ceil, floor, fsum, gcd
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import SplitError
from .numbers import GOLDEN, IntArray, Stream, by_appearance, is_real, is_whole, label_type, stable_order


def take_evenly(n: int, count: int, stream: Stream) -> IntArray:
    """Return ``count`` of the ranks 0..n-1, ascending: systematic sampling with a random start, in integers.

    Every rank is equally likely; of any L consecutive ranks, L x count / n are taken, rounded up or down. O(count).
    Source: Madow and Madow (1944), On the theory of systematic sampling.
    """
    start = int(stream.below(n, 1)[0])
    # Rank r is taken where start + r x count passes a multiple j of n: r = ceil((j n - start) / count). Multiple 0 is
    # passed by rank 0, and only from a start below count.
    crossings = np.arange(count) + (start >= count)
    return -((start - crossings * n) // count)


def shuffled_in_blocks(n: int, length: int, stream: Stream) -> IntArray:
    """Return the ranks 0..n-1 with each ``length`` neighbours in random order; the last block may be shorter. O(n)."""
    whole = n - n % length
    blocks = stream.shuffled_rows(whole // length, length) + np.arange(0, whole, length)[:, None]
    return np.concatenate([blocks.reshape(-1), whole + stream.permutation(n - whole)])


def deal(order: IntArray, n_folds: int, stream: Stream, by: Literal["cycle", "block"]) -> NDArray[Any]:
    """Return a fold for each row, so that neighbours in ``order`` land in different folds.

    ``cycle``: one random permutation of the folds, repeated. Folds' counts in any run of consecutive rows differ by at
    most 1, so classes laid end to end have even counts, and so has the whole. ``block``: a fresh permutation for every
    ``n_folds`` rows. Counts before any point of the order differ by at most 1, and which rows meet is as random as that
    allows. O(n), and O(n log n_folds) for blocks.
    """
    n = order.size
    labels: NDArray[Any] = np.empty(n, dtype=label_type(n_folds))
    if by == "cycle":
        dealt: NDArray[Any] = np.resize(stream.permutation(n_folds).astype(labels.dtype), n)
    else:
        dealt = stream.shuffled_rows(-(-n // n_folds), n_folds).reshape(-1)[:n]
    labels[order] = dealt
    return labels


def fill(strata: IntArray, held: IntArray, shares: NDArray[np.float64], stream: Stream) -> IntArray:
    """Return a bin for each new row, at random among those of its stratum.

    ``strata`` is each new row's class (or bin of a number, or 0); ``held`` what each bin holds of each stratum already
    (bins by strata); bin f wants ``shares[f]`` of every stratum. Promises: a stratum is as close to its shares as is
    possible without moving a row: where no bin had more than its share before, every bin is within 1 row of it, and so
    are the sizes. O(n log n + strata x bins log bins).
    """
    order = stable_order(strata)
    counts = np.bincount(strata, minlength=held.shape[1])
    bins = np.empty(strata.size, dtype=np.int64)
    owed = np.zeros(shares.size)
    start = 0
    for stratum in np.flatnonzero(counts).tolist():
        count = int(counts[stratum])
        seats, owed = _seats(held[:, stratum], count, shares, owed)
        bins[order[start : start + count][stream.permutation(count)]] = np.repeat(np.arange(shares.size), seats)
        start += count
    return bins


def _seats(
    held: IntArray, count: int, shares: NDArray[np.float64], owed: NDArray[np.float64]
) -> tuple[IntArray, NDArray[np.float64]]:
    """Return how many of ``count`` rows each bin gets, and what rounding owes each: carried on, so sizes round once."""
    # The emptiest bins are lifted to one level of lack per share, found in the order of lacks; too full ones get none.
    missing = shares * (int(held.sum()) + count) - held
    lack = missing / shares
    order = np.argsort(-lack, kind="stable")
    levels = (np.cumsum(missing[order]) - count) / np.cumsum(shares[order])
    level = levels[np.flatnonzero(lack[order] > levels)[-1]]
    wanted = np.maximum(missing - level * shares, 0.0)
    seats = np.floor(wanted + 1e-9).astype(np.int64)  # a whole number of rows may come as a little less in floats
    left = wanted - seats
    # Bins that lack a part of a row come before any that holds its share or more, whatever these are owed.
    served = np.lexsort((-(left + owed), left <= 1e-9))[: count - int(seats.sum())]
    # The rounding rest is less than a row a bin, so no bin is served twice.
    seats[served] += 1
    return seats, owed + wanted - seats


def groups_until(sizes: IntArray, wanted: int, most: int) -> IntArray:
    """Return the places of the groups to take from an order so that their rows come close to ``wanted``.

    ``sizes`` are the groups' rows in that order. At least one group is taken and at most ``most``, while they bring the
    number closer; those that alone would miss it by more than none at all are passed over, unless all are like that.
    It is missed by half the largest group taken or met after, at most, as long as the groups suffice. O(groups).
    """
    fit = np.flatnonzero(sizes < 2 * wanted)
    fit = fit if fit.size else np.arange(1)
    missed = np.abs(np.cumsum(sizes[fit])[:most] - wanted)
    return fit[: 1 + int(np.argmin(missed))]


def trained_part(parts: Mapping[str, float]) -> str:
    """Return the part that is trained on: train, or the largest of those that are not called validation or test.

    Raises SplitError where two are the largest, or all are called validation and test.
    """
    if "train" in parts:
        return "train"
    able = {name: share for name, share in parts.items() if name not in ("validation", "test")}
    largest = [name for name, share in able.items() if share == max(able.values())]
    if len(largest) != 1:
        why = f"{' and '.join(map(repr, largest))} are as large" if largest else "each is for judging by its name"
        raise SplitError(f"parts={dict(parts)!r} do not say which is trained on ({why}); call that one 'train'.")
    return largest[0]


def codes_of(parts: Mapping[str, float]) -> dict[str, int]:
    """Return the code of each part: the trained one -1, validation 0, test -2 (0 beside that alone), others 1, …"""
    train = trained_part(parts)
    codes = {train: -1, "validation": 0, "test": 0 if len(parts) == 2 else -2}
    others = [name for name in parts if name not in codes]
    return {name: codes[name] if name in codes else 1 + others.index(name) for name in parts}


def shares_of_parts(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each part: as it is given, or its part of all where whole numbers count folds to merge."""
    whole = fsum(parts.values()) if merged_folds(parts) else 1.0
    return {name: share / whole for name, share in parts.items()}


def merged_folds(parts: Mapping[str, float]) -> int:
    """Return how many folds are merged to parts, by the least whole numbers of the same shares; 0 for fractions."""
    counts = [int(count) for count in parts.values() if is_whole(count) and count >= 1]
    return sum(counts) // gcd(*counts) if len(counts) == len(parts) else 0


Size = float | int | None


def rows_of_share(share: float, n: int, *, trained: bool = False) -> int:
    """Return how many of ``n`` rows a share is, of draws, parts (all tested ones together) and holdouts.

    The rule of scikit-learn's ShuffleSplit: what is tested is rounded up, what is trained on is rounded down.
    """
    rows = float(share) * n  # 0.1 x 30 is a little above 3 in floats; that is no fourth row
    return floor(rows + 1e-9) if trained else ceil(rows - 1e-9)


def sizes_of(n: int, test_size: Size, train_size: Size, default: float) -> tuple[int, int]:
    """Return (train rows, test rows) of ``n``; SplitError where a side stays empty or both together are more than n.

    A size is a share (``rows_of_share``) or a number of rows; what is not given is what the other leaves, and test gets
    ``default`` where neither is given.
    """
    if test_size is None and train_size is None:
        test_size = default
    n_test = None if test_size is None else _rows("test_size", test_size, n)
    n_train = None if train_size is None else _rows("train_size", train_size, n, trained=True)
    n_test = n - (n_train or 0) if n_test is None else n_test
    n_train = n - n_test if n_train is None else n_train
    if n_train < 1 or n_test < 1 or n_train + n_test > n:
        raise SplitError(
            f"test_size={test_size} and train_size={train_size} make {n_train:,} train and {n_test:,} test rows "
            f"of {n:,}; choose sizes that leave each side a row and are no more than all."
        )
    return n_train, n_test


def _rows(name: str, size: float | int, n: int, trained: bool = False) -> int:
    if is_whole(size):
        return int(size)
    if is_real(size) and 0 < size < 1:
        return rows_of_share(size, n, trained=trained)
    raise SplitError(f"{name}={size!r}; choose a share above 0 and below 1, or a whole number of rows.")


def key_hashes(key: NDArray[Any], salt: str) -> NDArray[np.uint64]:
    """Return the first 64 bits of SHA-256(salt + "|" + key) for each key: decimal digits, or a text's UTF-8 bytes.

    Other keys have no text that every engine agrees on and are a SplitError. O(n), about a microsecond a key.
    """
    values = key.tolist()
    unfit = () if key.dtype.kind in "iu" else (value for value in values if type(value) not in (str, int))
    for value in unfit:
        raise SplitError(
            f"key holds {value!r} ({type(value).__name__}); pass integers or text, which hash alike anywhere."
        )
    digests = (sha256(f"{salt}|{value}".encode()).digest()[:8] for value in values)
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def bounded(words: NDArray[np.uint64], bound: int) -> NDArray[np.int64]:
    """Return floor(u x bound) for u = (the first 52 bits of each word) / 2**52, exactly, for any bound below 2**31."""
    # Two halves of 26 bits: times a bound below 2**31 each stays below 2**57, where 52 bits at once would overflow.
    high, low = words >> np.uint64(38), words >> np.uint64(12) & np.uint64(2**26 - 1)
    factor = np.uint64(bound)
    return ((high * factor + (low * factor >> np.uint64(26))) >> np.uint64(26)).view(np.int64)


_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def splitmix64(words: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
    """Return number ``turn`` of the sequence that each word starts: splitmix64, in integers modulo 2**64.

    Number 0 follows the word itself. Source: Steele, Lea and Flood (2014), Fast splittable pseudorandom generators.
    """
    state = words + np.uint64((turn + 1) * GOLDEN & 0xFFFFFFFFFFFFFFFF)
    state ^= state >> np.uint64(30)
    state *= _MIX_1
    state ^= state >> np.uint64(27)
    state *= _MIX_2
    state ^= state >> np.uint64(31)
    return state


LOOKED_UP = 1 << 20  # numbers at a time


def places_in(ordered: NDArray[np.int64], wanted: NDArray[np.int64]) -> IntArray:
    """Return where each wanted whole number stands among ``ordered``, one or more that ascend; -1 where it does not.

    By a table of all numbers between the ends, where these are dense; else by search, a stretch of sorted numbers at a
    time. O(ordered + wanted), or O(wanted log ordered).
    """
    places, (least, most) = np.empty(wanted.size, dtype=np.int64), ordered[[0, -1]]
    width, table = int(most) - int(least) + 1, None
    if ordered.size < width <= 4 * min(ordered.size, 8 * wanted.size):
        table = np.full(width, -1, dtype=np.int32 if ordered.size < 2**31 else np.int64)
        for start in range(0, ordered.size, LOOKED_UP):
            part = ordered[start : start + LOOKED_UP] - least
            table[part] = np.arange(start, start + part.size)
    for start in range(0, wanted.size, LOOKED_UP):
        part, place = wanted[start : start + LOOKED_UP], places[start : start + LOOKED_UP]
        if table is None and width > ordered.size:
            order = stable_order(part)
            near = np.minimum(np.searchsorted(ordered, part[order]), ordered.size - 1)
            place[order] = np.where(ordered[near] == part[order], near, -1)
        else:
            near = np.clip(part, least, most)
            at = near - least
            place[:] = np.where(near == part, at if table is None else table[at], -1)
    return places


def components_of(entities: IntArray) -> IntArray:
    """Return the component of each row, by first appearance: rows that share a level of any column have the same one.

    ``entities`` (rows, columns) are codes from 0 on; a code below 0 joins nothing. About O(rows x columns).
    """
    n = entities.shape[0]
    sizes = entities.max(axis=0, initial=-1) + 1
    # A row's levels hang on its node: 0 to n - 1 are the rows, then each column's levels after those before it.
    nodes = entities + n + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    present = entities >= 0
    rows = np.broadcast_to(np.arange(n)[:, None], entities.shape)[present]
    return by_appearance(joined_by(rows, nodes[present], n + int(sizes.sum()))[:n])


def joined_by(a: IntArray, b: IntArray, n: int) -> IntArray:
    """Return the component of each of ``n`` nodes that the edges from ``a`` to ``b`` join."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(a.size, dtype=np.int8), (a, b)), shape=(n, n))
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.int64)
