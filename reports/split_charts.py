"""Which rows each split trains and tests on, and how many, as SVG figures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import exp, factorial
from typing import TYPE_CHECKING, Any

import numpy as np
from evenfold.manifests.balance import BalanceReport
from evenfold.manifests.manifest import Manifest
from evenfold.splitters import stable_order
from numpy.typing import NDArray

from .charts import MOST_BARS, N_COLOURS, Picture, cut, ends, short, some
from .page import LIGHT, N_SHADES
from .split_data import (
    MOST_BLOCKS,
    MOST_COUNT,
    MOST_LINES,
    Cumulative,
    Seen,
    cumulative,
    generations,
    group_blocks,
    picks,
    see,
    split_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


MOST_DOTS = 2_000


def groups(seen: Seen, blocks: dict[int, list[int]]) -> str:
    """Draw each fold as a pile of its groups, the largest at the bottom."""
    shown = dict(list(blocks.items())[:MOST_BARS])
    names = [seen.manifest.membership.code_name(code).removeprefix("fold ") for code in shown]
    picture = Picture(
        "Groups and the folds they are in", "fold or part", "rows (rows)", (-0.5, len(shown) - 0.5),
        (0, max(map(sum, shown.values())) * 1.05), height=300, x_ticks=some(list(enumerate(names))),
    )  # fmt: skip
    for i, sizes in enumerate(shown.values()):
        low = 0
        for number, size in enumerate(sizes[:MOST_BLOCKS]):
            picture.bar(i - 0.4, i + 0.4, low, low + size, "f0" if number % 2 else "f4", f"{size:,} rows")
            low += size
        if sum(sizes[MOST_BLOCKS:]):
            picture.bar(i - 0.4, i + 0.4, low, sum(sizes), "rest", f"{len(sizes) - MOST_BLOCKS:,} smaller groups")
    picture.name("a group", "f4")
    picture.name("and the next", "f0")
    picture.name(f"groups smaller than the {MOST_BLOCKS} largest", "rest")
    largest = max((sizes[0] for sizes in blocks.values() if sizes), default=0)
    told = (
        f"{sum(map(len, blocks.values())):,} groups; the largest has {largest:,} rows. {cut(len(shown), len(blocks))}"
    )
    return picture.figure(told.strip())


def group_picks(seen: Seen) -> str:
    """Draw how often each group is in a test set against what it holds; the dot's area is its size."""
    found = picks(seen)
    assert found is not None
    order = np.argsort(-found.rows, kind="stable")[:MOST_DOTS]
    picture = Picture(
        "Pick frequency of each group", found.what, "draws that test it (%)", ends(found.holds),
        (0, max(float(found.share.max()) * 108, 1.0)),
    )  # fmt: skip
    assert seen.group is not None
    largest = float(found.rows.max())
    for g in order.tolist():
        said = (
            f"{seen.group.names[g]}: {found.rows[g]:,} rows, tested in {found.share[g]:.1%} of the draws"
            if order.size <= 500
            else ""
        )
        radius = 2.0 + 5.0 * (found.rows[g] / largest) ** 0.5
        picture.dots([(float(found.holds[g]), float(found.share[g]) * 100, said)], 0, radius)
    mean, never = float(found.share.mean()) * 100, int((seen.picks == 0).sum()) if seen.picks is not None else 0
    picture.line([(picture.x_range[0], mean), (picture.x_range[1], mean)], "limit")
    picture.line([(found.everywhere, picture.y_range[0]), (found.everywhere, picture.y_range[1])], "limit")
    picture.name(f"means: {mean:.1f} % of the draws, {short(round(found.everywhere, 4))}", "limit", "line")
    told = f"Of {seen.n_seen:,} draws. {never:,} of {found.rows.size:,} groups are never tested."
    return picture.figure(told)


def inclusion(seen: Seen) -> str:
    """Draw how many rows are drawn 0, 1, 2, ... times in a resample, beside what chance gives."""
    expected = [exp(-1.0) / factorial(count) for count in range(MOST_COUNT - 1)]
    expected.append(1.0 - sum(expected))
    named = [(i, str(i) if i < MOST_COUNT - 1 else f"{i}+") for i in range(MOST_COUNT)]
    high = max(float(seen.inclusion.max()), *expected) * 110
    picture = Picture(
        "Times that a row is drawn in one resample", "times drawn (number)", "share of the rows (%)",
        (-0.5, MOST_COUNT - 0.5), (0, high), height=200, x_ticks=named,
    )  # fmt: skip
    for i, share in enumerate(seen.inclusion.tolist()):
        picture.bar(i - 0.38, i + 0.38, 0, share * 100, 0, f"{share:.2%}")
        picture.line([(i - 0.45, expected[i] * 100), (i + 0.45, expected[i] * 100)], "whole")
    picture.name(f"mean of {seen.n_seen:,} resamples", 0)
    picture.name("Poisson law with mean 1", "whole", "line")
    return picture.figure("Rows drawn 0 times are out of bag: they are the test rows, 36.8 % for many rows.")


def grown(seen: Seen) -> str:
    """Draw the rows that joined with each generation, by fold."""
    counts = generations(seen.manifest)
    codes = sorted({code for each in counts for code in each}, key=lambda code: (code < 0, code))
    picture = Picture(
        "Rows that joined with each generation", "generation (minor version)", "rows (rows)", (-0.5, len(counts) - 0.5),
        (0, max(sum(each.values()) for each in counts) * 1.05),
        x_ticks=some([(g, str(g)) for g in range(len(counts))]),
    )  # fmt: skip
    for g, each in enumerate(counts):
        low = 0
        for number, code in enumerate(codes):
            picture.bar(
                g - 0.38,
                g + 0.38,
                low,
                low + each[code],
                number,
                f"{seen.manifest.membership.code_name(code)}: {each[code]:,} rows",
            )
            low += each[code]
    for number, code in enumerate(codes[:MOST_LINES]):
        picture.name(seen.manifest.membership.code_name(code), number)
    return picture.figure("No row that had a fold has another one now.")


MOST_CLASSES = 12


def class_shares(seen: Seen) -> str:
    """Draw each class's share of every split's test rows, beside its share of all rows."""
    report = seen.balance
    assert report.classes is not None
    assert report.shares is not None
    folds, names = report.folds[:MOST_BARS], split_names(seen.manifest)
    most = sorted(range(len(report.classes)), key=lambda c: -report.shares[c])[:MOST_CLASSES]  # type: ignore[index]
    held = [[fold.shares[c] for fold in folds if fold.shares] for c in most]
    high = max(max(map(max, held)), max(report.shares))
    picture = Picture(
        "Class shares of the test rows", "split (number)", "share of the rows (%)", (-0.5, len(folds) - 0.5),
        (0, high * 105), x_ticks=some([(i, names[i]) for i in range(len(folds))]),
    )  # fmt: skip
    for c, shares in zip(most, held, strict=True):
        number = c  # as in the map, where a class has the colour of its place among the names
        whole = report.shares[c] * 100
        picture.line([(-0.5, whole), (len(folds) - 0.5, whole)], "grid")
        picture.line([(i, share * 100) for i, share in enumerate(shares)], number)
        said = [
            (i, share * 100, f"{report.classes[c]} in split {names[i]}: {share:.2%}") for i, share in enumerate(shares)
        ]
        picture.dots(said, number)
        picture.name(f"{report.classes[c]} ({whole:.1f} % of all)", number)
    left = len(report.classes) - len(most)
    return picture.figure(
        f"{f'{left} smaller classes are in the table only. ' if left else ''}{cut(len(folds), report.n_splits)}"
    )


def distributions(seen: Seen, curves: Cumulative) -> str:
    """Draw the cumulative distribution of the target, of all rows and of each split's test rows."""
    assert seen.target is not None
    picture = Picture(
        "Cumulative distribution of the target", f"{seen.target.name} (its unit)", "rows up to that value (%)",
        ends(curves.values), (0, 100),
    )  # fmt: skip
    for number, fold in enumerate(curves.folds):
        picture.line(zip(curves.values, fold * 100, strict=True), number)
    picture.line(zip(curves.values, curves.whole * 100, strict=True), "whole")
    picture.name("all rows", "whole", "line")
    return picture.figure(
        "Between the 0.5 % and the 99.5 % quantile. The lines of even splits lie under that of all rows; "
        "the next picture shows what is left."
    )


def differences(seen: Seen, curves: Cumulative) -> str:
    """Draw how far each split's cumulative distribution is from that of all rows, with the KS band."""
    assert seen.target is not None
    gaps = [(fold - curves.whole) * 100 for fold in curves.folds]
    band = curves.band * 100
    high = max(band, *(float(np.abs(gap).max()) for gap in gaps)) * 1.1 or 1.0
    picture = Picture(
        "Test rows minus all rows", f"{seen.target.name} (its unit)", "difference (percentage points)",
        ends(curves.values), (-high, high),
    )  # fmt: skip
    low, top = ends(curves.values)
    picture.area([(low, -band), (top, -band)], [(low, band), (top, band)], "band")
    names = split_names(seen.manifest)
    for number, gap in enumerate(gaps):
        picture.line(zip(curves.values, gap, strict=True), number)
        picture.name(f"split {names[number]}", number, "line")
    picture.name("95 % of random draws stay inside", "band")
    worst = seen.balance.worst.get("ks", 0.0) * 100
    said = (
        f"The band is the Kolmogorov-Smirnov distance that 95 % of random draws of as many rows keep: {band:.2f} "
        f"points. Worst split: {worst:.2f} points."
    )
    return picture.figure(f"{said} {cut(len(gaps), seen.manifest.n_splits)}".strip())


def figures(seen: Seen) -> Iterator[tuple[str, str, str]]:
    """Yield (id, heading, HTML figure) of every picture that this split has something to show in."""
    yield "sizes-picture", "Rows per split", sizes(seen)
    yield "map", "Which rows each split trains and tests on", row_map(seen)
    if seen.balance.classes is not None and seen.balance.shares is not None:
        yield "classes", "Class shares", class_shares(seen)
    curves = cumulative(seen)
    if curves is not None:
        yield "target", "Target distribution", distributions(seen, curves) + differences(seen, curves)
    blocks = group_blocks(seen)
    if blocks is not None:
        yield "groups", "Groups", groups(seen, blocks)
    if seen.picks is not None:
        yield "picks", "How often each group is drawn", group_picks(seen)
    if "out_of_bag" in seen.manifest.splitter.promises:
        yield "inclusion", "How often a row is drawn", inclusion(seen)
    if seen.manifest.born is not None:
        yield "generations", "Generations", grown(seen)


def split_figures(manifest: Manifest, balance: BalanceReport, data: Any = None) -> dict[str, Figure]:
    """Return the main pictures by name: sizes, map, and as there are: classes, target, groups.

    The figures belong to no window and no global state; matplotlib is imported here and not before.
    """
    seen = see(manifest, balance, data)
    made = {"sizes": _sizes(seen), "map": _map(seen)}
    if balance.shares is not None:
        made["classes"] = _classes(seen)
    if seen.target is not None and seen.target.numeric:
        made["target"] = _target(seen)
    if group_blocks(seen) is not None:
        made["groups"] = _groups(seen)
    return made


def _axes(title: str, x: str, y: str, height: float = 3.0) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _sizes(seen: Seen) -> Figure:
    rows = [fold.rows for fold in seen.balance.folds[:MOST_BARS]]
    figure, axes = _axes(_named(seen, "test rows of each split"), "split (number)", "test rows (rows)")
    axes.bar(np.arange(len(rows)), rows, color=LIGHT[0])
    axes.axhline(float(np.mean(rows)), color="black", linestyle="--", linewidth=1)
    return figure


def _map(seen: Seen) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap

    figure, axes = _axes(
        _named(seen, "which rows each split tests (orange) and trains on"),
        f"rows, {seen.order_name} (number of the row)",
        "split (number)",
        1.6 + 0.2 * len(seen.tested),
    )
    shares = np.sqrt(np.stack(seen.tested))
    shares[np.stack(seen.unused) > 0.5] = np.nan
    colours = LinearSegmentedColormap.from_list("tested", ["#dbe7f1", LIGHT[5]]).with_extremes(bad="#b9bfc6")
    extent = (0, seen.order.size, len(seen.tested) - 0.5, -0.5)
    axes.imshow(shares, aspect="auto", interpolation="nearest", cmap=colours, vmin=0, vmax=1, extent=extent)
    axes.set_yticks(range(len(seen.tested)), split_names(seen.manifest)[: len(seen.tested)])
    return figure


def _classes(seen: Seen) -> Figure:
    report = seen.balance
    figure, axes = _axes(_named(seen, "class shares of the test rows"), "split (number)", "share of the rows (%)")
    most = np.argsort(-np.array(report.shares), kind="stable")[: len(LIGHT)]
    for colour, c in zip(LIGHT, most.tolist(), strict=False):
        shares = [fold.shares[c] * 100 for fold in report.folds if fold.shares]
        axes.plot(shares, marker="o", color=colour, label=(report.classes or [])[c])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def _target(seen: Seen) -> Figure:
    curves = cumulative(seen)
    assert curves is not None
    assert seen.target is not None
    figure, axes = _axes(
        _named(seen, "target of the test rows minus that of all rows"),
        f"{seen.target.name} (its unit)",
        "difference of cumulative shares\n(percentage points)",
    )
    axes.axhspan(-curves.band * 100, curves.band * 100, color="grey", alpha=0.18, label="95 % of random draws")
    for number, fold in enumerate(curves.folds):
        style = "-" if number < len(LIGHT) else "--"
        axes.plot(curves.values, (fold - curves.whole) * 100, style, color=LIGHT[number % len(LIGHT)], linewidth=1)
    axes.legend(frameon=False)
    return figure


def _groups(seen: Seen) -> Figure:
    blocks = group_blocks(seen)
    assert blocks is not None
    figure, axes = _axes(_named(seen, "sizes of the groups in each fold"), "fold (code)", "rows of a group (rows)")
    axes.boxplot(list(blocks.values()), tick_labels=[str(code) for code in blocks], flierprops={"markersize": 3})
    axes.set_ylim(bottom=0)
    return figure


def _named(seen: Seen, what: str) -> str:
    return f"{seen.manifest.name} {seen.manifest.version}: {what}"
