"""The pictures of a split; each states in its title what it shows, and stands on the page and in the record."""

from __future__ import annotations

from itertools import groupby
from math import exp, factorial
from operator import itemgetter

import numpy as np
from evenfold.estimates.results import rounded
from evenfold.manifests.figures import points
from evenfold.manifests.manifest import ACTIVE
from evenfold.manifests.membership import Draws
from evenfold.reports.charts import N_COLOURS, Picture, around, cut, ends, short
from evenfold.reports.splits.data import random_distance, random_share, target_gap
from evenfold.splitters.errors import amount
from numpy.typing import NDArray

from .data import MOST_COUNT, MOST_SPLITS, Floats, SplitData, cumulative, evenness, group_sizes

MOST_CLASSES, MOST_FOLDS, MOST_GROUPS, MOST_DOTS = 12, 60, 60, 2_000

Cells = dict[str, list[tuple[float, float, float, float]]]


def split_pictures(seen: SplitData) -> dict[str, Picture]:
    """Return every picture that this split has something to show in, by its name, the most important first."""
    pictures: dict[str, Picture] = {}
    if seen.manifest.born is not None:
        pictures["generations"] = joined(seen)
        if not seen.parts:  # which were never to be of one size
            pictures["growth"] = grown_balance(seen)
    if (deviations := class_deviations(seen)) is not None:
        pictures["classes"] = deviations
    if (differences := target_differences(seen)) is not None:
        pictures["target"] = differences
    few_groups = seen.group is not None and len(seen.group.names) <= MOST_GROUPS
    schema = seen.group is None and seen.manifest.n_splits <= MOST_SPLITS
    if not seen.parts and (seen.time is not None or few_groups or schema):
        pictures["map"] = row_map(seen)
    dealt = not seen.parts and not isinstance(seen.manifest.membership, Draws)
    if dealt and (sizes := size_deviations(seen)) is not None:
        pictures["sizes"] = sizes
    groups = group_sizes(seen)
    if groups is not None and sum(map(len, groups.values())) <= MOST_GROUPS:  # of more the tile says what matters
        pictures["groups"] = group_piles(seen, groups)
    if seen.picks is not None:
        pictures["picks"] = group_picks(seen)
    if "out_of_bag" in seen.manifest.splitter.promises:
        pictures["inclusion"] = inclusion(seen)
    return pictures


def size_deviations(seen: SplitData) -> Picture | None:
    """Draw how many rows each split has more or fewer than their mean; None where all are within one row."""
    names, rows = seen.names, np.array([fold.rows for fold in seen.balance.folds])
    if np.ptp(rows) <= 1:
        return None
    sizes, mean = rows[:MOST_FOLDS], float(rows.mean())
    high = seen.balance.reachable.get("size", 0.0) * mean
    deviation = float(np.abs(rows / mean - 1).max())
    picture = Picture(
        f"Test sizes differ from their mean by up to {100 * deviation:.1f} %",
        seen.unit, f"rows above or below the mean of {mean:,.0f}", (-0.5, sizes.size - 0.5),
        around([0.0, *(sizes - mean).tolist(), high, -high]),
        height=200, x_ticks=list(enumerate(names[: sizes.size])), caption=cut(sizes.size, rows.size),
    )  # fmt: skip
    left, right = picture.x_range
    if 0.0 < high < 10 * deviation * mean:
        picture.area([(left, -high), (right, -high)], [(left, high), (right, high)], "band")
        picture.name(f"no split of these rows has all folds inside ±{high:,.1f} rows", "band")
    picture.across("whole", y=0)
    hints = [(i, n - mean, f"{seen.unit} {names[i]}: {amount(n, 'row')}") for i, n in enumerate(sizes.tolist())]
    picture.dots(hints, 0)
    return picture


def class_deviations(seen: SplitData) -> Picture | None:
    """Draw, a line a class, how far each split's share of it is from that of all rows, over what random folds give."""
    report, shares = seen.balance, seen.balance.shares
    gap = target_gap(report, None if seen.parts else report.folds)
    if report.classes is None or shares is None or gap is None:
        return None
    folds = [(name, place) for name, place in zip(seen.places, report.measured, strict=True) if place.shares]
    drawn = sorted(range(len(report.classes)), key=lambda c: -shares[c])[:MOST_CLASSES]
    rows = float(np.median([fold.rows for _, fold in folds]))
    band = {c: random_share(shares[c], rows, report.n_rows) * 100 for c in drawn}
    gaps = {c: [(fold.shares[c] - shares[c]) * 100 for _, fold in folds if fold.shares] for c in drawn}
    reach = max(max(band.values()), *(abs(gap) for line in gaps.values() for gap in line), 1e-9) * 1.08
    left = len(report.classes) - len(drawn)
    picture = Picture(
        f"In {seen.each} the shares of {report.target} are within {points(gap.largest)} of the whole",
        "test rows minus all rows (points)", f"{report.target}, share of all rows",
        (-reach, reach), (-len(drawn) + 0.4, 0.6), height=86 + 30 * len(drawn),
        y_ticks=[(-i, f"{report.classes[c]} {shares[c]:.1%}") for i, c in enumerate(drawn)],
        caption=f"{amount(left, 'smaller class', 'smaller classes')} in the table only." if left else "",
    )  # fmt: skip
    for i, c in enumerate(drawn):
        picture.bar(-band[c], band[c], -i - 0.32, -i + 0.32, "band")
        of = [f"{fold.rows_of(c):,} of {amount(fold.rows, 'row')}, {(fold.shares or ())[c]:.2%}" for _, fold in folds]
        hints = [f"{report.classes[c]} in {name}: {words}" for (name, _), words in zip(folds, of, strict=True)]
        picture.dots([(value, -i, hint) for value, hint in zip(gaps[c], hints, strict=True)], 0)
    picture.across("whole", x=0)
    picture.name("95 % of random folds", "band")
    picture.name(f"a {seen.unit}", 0, "dot")
    return picture


def target_differences(seen: SplitData) -> Picture | None:
    """Draw how far each split's distribution of the target is from that of all rows, over what random folds give."""
    numbers, whole, folds = cumulative(seen)
    gap = target_gap(seen.balance, None if seen.parts else seen.balance.folds)
    if not numbers.size or gap is None or seen.target is None:
        return None
    lines = np.array([(fold - whole) * 100 for fold in folds.values()])
    sizes = [part.size for part in seen.parts.values()] or [fold.rows for fold in seen.balance.folds]
    band = random_distance(float(np.median(sizes)), seen.balance.n_rows) * 100
    high = max(band, float(np.abs(lines).max())) * 1.1 or 1.0
    chosen = seen.manifest.splitter.needs.y != "ignored"  # what is random itself is no closer than random folds
    times = gap.random / gap.worst if gap.worst and chosen else 0.0
    every = f"Every {seen.unit} is" if seen.is_measured else f"{seen.each.capitalize()} are"
    closer = f", {times:.0f} times closer than random folds" if times >= 2 else ""
    picture = Picture(
        f"{every} within {points(gap.largest)} of the distribution of {seen.target.name}{closer}",
        seen.target.name, "rows up to that value, test minus all (points)", ends(numbers), (-high, high),
        caption=cut(len(lines), seen.manifest.n_splits) if not seen.parts else "",
    )  # fmt: skip
    low, top = ends(numbers)
    picture.area([(low, -band), (top, -band)], [(low, band), (top, band)], "band")
    picture.across("whole", y=0)
    worst, peak = divmod(int(np.abs(lines).argmax()), numbers.size)
    labels = [name if seen.parts else f"{seen.unit} {name}" for name in folds]
    # Folds are alike but for the one that is furthest off, which is drawn last; parts are few, and each has its name.
    for i in [*(i for i in range(len(lines)) if i != worst), worst]:
        label, colour = labels[i], i if seen.parts else 0 if i == worst else "quiet"
        picture.line(zip(numbers, lines[i], strict=True), colour, label)
        if seen.parts:
            picture.name(label, i, "line")
        elif i == worst:
            x, y = float(numbers[peak]), float(lines[i][peak])
            picture.text(x, y + 0.06 * high * (1 if y > 0 else -1), label, "start" if x < (low + top) / 2 else "end")
    if not seen.parts and len(lines) > 1:
        picture.name(f"the other {seen.unit}s", "quiet", "line")
    picture.name("95 % of random folds stay inside", "band")
    return picture


def row_map(seen: SplitData) -> Picture:
    """Draw splits by rows: tested, trained on or neither; in time order with dates, where there is a time."""
    n_drawn, names, edges = len(seen.tested), seen.names, seen.edges
    strips = _strips(seen)
    depth = n_drawn + 1.9 * len(strips)
    labels = [(n_drawn - i - 0.5, names[i]) for i in range(n_drawn)]
    below = [(-1.0 - 1.9 * j, name) for j, (name, _) in enumerate(strips)]
    rows = edges[-1] / max(len(edges) - 1, 1)
    caption = f"A column stands for about {short(round(rows, 1))} rows." if rows > 1 else ""
    picture = Picture(
        _map_title(seen), seen.order_name, seen.unit, (0, float(edges[-1])), (n_drawn - depth, n_drawn),
        height=78 + int(17 * depth), y_ticks=[*labels, *below], x_ticks=_dates(seen),
        caption=f"{caption} {cut(n_drawn, seen.manifest.n_splits)}".strip(),
    )  # fmt: skip
    shades: Cells = {}
    for i, (tested, unused) in enumerate(zip(seen.tested, seen.unused, strict=True)):
        # Nine shades, by the root, so that a share of a fifth is seen beside none.
        kinds = ["unused" if u > 0.5 else f"m{round(t**0.5 * 8)}" for t, u in zip(tested, unused, strict=True)]
        _runs(shades, kinds, edges, n_drawn - i - 0.92, n_drawn - i - 0.08)
    for j, (_, strip) in enumerate(strips):
        floor = -1.8 - 1.9 * j
        for css, cells in strip.items():
            shades.setdefault(css, []).extend((a, b, floor + 1.6 * c, floor + 1.6 * d) for a, b, c, d in cells)
    for css, cells in sorted(shades.items()):
        picture.cells(cells, css)
    for words, css in (("trained on", "train"), ("tested", "test"), ("neither", "unused")):
        if css != "unused" or "unused" in shades:
            picture.name(words, css)
    if any(name == "class" for name, _ in strips) and seen.target is not None:
        for number, name in enumerate(seen.target.names[:N_COLOURS]):
            picture.name(name, number)
    return picture


def _map_title(seen: SplitData) -> str:
    promises = seen.manifest.splitter.promises
    if seen.time is not None:
        if "past_before_future" in promises or (seen.in_time and seen.is_measured):
            return "Every split is tested on what comes after its training rows"
        if "purged" in promises:
            return "Splits test stretches of time, and train on neither what overlaps them nor is near them"
        if all(quarter.any() for tested in seen.tested for quarter in np.array_split(tested, 4)):
            return f"Splits test rows from all of {seen.time.name}, and train on later ones, too"
        return f"Which rows each split tests and trains on, by {seen.time.name}"
    if seen.group is not None and "groups_whole" in promises:
        return f"Each {seen.group.name} is on one side of a split"
    return "Which rows each split tests and trains on"


def _dates(seen: SplitData) -> list[tuple[float, str]] | None:
    """Return ticks with the times of the rows that stand there; none where rows have no time."""
    if seen.time is None:
        whole = seen.order.size == np.count_nonzero(seen.manifest.status == ACTIVE)
        return None if seen.group is None and whole else []
    places = np.linspace(0, seen.order.size - 1, 6).astype(np.int64)
    moments = zip(places.tolist(), seen.time.values[seen.order[places]], strict=True)
    kind = seen.time.values.dtype.kind
    return [(float(at), short(float(moment)) if kind in "iuf" else str(moment)[: 10 if kind == "M" else None])
            for at, moment in moments]  # fmt: skip


def _runs(into: Cells, kinds: list[str], edges: NDArray[np.int64], low: float, high: float) -> None:
    for css, run in groupby(zip(kinds, edges[:-1].tolist(), edges[1:].tolist(), strict=True), key=itemgetter(0)):
        bins = [*run]
        into.setdefault(css, []).append((float(bins[0][1]), float(bins[-1][2]), low, high))


def _strips(seen: SplitData) -> list[tuple[str, Cells]]:
    """Return classes and groups below a map by groups, as cells by colour in a strip from 0 to 1."""
    if seen.group is None or seen.time is not None:
        return []
    # Groups are in two shades by turns: a border is where the shade changes.
    groups: Cells = {}
    codes = seen.group.codes[seen.order][seen.edges[:-1]]
    turns = np.cumsum(np.append(True, codes[1:] != codes[:-1]))
    _runs(groups, ["train" if turn % 2 else "test" for turn in turns.tolist()], seen.edges, 0, 1)
    strips = [("class", _class_strip(seen)), (seen.group.name, groups)]
    return [(name, cells) for name, cells in strips if cells]


def _class_strip(seen: SplitData) -> Cells:
    """Return the share of each class in each group."""
    if seen.target is None or seen.target.numeric or seen.group is None:
        return {}
    groups = seen.group.codes[seen.order]
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    stops, low = np.append(starts[1:], groups.size), np.zeros(starts.size)
    cells: Cells = {}
    for c in range(min(len(seen.target.names), N_COLOURS)):
        high = low + np.add.reduceat(seen.target.codes[seen.order] == c, starts) / (stops - starts)
        boxes = zip(starts.tolist(), stops.tolist(), low.tolist(), high.tolist(), strict=True)
        cells[f"f{c}"] = [box for box in boxes if box[3] > box[2]]
        low = high
    return cells


def inclusion(seen: SplitData) -> Picture:
    """Draw how many rows are drawn 0, 1, 2, ... times in a resample, beside what chance gives."""
    expected = [exp(-1.0) / factorial(count) for count in range(MOST_COUNT - 1)]
    expected.append(1.0 - sum(expected))
    picture = Picture(
        f"A resample leaves {seen.inclusion[0]:.1%} of the rows out of the bag, to be tested",
        "times that a row is drawn in one resample", "rows (%)", (-0.5, MOST_COUNT - 0.5),
        (0, max(float(seen.inclusion.max()), *expected) * 110), height=200,
        x_ticks=[(i, str(i) if i < MOST_COUNT - 1 else f"{i}+") for i in range(MOST_COUNT)],
    )  # fmt: skip
    for i, share in enumerate(seen.inclusion.tolist()):
        picture.bar(i - 0.38, i + 0.38, 0, share * 100, 0, f"{share:.2%}")
        picture.line([(i - 0.45, expected[i] * 100), (i + 0.45, expected[i] * 100)], "whole")
    picture.name(f"mean of {amount(seen.balance.n_measured, 'resample')}", 0)
    picture.name("Poisson law with mean 1", "whole", "line")
    return picture


def joined(seen: SplitData) -> Picture:
    """Draw the rows that joined with each generation."""
    totals = [int(np.sum(seen.manifest.born == g)) for g in range(seen.manifest.generation + 1)]
    last = amount(totals[-1], "row")
    picture = Picture(
        f"{seen.manifest.version}: {last} joined, and none has moved since "
        f"{seen.manifest.version.partition('.')[0]}.0",
        "version", "rows that joined", (-0.5, len(totals) - 0.5), (0, max(totals) * 1.08), height=190,
        x_ticks=_versions(seen, len(totals)),
    )  # fmt: skip
    for generation, total in enumerate(totals):
        picture.bar(generation - 0.38, generation + 0.38, 0, total, 0, f"{amount(total, 'row')}")
    return picture


def _versions(seen: SplitData, n: int) -> list[tuple[float, str]]:
    major = seen.manifest.version.partition(".")[0]
    return [(float(generation), f"{major}.{generation}") for generation in range(n)]


def grown_balance(seen: SplitData) -> Picture:
    """Draw how even the folds were after each generation: their sizes, and their target where it is known."""
    sizes, gaps = zip(*evenness(seen), strict=True)
    last, top = 100 * sizes[-1], 100 * max([*sizes, *(gap for gap in gaps if gap is not None), 0.001])
    drift = "no less even than at first" if last <= 100 * sizes[0] + 0.5 else f"{last:.1f} % from equal in size"
    picture = Picture(
        f"After {amount(len(sizes) - 1, 'extension')} the folds are {drift}", "version", "largest gap (% or points)",
        (-0.5, len(sizes) - 0.5), (0, top * 1.15), height=200, x_ticks=_versions(seen, len(sizes)),
    )  # fmt: skip
    for colour, (line, words) in enumerate(((sizes, "fold size (%)"), (gaps, "target (points)"))):
        if values := [(float(g), 100 * value) for g, value in enumerate(line) if value is not None]:
            picture.series([(g, value, f"{words}: {value:.2f}") for g, value in values], colour, words)
    return picture


def group_piles(seen: SplitData, groups: dict[int, list[int]]) -> Picture:
    """Draw each fold as a pile of its groups, the largest at the bottom, in two shades by turns."""
    drawn = dict(list(groups.items())[:MOST_FOLDS])
    names = [seen.manifest.membership.code_name(code).removeprefix("fold ") for code in drawn]
    top = max(map(sum, drawn.values())) * 1.05
    (largest, share), n = largest_group(seen, groups), sum(map(len, groups.values()))
    title = f"{amount(n, 'group')}; the largest has {amount(largest, 'row')}"
    picture = Picture(
        f"{title}, {share}" if share else title, seen.unit, "rows", (-0.5, len(drawn) - 0.5), (0, top), height=260,
        x_ticks=list(enumerate(names)), caption=cut(len(drawn), len(groups)),
    )  # fmt: skip
    for i, sizes in enumerate(drawn.values()):
        low = 0
        for turn, size in enumerate(sizes):
            picture.bar(i - 0.4, i + 0.4, low, low + size, "test" if turn % 2 else "train", f"{amount(size, 'row')}")
            low += size
    picture.name("a group", "train")
    picture.name("and the next", "test")
    return picture


def largest_group(seen: SplitData, groups: dict[int, list[int]]) -> tuple[int, str]:
    """Return the rows of the largest group, and which share of a fold they are; nothing for parts, which differ."""
    largest = max(sizes[0] for sizes in groups.values())
    fold = sum(map(sum, groups.values())) / len(groups)
    return largest, "" if seen.parts else f"{rounded(100 * largest / fold, 2)} % of a fold"


def group_picks(seen: SplitData) -> Picture:
    """Draw how often each group is in a test set against what it holds; the dot's area is its size."""
    assert seen.group is not None and seen.picks is not None  # noqa: PT018
    rows, share = np.bincount(seen.group.codes[seen.rows]), seen.picks / seen.balance.n_measured
    what, holds, everywhere = _held(seen, rows)
    order = np.argsort(-rows, kind="stable")[:MOST_DOTS]
    never = int((seen.picks == 0).sum())
    mean = float(share.mean()) * 100
    rare = f"{amount(never, 'group')} of {rows.size:,} in none" if never else "every group in some"
    picture = Picture(
        f"A group is tested in {mean:.0f} % of {amount(seen.balance.n_measured, 'draw')} on average, {rare}", what,
        "draws that test it (%)", ends(holds), (0, max(float(share.max()) * 108, 1.0)),
    )  # fmt: skip
    for g in order.tolist():
        words = f"{seen.group.names[g]}: {amount(rows[g], 'row')}, tested in {share[g]:.1%} of the draws"
        radius = 2.0 + 5.0 * (rows[g] / float(rows.max())) ** 0.5
        picture.dots([(float(holds[g]), float(share[g]) * 100, words if order.size <= 500 else "")], 0, radius)
    picture.across("limit", y=mean)
    picture.across("limit", x=everywhere)
    picture.name(f"means: {mean:.1f} % of the draws; {what} {short(round(everywhere, 4))}", "limit", "line")
    return picture


def _held(seen: SplitData, rows: NDArray[np.int64]) -> tuple[str, Floats, float]:
    """Return the figure in which groups differ, of each and of all rows: rows, mean target, share of a rare class."""
    if seen.target is None or seen.group is None:
        return "rows in the group", rows.astype(np.float64), float(rows.mean())
    if seen.target.numeric:
        y, what = seen.target.values[seen.rows], f"mean {seen.target.name} of the group"
    else:
        classes = seen.target.codes[seen.rows]
        rarest = int(np.argmin(np.bincount(classes)))
        y, what = (classes == rarest).astype(np.float64), f"share of {seen.target.names[rarest]} in the group"
    return what, np.bincount(seen.group.codes[seen.rows], weights=y) / rows, float(y.mean())
