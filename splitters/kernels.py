"""Randomness of raw Philox bits and integers alone, what is dealt by it, sizes by shares, and hashes of keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from math import ceil, floor, fsum, gcd
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import SplitError
from .numbers import IntArray as IntArray, is_real, is_whole, label_type, stable_order

# Numbers made at a time; a part of what the numbers are, so it never changes.
STRETCH = 1 << 14

# The first element of a stream's path says what the stream is for, so that no two purposes share numbers.
LABELS, DRAWS, HOLDOUT, PACKING, REPEATS, MADE_UP, EXTENDING, AUDITING, LOOKING, CROSSING, IMPORTANCE = range(11)
CALIBRATION = 11


class Stream:
    """Random decisions that depend on ``seed`` and ``path`` alone, the same on every CPU; other paths are independent.

    NumPy guarantees the bits of a bit generator for ever, but not what ``Generator`` makes of them (NEP 19).
    So only ``Philox`` raw bits are used here, and everything made from them is integer arithmetic or sorting.
    """

    def __init__(self, seed: int, *path: int) -> None:
        self.path = path
        bits = np.random.Philox(np.random.SeedSequence(seed, spawn_key=path))
        self.raw: Callable[[int], NDArray[np.uint64]] = bits.random_raw  # so many uniform 64-bit integers

    def permutation(self, n: int) -> IntArray:
        """Return the positions 0..n-1 in random order, in O(n log n)."""
        return self.shuffled_rows(1, n).reshape(n)

    def sides(self, n: int, first: int, second: int) -> tuple[IntArray, IntArray]:
        """Return the ``first`` and the next ``second`` positions of ``permutation``, each ascending, in O(n)."""
        keys, positions = self._keys(1, n)
        keys.partition([end for end in {first, first + second} if end < n])
        keys &= positions
        places, side = keys.reshape(n).view(np.int64), np.zeros(n, dtype=np.int8)
        side[places[:first]], side[places[first : first + second]] = 1, 2
        return np.flatnonzero(side == 1), np.flatnonzero(side == 2)

    def shuffled_by(self, codes: IntArray, n_codes: int) -> IntArray:
        """Return the positions of ``codes`` (0..n_codes-1) in their order, those of a code in random order.

        As in ``permutation``, about n**3 / 2**65 pairs of rows of the same code keep their order by equal random bits.
        """
        code_bits = max(n_codes - 1, 1).bit_length()
        keys, positions = self._keys(1, codes.size, shift=code_bits)
        keys |= codes.astype(np.uint64) << np.uint64(64 - code_bits)
        keys.sort()
        keys &= positions
        return keys.reshape(codes.size).view(np.int64)

    def shuffled_rows(self, rows: int, n: int) -> IntArray:
        """Return ``rows`` independent permutations of 0..n-1, one a row."""
        keys, positions = self._keys(rows, n)
        keys.sort(axis=1)  # of values, vectorised on every CPU; each carries its position, so no ties fall differently
        keys &= positions
        return keys.view(np.int64)

    def _keys(self, rows: int, n: int, shift: int = 0) -> tuple[NDArray[np.uint64], np.uint64]:
        """Return ``rows`` times random integers whose low bits are the positions 0..n-1, and the mask of those bits.

        Sorted they are random permutations. Their ``shift`` highest bits are left free.
        """
        positions = np.uint64((1 << max(n - 1, 1).bit_length()) - 1)
        keys = self.raw(rows * n).reshape(rows, n)
        keys >>= np.uint64(shift)
        keys &= ~positions
        keys |= np.arange(n, dtype=np.uint64)
        return keys, positions

    def below(self, bound: int, size: int, out: IntArray | None = None) -> IntArray:
        """Return ``size`` integers of 0..bound-1, all exactly equally likely (bound at most 2**32).

        Multiply-shift of 32 random bits, a stretch at a time; products whose low half would make some values likelier
        are drawn again. Many calls may share one ``out``. Source: Lemire (2019), Fast random integer generation in an
        interval.
        """
        numbers = np.empty(size, dtype=np.int64) if out is None else out
        # A view: products are turned into the returned numbers in place.
        products, uneven = numbers.view(np.uint64), np.uint32(2**32 % bound)
        for first in range(0, size, STRETCH):
            part = products[first : first + STRETCH]
            np.multiply(self._halves(part.size), np.uint64(bound), out=part)
            again = np.flatnonzero(part.astype(np.uint32) < uneven)
            while again.size:
                part[again] = self._halves(again.size) * np.uint64(bound)
                again = again[part[again].astype(np.uint32) < uneven]
            part >>= np.uint64(32)
        return numbers

    def _halves(self, size: int) -> NDArray[np.uint32]:
        """Return ``size`` uniform 32-bit integers: each 64-bit word's low half, then its high half."""
        return self.raw((size + 1) // 2).astype("<u8", copy=False).view("<u4")[:size]

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Return ``size`` numbers of [0, 1), multiples of 2**-53."""
        return (self.raw(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def take_evenly(n: int, count: int, stream: Stream) -> IntArray:
    """Return ``count`` of the ranks 0..n-1, ascending: systematic sampling with a random start, in integers.

    Each is as likely, and of any L consecutive ranks L x count / n are taken, rounded up or down. O(count).
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
    # The emptiest bins are lifted to one level of lack per share, which is found in the order of lacks: a bin that
    # holds too much already gets none.
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


def hashed(key: NDArray[Any], salt: str) -> NDArray[np.uint64]:
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


def scaled(words: NDArray[np.uint64], bound: int) -> NDArray[np.int64]:
    """Return floor(u x bound) for u = (the first 52 bits of each word) / 2**52, exactly, for any bound below 2**31."""
    # Two halves of 26 bits: times a bound below 2**31 each stays below 2**57, where 52 bits at once would overflow.
    high, low = words >> np.uint64(38), words >> np.uint64(12) & np.uint64(2**26 - 1)
    factor = np.uint64(bound)
    return ((high * factor + (low * factor >> np.uint64(26))) >> np.uint64(26)).view(np.int64)


_MIX_1, _MIX_2, _STEP = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), 0x9E3779B97F4A7C15


def mixed(words: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
    """Return number ``turn`` of the sequence that each word starts: splitmix64, in integers modulo 2**64.

    Number 0 follows the word itself. Source: Steele, Lea and Flood (2014), Fast splittable pseudorandom generators.
    """
    state = words + np.uint64((turn + 1) * _STEP & 0xFFFFFFFFFFFFFFFF)
    state ^= state >> np.uint64(30)
    state *= _MIX_1
    state ^= state >> np.uint64(27)
    state *= _MIX_2
    state ^= state >> np.uint64(31)
    return state


def combined(columns: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return one 64-bit code per place of ``columns`` (columns, places): equal places have equal codes.

    Others nearly always differ: the sum of column j times an odd number to the power j + 1, modulo 2**64.
    """
    # Powers of an odd number are odd and can be undone: places that differ in one column alone never share a code.
    powers = np.array([pow(_STEP, j + 1, 2**64) for j in range(columns.shape[0])], dtype=np.uint64)
    return np.asarray(np.einsum("j,jp->p", powers, columns.view(np.uint64)))
