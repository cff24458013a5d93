"""Texts: their numbers, words and parts."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sample import Array, Codes, Column

WORDS = 2  # of a text, on average
MOST_WORDS, MOST_PARTS = 100, 20
_NUMBER = re.compile(r"([-+]?\d+\.?\d*)\s?([kKmM]?)")
_SEPARATORS = re.compile(r"[-_/.:|\s]+")


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


def parts_of(column: Column) -> list[tuple[str, str, Codes]]:
    """Return name, part in words and the code of each row, of texts with as many parts or characters each."""
    texts = [column.levels[code] for code in _present(column)] if column.kind == "category" else []
    pieces = [_SEPARATORS.split(text) for text in texts]
    usual = Counter(map(len, pieces)).most_common(1)[0] if pieces else (0, 0)
    if usual[0] == 1 and len({len(text) for text in texts}) == 1:
        pieces, usual = [list(text) for text in texts], (len(texts[0]), len(texts))
    if not 1 < usual[0] <= MOST_PARTS or usual[1] < 0.9 * len(pieces):
        return []
    places = [[piece[place] if place < len(piece) else "" for piece in pieces] for place in range(usual[0])]
    return [
        (column.name, f"part {i + 1}", _by_row(column, np.unique(part, return_inverse=True)[1] + 1.0, 0).astype(int))
        for i, part in enumerate(places)
    ]


def _present(column: Column) -> Codes:
    return np.unique(column.values[~np.isnan(column.values)]).astype(np.int64)


def _by_row(column: Column, values: Any, gap: float = np.nan) -> Array:
    """Return each row's value, of values for the levels that are present, ascending."""
    return np.asarray(np.append(np.asarray(values, dtype=np.float64), gap)[column.codes])
