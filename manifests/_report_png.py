"""The main pictures of a split as matplotlib figures, for pages that show files only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._page import LIGHT
from ._report_data import Seen, cumulative, group_blocks, see, split_names
from ._svg import MOST_BARS
from .balance import BalanceReport
from .manifest import Manifest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
