"""How even classes and numbers are over the splits, as SVG figures."""

from __future__ import annotations

import numpy as np

from ._report_data import Cumulative, Seen, split_names
from ._svg import MOST_BARS, Picture, cut, ends, some

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
