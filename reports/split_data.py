"""What the pictures of a split show, in numbers: worked out once, drawn on a page or as files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from evenfold.manifests.balance import MOST_MEASURED, BalanceReport
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import Draws, Labels
from evenfold.manifests.plan import is_numeric_target
from evenfold.manifests.tables.canonical import canonical_table, to_numpy
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import stable_order
from numpy.typing import NDArray

MOST_SPLITS, MOST_BINS, MOST_LINES, MOST_POINTS, MOST_BLOCKS = 20, 160, 12, 120, 40
MOST_COUNT = 6  # a row drawn six times or more in one resample is counted as "5+"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """A column in key order: ``codes`` with ``names`` for classes and groups, ``values`` for numbers."""

    name: str
    numeric: bool
    values: NDArray[Any]
    codes: NDArray[np.int64]
    names: tuple[str, ...]


@dataclass
class Seen:
    """What was seen of a manifest's splits in one pass, and the columns that explain it."""

    manifest: Manifest
    balance: BalanceReport
    target: Column | None
    group: Column | None
    order: NDArray[np.int64]
    order_name: str
    tested: list[Floats] = field(default_factory=list)
    unused: list[Floats] = field(default_factory=list)
    inclusion: Floats = field(default_factory=lambda: np.zeros(MOST_COUNT))
    picks: NDArray[np.int64] | None = None
    tests: list[NDArray[np.int64]] = field(default_factory=list)
    n_seen: int = 0

    @property
    def edges(self) -> NDArray[np.int64]:
        """Return where the bins of rows begin, and where the last one ends."""
        bins = min(self.order.size, MOST_BINS)
        return np.arange(bins + 1) * self.order.size // max(bins, 1)


def see(manifest: Manifest, balance: BalanceReport, data: Any = None) -> Seen:
    """Return what the pictures need. O(rows x splits), of at most 200 splits; less than 1 MB is kept beside columns."""
    columns = manifest.spec.columns
    target = _column(manifest, data, columns.target)
    group = _column(manifest, data, columns.group)
    order, name = _order(manifest.n, target, group)
    seen = Seen(manifest, balance, target, group, order, name)
    if group is not None and isinstance(manifest.membership, Draws):
        seen.picks = np.zeros(len(group.names), dtype=np.int64)
    for i in range(min(manifest.n_splits, MOST_MEASURED)):
        _look(seen, i)
    seen.inclusion /= max(seen.n_seen, 1)
    return seen


def _column(manifest: Manifest, data: Any, name: str | None) -> Column | None:
    if data is None or name is None:
        return None
    table = canonical_table(read_table(data, types=manifest.spec.types), [name], manifest.types)
    positions = manifest.positions(data)
    values = to_numpy(table.column(name))[np.maximum(positions, 0)]
    numeric = name == manifest.spec.columns.target and is_numeric_target(table.column(name))
    if numeric:
        return Column(name, True, values.astype(np.float64), np.empty(0, dtype=np.int64), ())
    levels, codes = np.unique(values.astype(str), return_inverse=True)
    return Column(name, False, values, codes.astype(np.int64), tuple(levels.tolist()))


def _order(n: int, target: Column | None, group: Column | None) -> tuple[NDArray[np.int64], str]:
    if group is not None:
        return np.argsort(group.codes, kind="stable"), f"ordered by {group.name}"
    if target is not None and target.numeric:
        return stable_order(target.values), f"ordered by {target.name}"
    if target is not None:
        return np.argsort(target.codes, kind="stable"), f"ordered by {target.name}"
    return np.arange(n), "in key order"


def _look(seen: Seen, i: int) -> None:
    manifest = seen.manifest
    train, test = manifest.pair(i)
    seen.n_seen += 1
    if isinstance(manifest.in_use, Draws):
        eligible = np.bincount(train, minlength=manifest.n)[manifest.in_use.eligible]
        seen.inclusion += np.bincount(np.minimum(eligible, MOST_COUNT - 1), minlength=MOST_COUNT) / eligible.size
    if seen.picks is not None and seen.group is not None:
        held = np.bincount(seen.group.codes[test], minlength=seen.picks.size)
        seen.picks += held > 0
    if i >= MOST_SPLITS:
        return
    role = np.zeros(manifest.n, dtype=np.int8)
    role[train], role[test] = 1, 2
    ordered, edges = role[seen.order], seen.edges
    sizes = np.diff(edges)
    seen.tested.append(np.add.reduceat(ordered == 2, edges[:-1]) / sizes)
    seen.unused.append(np.add.reduceat(ordered == 0, edges[:-1]) / sizes)
    if i < MOST_LINES:
        seen.tests.append(test)


@dataclass(frozen=True)
class Cumulative:
    """Distributions of the target at ``values``: of all rows, and of the test rows of each split shown."""

    values: Floats
    whole: Floats
    folds: list[Floats]
    band: float


def cumulative(seen: Seen) -> Cumulative | None:
    """Return the target's cumulative distributions between its 0.5 and 99.5 % quantiles; None without numbers."""
    if seen.target is None or not seen.target.numeric:
        return None
    y = seen.target.values
    ranked = y[seen.order] if seen.group is None else y[stable_order(y)]
    low, high = ranked.size // 200, ranked.size - 1 - ranked.size // 200
    places = np.unique(np.linspace(low, high, MOST_POINTS).astype(np.int64))
    values = np.unique(ranked[places])
    whole = np.searchsorted(ranked, values, side="right") / ranked.size
    folds = [_ecdf(y[test], values) for test in seen.tests]
    rows = float(np.median([test.size for test in seen.tests]))
    # 1.36: the 95 % point of Kolmogorov's distribution; the root: the rows are drawn from finitely many.
    band = 1.36 / max(rows, 1.0) ** 0.5 * max(1.0 - rows / ranked.size, 0.0) ** 0.5
    return Cumulative(values, whole, folds, band)


def _ecdf(y: Floats, at: Floats) -> Floats:
    return np.searchsorted(y[stable_order(y)], at, side="right") / max(y.size, 1)


def group_blocks(seen: Seen) -> dict[int, list[int]] | None:
    """Return the sizes of the groups in each fold or part, largest first; None where groups have no fold."""
    manifest = seen.manifest
    if not isinstance(manifest.membership, Labels) or manifest.group_table is None:
        return None
    if seen.group is not None:
        first = np.full(len(seen.group.names), manifest.n, dtype=np.int64)
        np.minimum.at(first, seen.group.codes, np.arange(manifest.n))
        folds = manifest.membership.column()[first]
        rows = np.bincount(seen.group.codes)
    else:
        folds = manifest.group_table.column("fold").to_numpy()
        rows = manifest.group_table.column("rows").fill_null(0).to_numpy()
    return {int(fold): sorted(rows[folds == fold].tolist(), reverse=True) for fold in np.unique(folds)}


@dataclass(frozen=True)
class Picks:
    """Of each group: the share of draws that test it, its size, and what its rows hold of ``what``."""

    share: Floats
    rows: NDArray[np.int64]
    holds: Floats
    what: str
    everywhere: float


def picks(seen: Seen) -> Picks | None:
    """Return how often draws test each group against its prevalence of the rarest class, or its mean target."""
    if seen.picks is None or seen.group is None:
        return None
    rows = np.bincount(seen.group.codes)
    share = seen.picks / seen.n_seen
    if seen.target is None:
        return Picks(share, rows, rows.astype(np.float64), "rows in the group (rows)", float(rows.mean()))
    if seen.target.numeric:
        y, what = seen.target.values, f"mean {seen.target.name} of the group (its unit)"
    else:
        rarest = int(np.argmin(np.bincount(seen.target.codes)))
        y = (seen.target.codes == rarest).astype(np.float64)
        what = f"share of {seen.target.name} = {seen.target.names[rarest]} in the group (0 to 1)"
    holds = np.bincount(seen.group.codes, weights=y) / rows
    return Picks(share, rows, holds, what, float(y.mean()))


def generations(manifest: Manifest) -> list[Counter[int]]:
    """Return the rows of each code that joined with each generation (of the first repeat)."""
    if manifest.born is None:
        return []
    codes = manifest.membership.column()
    return [Counter(codes[manifest.born == g].tolist()) for g in range(manifest.generation + 1)]


def split_names(manifest: Manifest) -> list[str]:
    """Return a short name for each split."""
    names = map(manifest.membership.split_name, range(manifest.n_splits))
    return [f"{repeat}.{fold}" if manifest.membership.n_repeats > 1 else str(fold) for repeat, fold in names]
