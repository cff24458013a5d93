"""Pictures of groups: which fold has which, how large they are, and how often draws test them."""

from __future__ import annotations

import numpy as np
from evenfold.estimates.results import rounded
from evenfold.reports.charts import Picture, cut, ends, short
from evenfold.reports.page import counted
from numpy.typing import NDArray

from .data import Floats, SplitData

MOST_DOTS, MOST_FOLDS = 2_000, 60


def group_piles(seen: SplitData, groups: dict[int, list[int]]) -> Picture:
    """Draw each fold as a pile of its groups, the largest at the bottom, in two shades by turns."""
    drawn = dict(list(groups.items())[:MOST_FOLDS])
    names = [seen.manifest.membership.code_name(code).removeprefix("fold ") for code in drawn]
    top = max(map(sum, drawn.values())) * 1.05
    picture = Picture(
        _groups_title(seen, groups), seen.unit, "rows", (-0.5, len(drawn) - 0.5), (0, top), height=260,
        x_ticks=list(enumerate(names)), caption=cut(len(drawn), len(groups)),
    )  # fmt: skip
    for i, sizes in enumerate(drawn.values()):
        low = 0
        for turn, size in enumerate(sizes):
            picture.bar(i - 0.4, i + 0.4, low, low + size, "test" if turn % 2 else "train", f"{counted(size, 'row')}")
            low += size
    picture.name("a group", "train")
    picture.name("and the next", "test")
    return picture


def _groups_title(seen: SplitData, groups: dict[int, list[int]]) -> str:
    largest, share = largest_group(seen, groups)
    n = sum(map(len, groups.values()))
    return ", ".join(filter(None, [f"{counted(n, 'group')}; the largest has {counted(largest, 'row')}", share]))


def largest_group(seen: SplitData, groups: dict[int, list[int]]) -> tuple[int, str]:
    """Return the rows of the largest group, and which share of a fold they are; nothing for parts, which differ."""
    largest = max(sizes[0] for sizes in groups.values())
    fold = sum(map(sum, groups.values())) / len(groups)
    return largest, "" if seen.parts else f"{rounded(100 * largest / fold, 2)} % of a fold"


def group_histogram(seen: SplitData, groups: dict[int, list[int]]) -> Picture:
    """Draw how many groups have how many rows: too many groups to show one by one."""
    sizes = np.array([size for fold in groups.values() for size in fold])
    low, high = int(sizes.min()), int(sizes.max())
    step = max(1, -(-(high - low + 1) // 40))
    edges = np.arange(low, high + step + 1, step)
    counts, _ = np.histogram(sizes, bins=edges)
    picture = Picture(
        _groups_title(seen, groups), "rows in a group", "groups", (float(edges[0]) - 0.5, float(edges[-1]) - 0.5),
        (0, float(counts.max()) * 1.08), height=200,
    )  # fmt: skip
    for count, left in zip(counts.tolist(), edges.tolist(), strict=False):
        rows = f"{left:,}" if step == 1 else f"{left:,} to {left + step - 1:,}"
        gap, hint = 0.08 * step, f"{counted(count, 'group')} of {rows} rows"
        picture.bar(left - 0.5 + gap, left + step - 0.5 - gap, 0, count, 0, hint)
    return picture


def group_picks(seen: SplitData) -> Picture:
    """Draw how often each group is in a test set against what it holds; the dot's area is its size."""
    assert seen.group is not None and seen.picks is not None  # noqa: PT018
    rows, share = np.bincount(seen.group.codes[seen.rows]), seen.picks / seen.n_seen
    what, holds, everywhere = _held(seen, rows)
    order = np.argsort(-rows, kind="stable")[:MOST_DOTS]
    never = int((seen.picks == 0).sum())
    mean = float(share.mean()) * 100
    rare = f"{counted(never, 'group')} of {rows.size:,} in none" if never else "every group in some"
    picture = Picture(
        f"A group is tested in {mean:.0f} % of {counted(seen.n_seen, 'draw')} on average, {rare}", what,
        "draws that test it (%)", ends(holds), (0, max(float(share.max()) * 108, 1.0)),
    )  # fmt: skip
    for g in order.tolist():
        words = f"{seen.group.names[g]}: {counted(rows[g], 'row')}, tested in {share[g]:.1%} of the draws"
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
