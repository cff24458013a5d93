"""How even a split is, in numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from evenfold.manifests.tables.canonical import canonical_table, require_complete, to_numpy
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import GroupPacker, Rows, stable_order
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from .manifest import Manifest
from .membership import Labels
from .plan import balanced_columns, is_numeric_target


class Reach(BaseModel):
    """The cost of a grouped split, and a cost that no assignment of the same whole groups is below.

    ``cost`` = ``size_term`` + ``class_term`` + ``missing``, as the strategy weighs them: sizes, class shares, and how
    many times a fold lacks a class that enough groups have. ``gap`` = cost - lower_bound, and ``optimal`` only where
    that is proved to be nothing. Of a grown split the bound is that of all groups dealt out anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cost: float
    size_term: float
    class_term: float
    missing: int
    lower_bound: float
    gap: float
    optimal: bool


def reach_of(manifest: Manifest, data: Any) -> Reach | None:
    """Return how even a grouped split is and could be; None for other strategies, and where a group lies in two folds.

    O(n) and the bound's search: up to a few seconds where groups are few enough for a proof.
    """
    splitter, columns = manifest.splitter, manifest.spec.columns
    if not isinstance(splitter, GroupPacker) or data is None or columns.group is None:
        return None
    membership = manifest.in_use
    codes = membership.column()
    kept = np.isin(codes, list(membership.parts.values()) or np.arange(manifest.n_splits))
    balanced: list[str | None] = [*columns.stratify] or [columns.target]
    used = list(dict.fromkeys(name for name in [*balanced, columns.group] if name))
    table = canonical_table(read_table(data, used), used, manifest.types).take(manifest.positions(data)[kept])
    groups = to_numpy(table.column(columns.group))
    if _torn(groups, codes[kept]):
        return None
    y = balanced_columns(table, columns)
    rows = Rows.of(np.empty((table.num_rows, 0)), y, groups, needs=splitter.needs, asked_by=type(splitter).__name__)
    return Reach(**asdict(splitter.judge(rows, codes[kept])))


def _torn(groups: NDArray[Any], codes: NDArray[Any]) -> bool:
    """Return whether a group has rows of two codes, as merged groups have."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    return bool((codes[first][numbers] != codes).any())


def least_size_deviation(n: int, n_splits: int, largest: int = 1) -> float:
    """Return the largest relative deviation from equal test sizes that no split of n rows can do without.

    Whole rows cannot be shared out more evenly, and the fold of the largest group holds at least that group.
    """
    mean = n / n_splits
    fewest, most = n // n_splits, -(-n // n_splits)
    return max(mean - fewest, max(most, largest) - mean) / mean


MOST_MEASURED = 200


class FoldBalance(BaseModel):
    """The test rows of one split: how many, and how their target is distributed.

    ``ks`` is the largest difference between the fold's cumulative distribution and that of all rows (0..1);
    ``wasserstein`` the area between the two, in units of the target. ``shares`` are of each class, in its order. One
    row has no ``sd``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: int
    rows: int
    groups: int | None = None
    shares: list[float] | None = None
    mean: float | None = None
    sd: float | None = None
    ks: float | None = None
    wasserstein: float | None = None


class BalanceReport(BaseModel):
    """How even a manifest is: every fold, and the worst of each figure as one number.

    ``worst`` holds ``size`` (largest relative deviation of a fold's rows from the mean), and where the target was
    given ``class_share`` (largest deviation of a class share from its share of all rows) or ``ks``,
    ``wasserstein``, ``mean_in_sd`` (largest deviation of a fold's mean from the mean of all, in standard deviations).
    Of draws, at most the first 200 are measured; ``n_measured`` says how many. ``reachable`` holds, where it is known,
    what no split of the same rows can be below in such a figure; ``reach`` how even whole groups are and could be.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    split_id: str
    target: str | None
    n_rows: int
    n_splits: int
    n_measured: int
    classes: list[str] | None = None
    shares: list[float] | None = None
    folds: list[FoldBalance]
    worst: dict[str, float]
    reachable: dict[str, float] = {}
    reach: Reach | None = None


def measure(manifest: Manifest, data: Any = None) -> BalanceReport:
    """Return how even ``manifest`` is on ``data``: sizes alone without data or target. O(n log n + splits x n)."""
    columns = manifest.spec.columns
    y = groups = None
    if data is not None and columns.target:
        y = _in_order(manifest, data, columns.target)
    if data is not None and columns.group:
        groups = _in_order(manifest, data, columns.group)
    made = _report(manifest, y, groups)
    return made.model_copy(update={"reach": reach_of(manifest, data), "reachable": _reachable(manifest, groups)})


def _reachable(manifest: Manifest, groups: tuple[NDArray[Any], bool] | None) -> dict[str, float]:
    splitter = manifest.splitter
    membership = manifest.in_use
    if not isinstance(membership, Labels) or membership.parts or "exhaustive" not in splitter.promises:
        return {}
    tested = membership.column() >= 0
    largest = 1
    if groups is not None and splitter.needs.groups:
        largest = int(np.unique(groups[0][tested], return_counts=True)[1].max())
    return {"size": least_size_deviation(int(tested.sum()), membership.n_bins, largest)}


def _in_order(manifest: Manifest, data: Any, name: str) -> tuple[NDArray[Any], bool]:
    table = canonical_table(read_table(data), [name], manifest.types)
    require_complete(table.column(name), name)
    return to_numpy(table.column(name))[manifest.positions(data)], is_numeric_target(table.column(name))


def _report(
    manifest: Manifest, y: tuple[NDArray[Any], bool] | None, groups: tuple[NDArray[Any], bool] | None
) -> BalanceReport:
    measured = min(manifest.n_splits, MOST_MEASURED)
    tests = [manifest.pair(i)[1] for i in range(measured)]
    sizes = np.array([test.size for test in tests])
    worst = {"size": float(np.abs(sizes / sizes.mean() - 1).max())}
    more: list[dict[str, Any]] = [{} for _ in tests]
    classes, shares = None, None
    if y is not None and y[1]:
        more = compared_with_all(y[0].astype(np.float64), tests)
        sd = float(y[0].astype(np.float64).std()) or 1.0
        mean = float(y[0].mean())
        worst |= {name: max(fold[name] for fold in more) for name in ("ks", "wasserstein")}
        worst["mean_in_sd"] = max(abs(fold["mean"] - mean) for fold in more) / sd
    elif y is not None:
        classes, shares, more = _classes(y[0], tests)
        worst["class_share"] = max(float(np.abs(np.subtract(fold["shares"], shares)).max()) for fold in more)
    if groups is not None:
        more = [fold | {"groups": int(np.unique(groups[0][test]).size)} for fold, test in zip(more, tests, strict=True)]
    return BalanceReport(
        split_id=manifest.split_id,
        target=manifest.spec.columns.target if y is not None else None,
        n_rows=manifest.n,
        n_splits=manifest.n_splits,
        n_measured=measured,
        classes=classes,
        shares=shares,
        folds=[FoldBalance(split=i, rows=int(sizes[i]), **fold) for i, fold in enumerate(more)],
        worst=worst,
    )


def _classes(y: NDArray[Any], tests: list[NDArray[Any]]) -> tuple[list[str], list[float], list[dict[str, Any]]]:
    levels, codes = np.unique(y.astype(str), return_inverse=True)
    counts = [np.bincount(codes[test], minlength=levels.size) for test in tests]
    overall = np.bincount(codes) / codes.size
    return levels.tolist(), overall.tolist(), [{"shares": (c / max(c.sum(), 1)).tolist()} for c in counts]


def compared_with_all(y: NDArray[np.float64], tests: list[NDArray[Any]]) -> list[dict[str, Any]]:
    """Return mean, sd, KS and Wasserstein distance to all rows, for each set of test rows."""
    order = stable_order(y)
    ranked = y[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    values, overall = ranked[last], (np.flatnonzero(last) + 1) / y.size
    steps = np.diff(values)
    rank = np.empty(y.size, dtype=np.int64)
    rank[order] = np.cumsum(last) - last
    told = []
    for test in tests:
        fold = np.cumsum(np.bincount(rank[test], minlength=values.size)) / max(test.size, 1)
        gap = np.abs(fold - overall)
        told.append(
            {
                "mean": float(y[test].mean()),
                "sd": float(y[test].std(ddof=1)) if test.size > 1 else None,
                "ks": float(gap.max()),
                "wasserstein": float((gap[:-1] * steps).sum()),
            }
        )
    return told
