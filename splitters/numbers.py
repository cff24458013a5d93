"""Numbers alike on every machine: random ones, values made codes and put in order, and what is said of both as JSON."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from .errors import SplitError, reason_of

IntArray = NDArray[np.int64]
_pools = lru_cache(maxsize=1)(lambda _n_modules: ThreadpoolController())


def thread_pools() -> ThreadpoolController:
    """Return what limits the threads of the libraries loaded by now: sums in parallel differ in their last bits.

    The libraries are looked for once, until more modules are loaded: it takes milliseconds, and draws are many.
    """
    return _pools(len(sys.modules))


def label_type(n_labels: int) -> type[np.int16] | type[np.int32]:
    """Return the smallest of int16 and int32 that holds ``n_labels`` labels."""
    return np.int16 if n_labels <= 32_767 else np.int32


def plain_numbers(value: Any) -> Any:
    """Return NumPy's numbers as Python's, alone or inside mappings, lists and tuples; anything else as it is.

    Of single precision the number that was written: 0.2, not 0.20000000298. What holds none stays the same object.
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return float(str(value)) if value.dtype.kind == "f" else value.item()
    if type(value) not in (dict, list, tuple):
        return value
    inside = value.values() if isinstance(value, dict) else value
    plain = [plain_numbers(each) for each in inside]
    if all(map(is_, plain, inside)):
        return value
    return dict(zip(value, plain, strict=True)) if isinstance(value, dict) else type(value)(plain)


DEEPEST = 50
NESTED = (Mapping, list, tuple)
PLAIN = {str, int, float, bool, type(None)}  # most values: whether another is a mapping takes ten times as long to ask
TOO_DEEP = f"values are nested more than {DEEPEST} deep; write them flatter"


def require_bounded(values: Any) -> None:
    """Raise ValueError for values that are nested more than 50 deep, or within themselves.

    What walks through values calls itself for each level. What stands in several places is looked through once.
    """
    level = [values]
    for _ in range(DEEPEST):
        parts = [each.values() if isinstance(each, Mapping) else each for each in level if isinstance(each, NESTED)]
        level = list({id(each): each for part in parts for each in part if type(each) not in PLAIN}.values())
        if not level:
            return
    if any(isinstance(value, NESTED) for value in level):
        raise ValueError(TOO_DEEP)


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is an integer of Python or NumPy, and no boolean."""
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def is_real(value: Any) -> bool:
    """Return whether ``value`` is a finite number of Python or NumPy, and no boolean."""
    return (isinstance(value, (float, np.floating)) or is_whole(value)) and bool(np.isfinite(float(value)))


def check_count(name: str, value: Any, least: int, most: int | None = None, among: str = "") -> None:
    """Raise SplitError unless ``value`` is an integer of at least ``least``; at most ``most``, ``among`` "3 groups"."""
    if not is_whole(value) or value < least:
        raise SplitError(f"{name}={value!r}; choose a whole number of at least {least}.")
    if most is not None and value > most:
        several = f"{least} or {most}" if most == least + 1 else f"{least} to {most:,}"
        advice = "pass more" if most < least else f"choose {several if most > least else least}"
        raise SplitError(f"{name}={value} with {among}; {advice}.")


def check_number(name: str, value: Any, hint: str) -> None:
    """Raise SplitError, which ends in the hint, unless ``value`` is a finite number of at least 0."""
    if not (is_real(value) and value >= 0):
        raise SplitError(f"{name}={value!r}; choose a number of at least 0, {hint}.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise SplitError unless ``value`` is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        *some, last = map(repr, choices)
        raise SplitError(f"{name}={value!r}; choose {', '.join(some)} or {last}.")


MOST_CLASSES_OF_NUMBERS = 20
CLASSES_VERSION = 2  # of this rule: by the first one every floating number was a number


def is_number(dtype_kind: str, distinct: Callable[[], Any]) -> bool:
    """Return whether a target is numbers rather than classes: the one rule of splits, reports and models.

    ``dtype_kind`` is NumPy's letter for the column's type, ``distinct`` returns its different values, or more than 20
    of them; nothing missing. Integers and floats are numbers where one has a fraction, or more than 20 are different.
    """
    if dtype_kind not in ("i", "u", "f"):
        return False
    values = distinct()
    if len(values) > MOST_CLASSES_OF_NUMBERS or dtype_kind != "f":
        return len(values) > MOST_CLASSES_OF_NUMBERS
    numbers = np.asarray(values, dtype=np.float64)
    return not np.all(np.isfinite(numbers) & (numbers == np.floor(numbers)))


@dataclass(frozen=True)
class Coded:
    """Values that a container has encoded already, none missing: int64 codes by first appearance, and their values.

    ``codes`` (n, or n by columns); ``levels`` of the column, or of each; ``names`` of the columns, for messages only.
    """

    codes: IntArray
    levels: list[Any]
    names: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self.codes.shape


def encode(values: Any, name: str) -> tuple[IntArray, list[Any]]:
    """Return a code per value, by first appearance, and the values that the codes stand for. O(n).

    Missing values (None, NaN, NaT, NA) are a SplitError that counts them.
    """
    if isinstance(values, Coded):
        return values.codes, values.levels
    array = present(values, name)
    if array.dtype.kind not in "biufmM" or array.dtype.itemsize > 8:
        seen: dict[Any, int] = {}  # not by pandas, of which some versions read a text to its first NUL alone
        try:
            numbers = (seen.setdefault(value, len(seen)) for value in array.tolist())
            return np.fromiter(numbers, np.int64, array.size), list(seen)
        except TypeError as error:
            what = f"{name} holds values that cannot be compared ({reason_of(error)})"
            raise SplitError(f"{what}; pass numbers or text.") from None
    from pandas import factorize

    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    # Times as whole numbers: pandas makes other units of them.
    codes, levels = factorize(array.view(np.int64) if array.dtype.kind in "mM" else array)
    return codes, np.asarray(levels).view(array.dtype).tolist()


def array_of(values: Any, name: str) -> NDArray[Any]:
    """Return ``values`` as an array in which every value is still itself."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of unequal length
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = value
    # NumPy makes text of everything beside text (NaN becomes the word), and floats of integers beyond its own.
    kind = array.dtype.kind if isinstance(values, (list, tuple)) else ""
    if kind in ("U", "S") or (kind == "f" and (np.abs(array) >= 2.0**53).any()):
        array = np.array(values, dtype=object)
    if array.ndim == 0:
        raise SplitError(f"{name} is of type {type(values).__name__}; pass one value per row.")
    return array.astype(object) if array.dtype.kind == "T" else array  # text that has its own missing value


def present(values: Any, name: str) -> NDArray[Any]:
    """Return ``values``, of any container, as an array of one dimension that misses nothing."""
    array = array_of(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise SplitError(f"{name} has {array.ndim} dimensions; pass one value per row.")
    require_present(array, name)
    return array


def require_present(array: NDArray[Any], name: str, mend: str = "drop or fill those rows first.") -> None:
    """Raise a SplitError that counts the missing values, if there are any, and says what would ``mend`` it."""
    from pandas import isna

    rows = np.flatnonzero(isna(array)) if array.dtype.kind in "fcmMO" else np.zeros(0, dtype=np.int64)
    if rows.size:
        what = f"{name} is missing (None or NaN) in {rows.size:,} of {array.size:,} rows (first at {first_rows(rows)})"
        raise SplitError(f"{what}; {mend}")


def first_rows(rows: IntArray) -> str:
    """Return ``row 3`` or ``rows 3, 7, 9`` for the first three positions."""
    return ("row " if rows.size == 1 else "rows ") + ", ".join(str(row) for row in rows[:3].tolist())


_SIGN = np.int64(-(2**63))


def stable_order(values: NDArray[Any]) -> IntArray:
    """Return the positions of ``values`` in ascending order, equal values by position. Values are finite.

    NumPy's fast argsorts leave equal values in an order that differs between CPUs. Here each value's leading bits and
    its position share one 64-bit integer, which is faster too; ties of leading bits are settled afterwards. O(n log n).
    """
    if values.size == 0 or values.dtype.kind == "O" or values.dtype.itemsize <= 2:
        return np.argsort(values, kind="stable").astype(np.int64, copy=False)  # small integers: a radix sort, O(n)
    keys, position_bits = _ordered_bits(values), max(values.size - 1, 1).bit_length()
    # A narrow range leaves room for the position, so that nothing of most columns is lost.
    keys -= keys.min()
    lost = max(int(keys.max()).bit_length() + position_bits - 64, 0)
    keys >>= np.uint64(lost)
    keys <<= np.uint64(position_bits)
    keys |= np.arange(keys.size, dtype=np.uint64)
    keys.sort()
    order: IntArray = (keys & np.uint64((1 << position_bits) - 1)).view(np.int64)
    if lost:
        keys >>= np.uint64(position_bits)
        # tied[i] says whether slot i has the leading bits of slot i - 1.
        tied = np.zeros(order.size + 1, dtype=np.bool_)
        np.equal(keys[1:], keys[:-1], out=tied[1:-1])
        del keys  # of whole numbers nearly all rows are tied, and what follows takes 24 bytes of each
        slots = np.flatnonzero(tied[1:] | tied[:-1])
        rows = order[slots]
        ranked = values[rows]
        # All at once: rows of different leading bits are in order, so none leaves the slots of its own tie.
        if (ranked[1:] < ranked[:-1]).any():
            order[slots] = rows[np.argsort(ranked, kind="stable")]
    return order


def _ordered_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a new array of integers that are in the same order as the numbers or times."""
    if values.dtype.kind == "u":
        return values.astype(np.uint64)
    if values.dtype.kind != "f":
        return (values.astype(np.int64) ^ _SIGN).view(np.uint64)
    bits = (values.astype(np.float64, copy=False) + 0.0).view(np.int64)  # -0.0 becomes 0.0
    # As integers, doubles below 0 run backwards: of those all bits are flipped, of the others the sign alone.
    flipped = bits >> np.int64(63)
    flipped |= _SIGN
    bits ^= flipped
    return bits.view(np.uint64)


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

        Multiply-shift of 32 random bits, a stretch at a time; products whose low half would make values likelier are
        drawn again. Calls may share ``out``. Source: Lemire (2019), Fast random integer generation in an interval.
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


GOLDEN = 0x9E3779B97F4A7C15  # 2**64 by the golden ratio, made odd


def combined(columns: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return one 64-bit code per place of ``columns`` (columns, places): equal places have equal codes.

    Others nearly always differ: the sum of column j times an odd number to the power j + 1, modulo 2**64.
    """
    # Powers of an odd number are odd and can be undone: places that differ in one column alone never share a code.
    powers = np.array([pow(GOLDEN, j + 1, 2**64) for j in range(columns.shape[0])], dtype=np.uint64)
    return np.asarray(np.einsum("j,jp->p", powers, columns.view(np.uint64)))


def by_appearance(codes: NDArray[np.integer]) -> IntArray:
    """Return codes from 0 on in the order in which they first appear."""
    from pandas import factorize

    return factorize(codes)[0]


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces: the same text for the same value everywhere."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no canonical JSON")


def digest_json(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of ``value``, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
