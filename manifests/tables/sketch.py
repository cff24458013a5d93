"""A sketch of columns, small enough to keep, that tells how many rows have changed since."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.splitters.kernels import splitmix64
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from .canonical import STRETCH, amount, filled, to_numpy, whole

SIZES = (509, 521, 523, 541)  # of four tables, in which each row has a place
FEW = 20  # rows: that two of them share a place in each table happens in one case of a hundred
FULL = 0.98  # of the places: beyond it nothing is told but that it is more


class Sketch(BaseModel):
    """The sketch of each column that tells how many rows differ later, in key order; ``keys`` names the keys.

    In each of four tables every row has a place at random; kept are 16 bits of the sum of the hashes at each place.
    """

    model_config = ConfigDict(frozen=True)

    keys: str
    rows: int
    columns: dict[str, str]

    @classmethod
    def of(cls, table: pa.Table, keys: str) -> Self:
        """Return the sketch of a canonical table in key order: 6 kB a column. O(n)."""
        sums = {name: np.zeros(sum(SIZES), dtype=np.int64) for name in table.column_names}
        for start in range(0, table.num_rows, STRETCH):
            part = table.slice(start, STRETCH)
            # Neighbours are no nearer than others.
            words = splitmix64(np.arange(start, start + part.num_rows, dtype=np.uint64), 0)
            places = [(words % np.uint64(size)).astype(np.int64) for size in SIZES]
            for name in table.column_names:
                hashes = _hashes(whole(part.column(name)))
                sums[name] += np.concatenate(
                    [np.bincount(of, hashes, size) for of, size in zip(places, SIZES, strict=True)]
                ).astype(np.int64)
        columns = {name: b64encode(each.astype("<u2").tobytes()).decode() for name, each in sums.items()}
        return cls(keys=keys, rows=table.num_rows, columns=columns)

    def changed(self, now: Sketch, names: Iterable[str]) -> str:
        """Return in how many rows a column has another value ``now``, exact up to 20; "" where keys are others."""
        if (self.keys, self.rows) != (now.keys, now.rows) or not {*names} <= self.columns.keys() & now.columns.keys():
            return ""
        differs = np.any([_read(self.columns[name]) != _read(now.columns[name]) for name in names], axis=0)
        counts = [int(part.sum()) for part in np.split(differs, np.cumsum(SIZES)[:-1])]
        if max(counts) <= FEW:
            return f"in {amount(max(counts), 'row')}"
        shares = [min(count / size, FULL) for count, size in zip(counts, SIZES, strict=True)]
        about = np.mean([-size * np.log1p(-share) for share, size in zip(shares, SIZES, strict=True)])
        how = "about" if min(shares) < FULL else "more than"
        return f"in {how} {float(f'{about:.2g}'):,.0f} rows" if about < self.rows / 2 else "in most rows"


def _hashes(array: pa.Array) -> NDArray[np.uint64]:
    """Return 16 bits of a hash of each value, 0 for none; of them half differ, so that alike changes do not cancel."""
    if pa.types.is_large_string(array.type):
        encoded = array.dictionary_encode()
        words = pd.util.hash_array(encoded.dictionary.to_numpy(zero_copy_only=False).astype(object), categorize=False)
        values = words[encoded.indices.fill_null(0).to_numpy()] if words.size else np.zeros(len(array), np.uint64)
    else:
        numbers = to_numpy(filled(array))
        values = numbers.view(np.uint64) if numbers.itemsize == 8 else numbers.astype(np.uint64)
    hashes = splitmix64(values, 0) >> np.uint64(48)
    hashes[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


def _read(marks: str) -> NDArray[np.uint16]:
    return np.frombuffer(b64decode(marks), dtype="<u2")
