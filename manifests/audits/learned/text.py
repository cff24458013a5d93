"""Texts: which say nearly the same (min-hashes of runs of words, in bands), their numbers, words and parts."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from typing import Any

import numpy as np
from evenfold.splitters import Stream
from evenfold.splitters.kernels.random import AUDITING
from numpy.typing import NDArray

from .sample import Array, Codes, Column

BANDS, ROWS_A_BAND = 16, 4  # pairs of a Jaccard similarity of .5 are found with 64 %, of .8 with 99.98 %
SIMILAR = 0.6  # share of the min-hashes that must agree
WORDS, LEAST_WORDS = 2, 5
_WORD = re.compile(r"[^\W\d_]+")
MOST_WORDS, MOST_PARTS = 100, 20
_NUMBER = re.compile(r"([-+]?\d+\.?\d*)\s?([kKmM]?)")
_SEPARATORS = re.compile(r"[-_/.:|\s]+")
_PRIME = np.uint64((1 << 61) - 1)


def is_prose(column: Column) -> bool:
    """Return whether a column holds texts of several words, parted by spaces, that are mostly different."""
    if column.kind != "category" or column.n_levels < column.values.size / 3:
        return False
    words = [sum(bool(_WORD.search(piece)) for piece in text.split()) for text in column.levels[:200]]
    return float(np.median(words)) >= LEAST_WORDS


def similar_texts(column: Column) -> tuple[Codes, Codes]:
    """Return pairs of rows whose texts are equal, or share most of their runs of two words.

    Source: Broder (1997), On the resemblance and containment of documents; bands after Indyk and Motwani (1998).
    Case, punctuation and digits do not count, and a text without a word is in no pair. O(words) in time, 512 bytes a
    text.
    """
    spoken = [code for code, text in enumerate(column.levels) if _WORD.search(text)]
    signatures = _signatures([column.levels[code] for code in spoken])
    a, b = (np.concatenate(side) for side in zip(*map(_candidates, _bands(signatures)), strict=True))
    alike = (signatures[a] == signatures[b]).mean(axis=1) >= SIMILAR
    # The place among the spoken texts of each row's, -1 where it has none.
    place = np.full(len(column.levels) + 1, -1)
    place[spoken] = np.arange(len(spoken))
    texts = place[np.where(np.isnan(column.values), -1, column.values).astype(np.int64)]
    rows, first = np.flatnonzero(texts >= 0), np.zeros(len(spoken), dtype=np.int64)
    # Written backwards, so that the first row of each text is the one that stays.
    first[texts[rows[::-1]]] = rows[::-1]
    again = rows[first[texts[rows]] != rows]
    return np.append(first[a[alike]], first[texts[again]]), np.append(first[b[alike]], again)


def _signatures(texts: list[str]) -> NDArray[np.uint64]:
    size = BANDS * ROWS_A_BAND
    factors = Stream(0, AUDITING, 9).raw(size) >> np.uint64(32) | np.uint64(1)
    shifts = Stream(0, AUDITING, 10).raw(size) >> np.uint64(3)
    signatures = np.empty((len(texts), size), dtype=np.uint64)
    for i, text in enumerate(texts):
        words = _WORD.findall(text.casefold())
        runs = [" ".join(words[j : j + WORDS]) for j in range(max(len(words) - WORDS + 1, 1))]
        hashes = np.array([zlib.crc32(run.encode()) for run in runs], dtype=np.uint64)
        signatures[i] = ((hashes[:, None] * factors + shifts) % _PRIME).min(axis=0)
    return signatures


def _bands(signatures: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    mixed = []
    for i in range(BANDS):
        total = np.zeros(len(signatures), dtype=np.uint64)
        for column in signatures[:, i * ROWS_A_BAND : (i + 1) * ROWS_A_BAND].T:
            total = (total ^ column) * np.uint64(0x9E3779B97F4A7C15)
            total ^= total >> np.uint64(29)
        mixed.append(total)
    return mixed


def _candidates(band: NDArray[np.uint64]) -> tuple[Codes, Codes]:
    order = np.argsort(band, kind="stable")
    same = np.flatnonzero(band[order][1:] == band[order][:-1])
    return order[same], order[same + 1]


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
