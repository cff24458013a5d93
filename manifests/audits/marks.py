"""Marks that tell a class, cells that were filled and features that were chosen with the targets of all rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests.store.state import cell_counts
from evenfold.manifests.tables.canonical import listed
from evenfold.splitters.errors import shown
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

from .columns import LEAST_LEVELS, Array, Codes, Column, correlation, f_chance, left_of, level_effect
from .findings import CheckOutcome, DropFeatures, Found, needed
from .sample import BY_CHANCE, Sample

PURE = 0.99


@dataclass(frozen=True, eq=False)
class Mark:
    """Rows by level of what may be a mark, in words, and the column it was read out of."""

    words: str
    column: str
    codes: Codes
    labels: tuple[Any, ...] = (False, True)  # ...: of the usual value, which is no mark
    numbers: Column | None = None


def pure_levels(subsample: Sample) -> CheckOutcome:
    """Look for levels that (nearly) only one class has, and for parts of identifiers that tell the target.

    Levels are values, gaps, the number of gaps in a row, words of a text, and cells with two digits more than usual.
    Where the column's other levels tell as much it is a feature and no mark. O(columns x n log n) for at most 8,000
    rows.
    """
    marks = [] if subsample.target.numeric else [*_marks(subsample)]
    signs = {mark.column: sign for mark in marks if (sign := _pure(mark, subsample, marks))}
    signs |= _identifier_parts(subsample)
    what = f"{listed(signs.values())}{subsample.looked_at}: known only after {subsample.target.name!r}, or its mark"
    cure = f"exclude {listed(signs)} unless known before"
    return Found(len(signs), f"{what}; {cure}.", {"features": [*signs]}, DropFeatures(tuple(signs))) if signs else None


def _marks(sample: Sample) -> Iterator[Mark]:
    gaps, with_gaps = np.zeros(sample.rows.size, dtype=np.int64), 0
    for column in sample.feature_columns():
        present = column.codes >= 0
        gaps += ~present
        if column.kind != "category":
            yield Mark(repr(column.name), column.name, column.codes + 1, (), column)
            more = column.decimals >= np.median(column.decimals) + 2
            yield Mark(f"more digits than usual in {column.name!r}", column.name, more.astype(np.int64))
        else:
            yield Mark(repr(column.name), column.name, column.codes + 1, (None, *column.texts))
            for word, holds in _words_of(column).items():
                yield Mark(f"word {shown(word)} in {column.name!r}", column.name, holds.astype(np.int64))
        sizes = np.bincount(column.codes[present], minlength=1)
        if sizes.max() >= 0.2 * present.size:  # so common that any other value may be a mark
            usual = column.codes == sizes.argmax()
            words = f"another value than {_written(column, column.values[usual][0])} in {column.name!r}"
            yield Mark(words, column.name, (present & ~usual).astype(np.int64), (..., True))
        if not present.all():
            with_gaps += 1
            yield Mark(f"a gap in {column.name!r}", column.name, (~present).astype(np.int64))
    if with_gaps > 1:
        yield Mark("the number of gaps in a row", "gaps", gaps, tuple(range(int(gaps.max()) + 1)))


PIECES = r"\d+|[^\W\d_]+"  # of a text: what separators set off, and digits from letters


def _words_of(column: Column) -> dict[str, NDArray[np.bool_]]:
    """Return the rows that hold each of the commonest words of texts of two or more on average; at most 100 words."""
    held = [set(re.findall(r"\w+", text.casefold())) for text in column.texts]
    if not held or np.mean([len(words) for words in held]) < 2:
        return {}
    counts = Counter(word for words in held for word in words)
    return {
        word: column.by_level([float(word in words) for words in held]) > 0
        for word, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:100]
        if 1 < count < len(held)
    }


def parts_of(column: Column, regular: bool = False) -> Iterator[tuple[str, str, str | None, Codes]]:
    """Yield what separators set off in texts, and digits from letters, alone and as beginnings.

    Of each its place in words, what takes it in pandas, the first text's, and each row's code. ``regular``: none
    unless most texts have as many parts, or as many characters and no parts.
    """
    texts = pd.Series(column.texts if column.kind == "category" else [], dtype=object)
    pieces: Any = texts.str.findall(PIECES)
    if regular and {*pieces.str.len()} == {1} and texts.str.len().nunique() == 1:
        pieces = texts.map(list)
    if not len(texts) or (regular and (pieces.str.len() == pieces.str.len().mode()[0]).mean() < 0.9):
        return
    most = min(int(pieces.str.len().max()), 12)
    parts = [(f"part {i + 1}", f"[{i}]", pieces.str[i]) for i in range(most)]
    first = [(i, pieces.str[:i].str.join("").replace("", None)) for i in range(2, most)]
    parts += [(f"the first {i} parts", f"[:{i}].str.join('')", part) for i, part in first]
    for words, taken, part in parts:
        yield words, taken, part[0], column.by_level(pd.factorize(part)[0], -1.0).astype(np.int64)


def _written(column: Column, value: float) -> str:
    time = column.kind == "time" and str(np.datetime64(int(value), "us" if abs(value) > 1e9 else "D"))[:19]
    return time or (shown(column.levels[int(value)]) if column.kind == "category" else f"{value:g}")


def _pure(mark: Mark, sample: Sample, marks: list[Mark]) -> str:
    classes = np.unique(sample.target.values, return_inverse=True)[1]
    base, least = np.bincount(classes) / classes.size, max(10, 0.01 * classes.size)
    table = cell_counts(mark.codes, classes, int(mark.codes.max()) + 1, base.size)
    sizes, top, most = table.sum(axis=1), table.max(axis=1), table.argmax(axis=1)
    usual = base[most]
    pure = (sizes >= least) & (top >= PURE * sizes) & (usual <= 0.7)
    pure &= (top >= 0.1 * usual * classes.size) & (sizes < classes.size)
    for level in np.flatnonzero(pure):
        if mark.labels and mark.labels[level] is ...:
            continue
        rows, own = mark.codes == level, float(usual[level])
        if mark.numbers is not None and np.isfinite(value := mark.numbers.values[rows][0]):
            away = np.where(rows, np.inf, np.nan_to_num(np.abs(mark.numbers.values - value), nan=np.inf))
            near = np.argsort(away, kind="stable")[: sizes[level]]
            own = max(own, float((classes[near] == most[level]).mean()))
        tried = sum(np.count_nonzero(np.bincount(each.codes) >= least) for each in marks)
        by_chance = binom.sf(top[level] - 1, sizes[level], own) * tried >= BY_CHANCE
        # All of the column tells it: a copy, of which another check speaks.
        copies = np.bincount(classes[~rows]).max() >= PURE * np.count_nonzero(~rows)
        same = np.isin(mark.codes, np.flatnonzero(pure & (most == most[level])))  # one class may have several codes
        # Where the other levels tell as much, the column is a strong feature.
        if not by_chance and not copies and _elsewhere(mark, ~same, sample.target.outcomes) < 0.2:
            row = int(np.flatnonzero(rows & (classes == most[level]))[0])
            label = mark.labels[level] if mark.numbers is None else _written(mark.numbers, mark.numbers.values[row])
            of = sample.joined.column(sample.target.name)[int(sample.rows[row])].as_py()
            what = mark.words if label is True else f"{mark.words} = {shown(label)}"
            how_many = f"in {top[level]:,} of {sizes[level]:,} rows ({usual[level]:.0%} of all)"
            return f"{what} has {sample.target.name!r} = {shown(of)} {how_many}"
    return ""


def _elsewhere(mark: Mark, rest: Any, outcomes: Array) -> float:
    """Return how much of the target the other levels tell, those of a number by their order."""
    if mark.numbers is None:
        return level_effect(outcomes[rest], mark.codes[rest]).share
    use, values = rest & np.isfinite(mark.numbers.values), mark.numbers.values
    return max((correlation(values[use], outcome) ** 2 for outcome in outcomes[use].T if use.any()), default=0.0)


def _identifier_parts(sample: Sample) -> dict[str, str]:
    keys = sample.key_columns()
    texts = [c for c in sample.feature_columns() if c.kind == "category" and c.n_levels >= 0.8 * c.values.size]
    parts = [(column, words, codes) for column in [*keys, *texts] for words, _, _, codes in parts_of(column, True)]
    signs: dict[str, str] = {}
    for column, words, codes in parts:
        # Parts of a key with more levels may be an entity, which is another check's question.
        if 1 <= codes.max() < (LEAST_LEVELS - 1 if column in keys else codes.size / 20 - 1):
            effect, name = level_effect(sample.target.outcomes, codes), column.name
            if effect.chance * len(parts) < BY_CHANCE and effect.within > 0.1:
                tells = f"tells {effect.within:.0%} of the variance of {sample.target.name!r}"
                signs.setdefault(name, f"{words} of {name!r} {tells}")
    return signs


MOST_OTHERS, CUT = 30, 0.05


def filled_cells(subsample: Sample) -> CheckOutcome:
    """Look for numbers whose gaps were filled with the help of the target.

    Filled are cells with more digits than usual that scatter less around what the other columns say; the target may
    not explain more there than in measured cells. O(columns x n x 30^2) for at most 8,000 rows.
    """
    target, signs, rows = subsample.target, dict[str, str](), dict[str, list[int]]()
    outcomes = np.column_stack([_scaled(target.values), target.outcomes]) if target.numeric else target.outcomes
    numbers = {c: _scaled(c.values) for c in subsample.feature_columns() if c.kind == "number" and c.n_levels > 2}
    least = 20 + 5 * min(len(numbers) - 1, MOST_OTHERS)
    for column, own in numbers.items():
        present, computed = column.codes >= 0, column.decimals > np.median(column.decimals)
        sides = present & computed, present & ~computed
        if min(side.sum() for side in sides) < least:
            continue
        others = sorted((z for z in numbers.values() if z is not own), key=lambda z: -abs(z @ own))[:MOST_OTHERS]
        space = np.column_stack([np.ones(own.size), *others])
        (there, share, chance, left), (usual, _, _, beside) = (_gain(own[s], space[s], outcomes[s]) for s in sides)
        apart = np.arctanh(np.sqrt(there)) - np.arctanh(np.sqrt(usual))
        chance = max(chance, float(norm.sf(apart / np.sqrt(sum(1.0 / side.sum() for side in sides)))))
        # Of what is open, of the column's variance, and how much is left beside what others leave.
        large = there - usual > 0.1 and share > 0.01 and left < 0.5 * beside
        if large and chance * len(numbers) < BY_CHANCE:
            cells = subsample.rows[sides[0]]
            rows[column.name] = cells[:10].tolist()
            shares = f"{there:.0%} in {cells.size:,} cells, as in row {cells.min()}, {usual:.0%} in others"
            signs[column.name] = f"{column.name} ({shares})"
    what = f"cells that were computed know {target.name!r}, which tells more there of what the other columns leave open"
    cure = "fill gaps in the model's pipeline, without the target"
    message = f"{what}: {listed(signs.values())}{subsample.looked_at}; {cure}."
    figures = {"features": [*signs], "rows": rows}
    return Found(len(signs), message, figures, DropFeatures(tuple(signs))) if signs else None


def _scaled(values: Array) -> Array:
    away = np.nan_to_num(values - np.nanmean(values))
    return np.asarray(away / max(float(away.std()), 1e-300))


def _gain(z: Array, space: Array, outcomes: Array) -> tuple[float, float, float, float]:
    """Return what the target adds: as a share of what is left, in variance, by what chance; and what is left then."""
    both = np.column_stack([space, outcomes])
    before, after = (float(np.square(left_of(z, X)).sum()) for X in (space, both))
    free = z.size - both.shape[1]
    gain = min(max(1.0 - after / max(before, 1e-300), 0.0), 0.9999)
    return gain, (before - after) / z.size, float(f_chance(before, after, outcomes.shape[1], free)), after / free


def chosen_features(subsample: Sample) -> CheckOutcome:
    """Look whether the features are the best of many that were tried on all rows, tested ones included.

    The best of noise lie just beyond a cut: their correlations with the target, in standard errors, lie closer together
    than those of honest features can (chi-squared). O(columns^2 x n) for at most 8,000 rows.
    """
    target, least = subsample.target, max(10, int(np.ceil(0.8 * len(subsample.features))))
    numbers = [c for c in subsample.feature_columns() if c.kind == "number" and c.n_levels > 1 and (c.codes >= 0).all()]
    needed(len(numbers) >= least, f"fewer than {least} features are numbers without a gap")
    scaled = np.column_stack([_scaled(c.values) for c in numbers])
    forms = [target.outcomes, _scaled(target.values)[:, None]] if target.numeric else [target.outcomes]
    for outcomes in forms:
        best, cut, chance = _best(scaled, outcomes, least)
        if chance * len(forms) < BY_CHANCE:
            names = [numbers[i].name for i in best]
            what = f"{best.size} features ({listed(names, most=4)}) go with {target.name!r} with p-values evenly below"
            what += f" {cut:.2g}, as the best of some {best.size / cut:,.0f} that were tried on all rows do"
            message = f"{what}{subsample.looked_at}; choose features in the model's pipeline."
            return Found(best.size, message, {"features": names, "cut": cut, "chance": chance})
    return None


def _best(scaled: Array, outcomes: Array, least: int) -> tuple[Codes, float, float]:
    """Return the columns before a gap in their p-values, the largest of these, and by what chance they are so even."""
    left = outcomes - outcomes.mean(axis=0)
    left = left[:, : max(1, left.shape[1] - 1)]
    n, m = left.shape
    unexplained = 1.0 - np.square(np.linalg.qr(left)[0].T @ scaled).sum(axis=0) / n
    chances = f_chance(1.0, unexplained, m, n - m - 1)
    order = np.argsort(chances, kind="stable")
    ranked = chances[order]
    beyond = np.append(ranked[least:], np.inf) / np.maximum(ranked[least - 1 :], 1e-300)
    ends = least + np.flatnonzero((beyond > 5.0) & (ranked[least - 1 :] < CUT))
    if not ends.size:
        return order[:0], CUT, 1.0
    best, cut = order[: ends[-1]], float(ranked[ends[-1] - 1])
    alike = np.asarray(np.corrcoef(scaled[:, best].T))[np.triu_indices(best.size, 1)]
    errors = norm.isf(ranked[: best.size] / 2.0)
    even = float(chi2.cdf(np.square(errors - errors.mean()).sum(), best.size - 1))
    # Columns that go with one another are no evidence apart.
    return best, cut, even if np.median(np.abs(alike)) * np.sqrt(n) < 3.0 else 1.0
