"""Which rows each split trains and tests on, and how many, as SVG figures."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from evenfold.splitters import stable_order
from numpy.typing import NDArray

from ._page import N_SHADES
from ._report_data import Seen, split_names
from ._svg import MOST_BARS, N_COLOURS, Picture, cut, short, some

Cells = dict[str, list[tuple[float, float, float, float]]]


def sizes(seen: Seen) -> str:
    """Draw the test rows of each split, and their mean."""
    folds, names = seen.balance.folds[:MOST_BARS], split_names(seen.manifest)
    rows = [fold.rows for fold in folds]
    mean = sum(rows) / len(rows)
    picture = Picture(
        "Test rows of each split", "split (number)", "test rows (rows)", (-0.5, len(rows) - 0.5), (0, max(rows) * 1.08),
        height=190, x_ticks=some([(i, names[i]) for i in range(len(rows))]),
    )  # fmt: skip
    for i, count in enumerate(rows):
        picture.bar(i - 0.38, i + 0.38, 0, count, 0, f"split {names[i]}: {count:,} rows")
    picture.line([(-0.5, mean), (len(rows) - 0.5, mean)], "limit")
    picture.name(f"mean, {short(round(mean, 1))} rows", "limit", "line")
    return picture.figure(cut(len(rows), seen.manifest.n_splits))


def row_map(seen: Seen) -> str:
    """Draw splits by rows: tested, trained on or neither, with the target or the groups below."""
    shown, names, edges = len(seen.tested), split_names(seen.manifest), seen.edges
    strips = _strips(seen)
    depth = shown + 1.9 * len(strips)
    labels = [(shown - i - 0.5, names[i]) for i in range(shown)]
    below = [(-1.0 - 1.9 * j, name) for j, (name, _) in enumerate(strips)]
    picture = Picture(
        "Train and test", f"rows, {seen.order_name} (number of the row)", "split (number)", (0, float(edges[-1])),
        (shown - depth, shown), height=80 + int(17 * depth), y_ticks=[*some(labels), *below],
    )  # fmt: skip
    shades: Cells = {}
    for i, (tested, unused) in enumerate(zip(seen.tested, seen.unused, strict=True)):
        kinds = [_shade(t, u) for t, u in zip(tested, unused, strict=True)]
        _runs(shades, kinds, edges, shown - i - 0.92, shown - i - 0.08)
    for j, (_, strip) in enumerate(strips):
        floor = -1.8 - 1.9 * j
        for css, cells in strip.items():
            shades.setdefault(css, []).extend((a, b, floor + 1.6 * c, floor + 1.6 * d) for a, b, c, d in cells)
    for css, cells in sorted(shades.items()):
        picture.cells(cells, css)
    for said, css in (("trained on", "train"), ("tested", "test"), ("neither", "unused")):
        picture.name(said, css)
    if seen.target is not None and not seen.target.numeric:
        for number, name in enumerate(seen.target.names[:N_COLOURS]):
            picture.name(f"{seen.target.name} = {name}", number)
    rows = short(round(edges[-1] / (len(edges) - 1), 1))
    said = f"Each column stands for about {rows} rows; a mixed colour says that some of them are tested."
    return picture.figure(f"{said} {_strip_words(strips)} {cut(shown, seen.manifest.n_splits)}".strip())


def _strip_words(strips: list[tuple[str, Cells]]) -> str:
    names = [name for name, _ in strips]
    words = "Target strip: yellow low, blue high, by rank. " if "target" in names else ""
    words += "Class strip: the share of each class. " if "class" in names else ""
    return words + ("Group strip: the colour changes where another group begins." if "group" in names else "")


def _shade(tested: float, unused: float) -> str:
    if unused > 0.5:
        return "unused"
    # By the root, so that a share of a fifth is seen beside none.
    return f"m{round(tested**0.5 * (N_SHADES - 1))}"


def _runs(into: Cells, kinds: list[str], edges: NDArray[np.int64], low: float, high: float) -> None:
    at = 0
    for css, run in groupby(kinds):
        length = len(list(run))
        into.setdefault(css, []).append((float(edges[at]), float(edges[at + length]), low, high))
        at += length


def _strips(seen: Seen) -> list[tuple[str, Cells]]:
    """Return what lies below the map: a name, and cells by colour in a strip from 0 to 1."""
    made = [("target", _number_strip(seen)), ("class", _class_strip(seen)), ("group", _group_strip(seen))]
    return [(name, cells) for name, cells in made if cells]


def _number_strip(seen: Seen) -> Cells:
    if seen.target is None or not seen.target.numeric:
        return {}
    y, starts = seen.target.values, seen.edges[:-1]
    ranks = np.searchsorted(y[stable_order(y)], y) / y.size
    means = np.add.reduceat(ranks[seen.order], starts) / np.diff(seen.edges)
    cells: Cells = {}
    _runs(cells, [f"v{min(round(m * (N_SHADES - 1)), N_SHADES - 1)}" for m in means], seen.edges, 0, 1)
    return cells


def _class_strip(seen: Seen) -> Cells:
    if seen.target is None or seen.target.numeric:
        return {}
    starts, low = seen.edges[:-1], np.zeros(seen.edges.size - 1)
    cells: Cells = {}
    for c in range(min(len(seen.target.names), N_COLOURS)):
        high = low + np.add.reduceat(seen.target.codes[seen.order] == c, starts) / np.diff(seen.edges)
        boxes = zip(seen.edges[:-1], seen.edges[1:], low, high, strict=True)
        cells[f"f{c}"] = [(float(x0), float(x1), float(y0), float(y1)) for x0, x1, y0, y1 in boxes if y1 > y0]
        low = high
    return cells


def _group_strip(seen: Seen) -> Cells:
    if seen.group is None or len(seen.group.names) > len(seen.edges) - 1:
        return {}
    cells: Cells = {}
    first = seen.group.codes[seen.order][seen.edges[:-1]]
    _runs(cells, [f"f{code % N_COLOURS}" for code in first.tolist()], seen.edges, 0, 1)
    return cells
