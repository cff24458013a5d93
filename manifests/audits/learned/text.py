"""Texts: their numbers, words and parts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .sample import Array, Codes, Column

WORDS = 2  # of a text, on average
MOST_WORDS, MOST_PARTS = 100, 12
PIECES = r"\d+|[^\W\d_]+"  # of a text: what separators set off, and digits from letters
_NUMBER = re.compile(r"([-+]?\d+\.?\d*)\s?([kKmM]?)")


def numbers_in(column: Column) -> Array:
    """Return the first number in each text of a column, 780 of '€ 0.78k p.m.'; NaN where there is none."""
    read = {"k": 1e3, "m": 1e6}

    def number(text: str) -> float:
        match = _NUMBER.search(text.replace(",", "").replace("'", ""))
        return float(match[1]) * read.get(match[2].lower(), 1.0) if match else np.nan

    return _by_row(column, [number(column.levels[code]) for code in _present(column)])


def words_of(column: Column) -> dict[str, NDArray[np.bool_]]:
    """Return the rows that hold each of the commonest words of a text of several; at most 100 words."""
    held = [set(re.findall(r"\w+", column.levels[code].casefold())) for code in _present(column)]
    if not held or np.mean([len(words) for words in held]) < WORDS:
        return {}
    counts = Counter(word for words in held for word in words)
    return {
        word: _by_row(column, [float(word in words) for words in held]) > 0
        for word, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_WORDS]
        if 1 < count < len(held)
    }


@dataclass(frozen=True, eq=False)
class Part:
    """A part of each text: its place in words, what takes it in pandas, the first text's, and each row's code."""

    words: str
    taken: str
    example: str | None
    codes: Codes


def parts_of(column: Column, regular: bool = False) -> list[Part]:
    """Return what separators set off in texts, and digits from letters, alone and as beginnings.

    ``regular``: of texts alone of which most have as many parts, or as many characters and no parts.
    """
    texts = [column.levels[code] for code in _present(column)] if column.kind == "category" else []
    pieces = [*map(re.compile(PIECES).findall, texts)]
    if regular and {*map(len, pieces)} == {1} and len({*map(len, texts)}) == 1:
        pieces = [list(text) for text in texts]
    if not texts or (regular and Counter(map(len, pieces)).most_common(1)[0][1] < 0.9 * len(texts)):
        return []
    most = min(max(map(len, pieces)), MOST_PARTS)
    slices = [(f"part {i + 1}", f"[{i}]", slice(i, i + 1)) for i in range(most)]
    slices += [(f"the first {i} parts", f"[:{i}].str.join('')", slice(i)) for i in range(2, most)]
    parts = ((words, taken, ["".join(piece[at]) or None for piece in pieces]) for words, taken, at in slices)
    return [
        Part(words, taken, part[0], _by_row(column, pd.factorize(np.array(part, dtype=object))[0], -1.0).astype(int))
        for words, taken, part in parts
    ]


def _present(column: Column) -> Codes:
    return np.unique(column.values[~np.isnan(column.values)]).astype(np.int64)


def _by_row(column: Column, values: Any, gap: float = np.nan) -> Array:
    """Return each row's value, of values for the levels that are present, ascending."""
    return np.asarray(np.append(np.asarray(values, dtype=np.float64), gap)[column.codes])
