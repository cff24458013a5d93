"""Marks that tell a class: a level, a gap, a word, digits beyond the usual, a part of an identifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from evenfold.manifests.audits.features import correlation
from evenfold.manifests.audits.findings import DropFeatures, Found, Outcome
from evenfold.manifests.tables.canonical import listed
from evenfold.splitters.deployed import shown

from .entities import LEAST_LEVELS, level_effect
from .sample import BY_CHANCE, Array, Codes, Column, Sample
from .text import parts_of, words_of

LEAST_ROWS, LEAST_SHARE = 10, 0.01
PURE, USUAL, OF_ITS_CLASS = 0.99, 0.7, 0.1
COMMON = 0.2  # share of the rows that have one value, from which another value is a mark
ELSEWHERE = 0.2  # of the variance between the other levels: beyond it the column is a strong feature
LEAST_EFFECT, NAMES_ROWS, MORE_DIGITS = 0.1, 0.8, 2


@dataclass(frozen=True, eq=False)
class Mark:
    """Rows by level of what may be a mark, in words, and the column it was read out of."""

    words: str
    column: str
    codes: Codes
    labels: tuple[Any, ...]
    numbers: Column | None = None


def pure_levels(sample: Sample) -> Outcome:
    """Look for levels that (nearly) only one class has, and for parts of identifiers that tell the target.

    Levels are values, gaps, the number of gaps in a row, words of a text, and cells with two digits more than usual.
    One counts if at least 1 % of the rows have it, .99 of them are of one class, which is not the rule (.7), it holds a
    tenth of that class, and chance brings that forth with .03 / 15 over all levels; of a number its neighbours on the
    scale are the measure. Where the column's other levels tell as much it is a feature and no mark. A part of a key, or
    of a text that names rows, may explain .1 of the target. O(columns x n log n) for at most 8,000 rows.
    """
    if sample.why_not:
        return sample.why_not
    sample = sample.learned
    marks = [] if sample.target.numeric else [*_marks(sample)]
    signs = {mark.column: sign for mark in marks if (sign := _pure(mark, sample, marks))}
    signs |= _identifier_parts(sample)
    if not signs:
        return None
    message = (
        f"{listed(signs.values())}{sample.looked_at}: known only after {sample.target.name!r}, or its mark; exclude "
        f"{listed(signs)} unless known before."
    )
    return Found(len(signs), message, {"features": [*signs]}, DropFeatures(tuple(signs)))


def _marks(sample: Sample) -> Iterator[Mark]:
    gaps, with_gaps = np.zeros(sample.rows.size, dtype=np.int64), 0
    for column in sample.feature_columns():
        present = column.codes >= 0
        gaps += ~present
        if column.kind != "category":
            yield Mark(repr(column.name), column.name, column.codes + 1, (), column)
            more = column.decimals >= np.median(column.decimals) + MORE_DIGITS
            yield Mark(f"more digits than usual in {column.name!r}", column.name, more.astype(np.int64), (False, True))
        else:
            labels = tuple(column.levels[int(code)] for code in np.unique(column.values[present]))
            yield Mark(repr(column.name), column.name, column.codes + 1, (None, *labels))
            for word, holds in words_of(column).items():
                yield Mark(f"word {shown(word)} in {column.name!r}", column.name, holds.astype(np.int64), (False, True))
        sizes = np.bincount(column.codes[present], minlength=1)
        if sizes.max() >= COMMON * present.size:
            usual = column.codes == sizes.argmax()
            words = f"another value than {_written(column, column.values[usual][0])} in {column.name!r}"
            yield Mark(words, column.name, (present & ~usual).astype(np.int64), (..., True))
        if not present.all():
            with_gaps += 1
            yield Mark(f"a gap in {column.name!r}", column.name, (~present).astype(np.int64), (False, True))
    if with_gaps > 1:
        yield Mark("the number of gaps in a row", "gaps", gaps, tuple(range(int(gaps.max()) + 1)))


def _written(column: Column, value: float) -> str:
    time = column.kind == "time" and str(np.datetime64(int(value), "us" if abs(value) > 1e9 else "D"))[:19]
    return time or (shown(column.levels[int(value)]) if column.kind == "category" else f"{value:g}")


def _pure(mark: Mark, sample: Sample, marks: list[Mark]) -> str:
    from scipy.stats import binom

    classes = np.unique(sample.target.values, return_inverse=True)[1]
    base = np.bincount(classes) / classes.size
    table = np.bincount(mark.codes * base.size + classes, minlength=(mark.codes.max() + 1) * base.size)
    table = table.reshape(-1, base.size)
    sizes, most = table.sum(axis=1), table.argmax(axis=1)
    top, usual = table.max(axis=1), base[most]
    least = max(LEAST_ROWS, LEAST_SHARE * classes.size)
    pure = (sizes >= least) & (top >= PURE * sizes) & (usual <= USUAL)
    pure &= (top >= OF_ITS_CLASS * usual * classes.size) & (sizes < classes.size)
    for level in np.flatnonzero(pure):
        if mark.labels and mark.labels[level] is ...:
            continue
        rows, own = mark.codes == level, float(usual[level])
        if mark.numbers is not None and np.isfinite(value := mark.numbers.values[rows][0]):
            away = np.where(rows, np.inf, np.nan_to_num(np.abs(mark.numbers.values - value), nan=np.inf))
            near = np.argsort(away, kind="stable")[: sizes[level]]
            own = max(own, float((classes[near] == most[level]).mean()))
        tried = sum(np.count_nonzero(np.bincount(each.codes) >= least) for each in marks)
        if binom.sf(top[level] - 1, sizes[level], own) * tried >= BY_CHANCE:
            continue
        if np.bincount(classes[~rows]).max() >= PURE * np.count_nonzero(~rows):
            continue  # all of the column tells it: a copy, of which another check speaks
        same = np.isin(mark.codes, np.flatnonzero(pure & (most == most[level])))  # one class may have several codes
        if _elsewhere(mark, ~same, sample.target.outcomes) < ELSEWHERE:
            row = int(np.flatnonzero(rows & (classes == most[level]))[0])
            label = mark.labels[level] if mark.numbers is None else _written(mark.numbers, mark.numbers.values[row])
            of = sample.joined.column(sample.target.name)[int(sample.rows[row])].as_py()
            what = mark.words if label is True else f"{mark.words} = {shown(label)}"
            return (
                f"{what} has {sample.target.name!r} = {shown(of)} in {top[level]:,} of {sizes[level]:,} rows "
                f"({usual[level]:.0%} of all)"
            )
    return ""


def _elsewhere(mark: Mark, rest: Any, outcomes: Array) -> float:
    """Return how much of the target the other levels tell, those of a number by their order."""
    if mark.numbers is None:
        return level_effect(outcomes[rest], mark.codes[rest]).share
    use, values = rest & np.isfinite(mark.numbers.values), mark.numbers.values
    return max((correlation(values[use], outcome) ** 2 for outcome in outcomes[use].T if use.any()), default=0.0)


def _identifier_parts(sample: Sample) -> dict[str, str]:
    keys = sample.key_columns()
    texts = [c for c in sample.feature_columns() if c.kind == "category" and c.n_levels >= NAMES_ROWS * c.values.size]
    parts = [(column, part) for column in [*keys, *texts] for part in parts_of(column, regular=True)]
    signs: dict[str, str] = {}
    for column, part in parts:
        # Parts of a key with more levels may be an entity, which is another check's question.
        if not 1 <= part.codes.max() < (LEAST_LEVELS - 1 if column in keys else part.codes.size / 20 - 1):
            continue
        effect, name = level_effect(sample.target.outcomes, part.codes), column.name
        if effect.chance * len(parts) < BY_CHANCE and effect.within > LEAST_EFFECT:
            sentence = f"{part.words} of {name!r} tells {effect.within:.0%} of the variance of {sample.target.name!r}"
            signs.setdefault(name, sentence)
    return signs
