"""Where groups and generations went, and how often draws take groups and rows, as SVG figures."""

from __future__ import annotations

from math import exp, factorial

import numpy as np

from ._report_data import MOST_BLOCKS, MOST_COUNT, MOST_LINES, Seen, code_name, generations, picks
from ._svg import MOST_BARS, Picture, cut, ends, short, some

MOST_DOTS = 2_000


def groups(seen: Seen, blocks: dict[int, list[int]]) -> str:
    """Draw each fold as a pile of its groups, the largest at the bottom."""
    shown = dict(list(blocks.items())[:MOST_BARS])
    names = [code_name(seen.manifest, code).removeprefix("fold ") for code in shown]
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
                f"{code_name(seen.manifest, code)}: {each[code]:,} rows",
            )
            low += each[code]
    for number, code in enumerate(codes[:MOST_LINES]):
        picture.name(code_name(seen.manifest, code), number)
    return picture.figure("No row that had a fold has another one now.")
