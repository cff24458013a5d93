"""Checks that any strategy can be held to, chosen by what it promises and never by its name.

Use it on a strategy of your own::

    from evenfold.splitters.conformance import check_conformance
    check_conformance(MyStrategy(n_splits=5))
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._base import Pair, Splitter
from ._errors import SplitError


@dataclass(frozen=True)
class Data:
    """Rows for a strategy to split: what it needs and no more."""

    n: int
    y: Any = None
    groups: Any = None
    more: tuple[tuple[str, Any], ...] = ()

    def split(self, splitter: Splitter) -> list[Pair]:
        """Return all pairs of ``splitter`` on these rows."""
        if self.more:
            return list(splitter.pairs(splitter.rows(np.zeros((self.n, 1)), self.y, self.groups, **dict(self.more))))
        return list(splitter.split(np.zeros((self.n, 1)), self.y, self.groups))


@dataclass(frozen=True)
class Check:
    """One check: its name completes the sentence "a splitter ..."; ``promise`` says to whom it applies."""

    name: str
    promise: str | None
    run: Callable[[Splitter, Data], bool]

    def applies(self, splitter: Splitter) -> bool:
        """Return whether ``splitter`` promises what this checks."""
        return self.promise is None or self.promise in splitter.promises

    def holds(self, splitter: Splitter, data: Data) -> bool:
        """Return whether ``splitter`` does it on ``data``; an exception of its own is a no."""
        try:
            return bool(self.run(copy.deepcopy(splitter), copy.deepcopy(data)))
        except Exception:
            return False


CHECKS: list[Check] = []


def check(name: str, promise: str | None = None) -> Callable[[Callable[[Splitter, Data], bool]], Any]:
    """Register a function of (splitter, data) that returns whether the splitter does what ``name`` says."""

    def register(run: Callable[[Splitter, Data], bool]) -> Callable[[Splitter, Data], bool]:
        CHECKS.append(Check(name, promise, run))
        return run

    return register


def check_conformance(splitter: Splitter, n: int = 60, seed: int = 0) -> None:
    """Raise AssertionError that names every check which ``splitter`` fails on made-up rows."""
    failed = [each.name for each in failures(splitter, data_for(splitter, n, seed))]
    if failed:
        raise AssertionError(f"{splitter!r} with {n} rows does not do this: " + "; ".join(failed))


def failures(splitter: Splitter, data: Data) -> Iterator[Check]:
    """Yield the applying checks that ``splitter`` fails on ``data``."""
    for each in CHECKS:
        if each.applies(splitter) and not each.holds(splitter, data):
            yield each


def data_for(splitter: Splitter, n: int, seed: int = 0) -> Data:
    """Return ``n`` made-up rows with what ``splitter`` needs: 3 uneven classes or heavy-tailed numbers, n//4 groups."""
    rng = np.random.default_rng(seed)
    n_groups = max(n // 4, 6)
    groups = rng.permutation(np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)]))
    classes = rng.permutation(np.resize(["a", "b", "a", "c", "a", "b"], n))
    more = {"key": np.arange(n) * 7 + 3, "time": np.sort(rng.integers(0, n, n)).astype("datetime64[D]")}
    return Data(
        n=n,
        y={"ignored": None, "numbers": rng.lognormal(size=n)}.get(splitter.needs.y, classes),
        groups=groups if splitter.needs.groups else None,
        more=tuple((name, values) for name, values in more.items() if getattr(splitter.needs, name)),
    )


def _same(some: list[Pair], others: list[Pair]) -> bool:
    return len(some) == len(others) and all(
        np.array_equal(a, b) for one, other in zip(some, others, strict=True) for a, b in zip(one, other, strict=True)
    )


def _spread(counts: NDArray[Any]) -> int:
    """Return the largest difference between two folds' counts (folds first)."""
    return int((counts.max(axis=0) - counts.min(axis=0)).max())


# ---------------------------------------------------------------- what every strategy does


@check("yields positions of its rows, in two one-dimensional integer arrays")
def _positions(splitter: Splitter, data: Data) -> bool:
    sides = [side for pair in data.split(splitter) for side in pair]
    shaped = all(isinstance(s, np.ndarray) and s.ndim == 1 and s.dtype.kind == "i" for s in sides)
    return shaped and all(s.size == 0 or (s.min() >= 0 and s.max() < data.n) for s in sides)


@check("has a row to train on and a row to test in every pair")
def _both_sides(splitter: Splitter, data: Data) -> bool:
    return all(train.size > 0 and test.size > 0 for train, test in data.split(splitter))


@check("yields as many splits as it says")
def _count(splitter: Splitter, data: Data) -> bool:
    said = splitter.get_n_splits(np.zeros((data.n, 1)), data.y, data.groups)
    return len(data.split(splitter)) == said and said >= 1


@check("repeats itself")
def _repeats(splitter: Splitter, data: Data) -> bool:
    return _same(data.split(splitter), data.split(splitter))


@check("obeys the seed")
def _seed(splitter: Splitter, data: Data) -> bool:
    if "random_state" not in splitter.get_params(deep=False):
        return True
    drawn = [data.split(copy.deepcopy(splitter).set_params(random_state=seed)) for seed in (1, 2, 3, 1)]
    differs = any(not _same(drawn[0], other) for other in drawn[1:3])
    return _same(drawn[0], drawn[3]) and (differs or not splitter.portable)


@check("leaves the global random state alone")
def _global_state(splitter: Splitter, data: Data) -> bool:
    before = _random_state()
    data.split(splitter)
    return _random_state() == before


def _random_state() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 - the legacy state is what must stay untouched
    return random.getstate(), name, np.asarray(keys).tobytes(), rest


@check("leaves its inputs alone")
def _inputs(splitter: Splitter, data: Data) -> bool:
    before = copy.deepcopy(data)
    data.split(splitter)
    return all(
        np.array_equal(np.asarray(a), np.asarray(b))
        for a, b in ((before.y, data.y), (before.groups, data.groups))
        if a is not None
    )


@check("leaves itself alone")
def _itself(splitter: Splitter, data: Data) -> bool:
    before = repr(vars(splitter))
    data.split(splitter)
    return repr(vars(splitter)) == before


class _Labelled:
    """A container whose index labels are not its positions, as in a shuffled frame."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        self.index = np.arange(self.values.size)[::-1]

    def __len__(self) -> int:
        return int(self.values.size)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self.values if dtype is None else self.values.astype(dtype)

    def __getitem__(self, label: Any) -> Any:
        return self.values[::-1][label]


@check("ignores the container and its index")
def _container(splitter: Splitter, data: Data) -> bool:
    wanted = data.split(splitter)
    for wrap in (lambda values: np.asarray(values).tolist(), _Labelled):
        wrapped = [None if values is None else wrap(values) for values in (data.y, data.groups)]
        if not _same(wanted, replace(data, y=wrapped[0], groups=wrapped[1]).split(splitter)):
            return False
    return True


@check("ignores what classes and groups are called")
def _names(splitter: Splitter, data: Data) -> bool:
    def rename(values: Any) -> Any:
        if values is None or np.asarray(values).dtype.kind == "f":
            return values
        levels = np.unique(values)
        return np.array([f"{levels.size - i:06d}" for i in range(levels.size)])[np.searchsorted(levels, values)]

    return _same(data.split(splitter), replace(data, y=rename(data.y), groups=rename(data.groups)).split(splitter))


@check("refuses missing values with a SplitError")
def _missing(splitter: Splitter, data: Data) -> bool:
    for name in ("y", "groups"):
        values = getattr(data, name)
        if values is None:
            continue
        holed = np.asarray(values).astype(object)
        holed[1] = None
        try:
            (replace(data, y=holed) if name == "y" else replace(data, groups=holed)).split(splitter)
        except SplitError:
            continue
        return False
    return True


# ---------------------------------------------------------------- one check per promise


@check("keeps train and test apart", "disjoint")
def _disjoint(splitter: Splitter, data: Data) -> bool:
    return all(np.intersect1d(train, test).size == 0 for train, test in data.split(splitter))


@check("tests every row once and trains on the rest", "exhaustive")
def _exhaustive(splitter: Splitter, data: Data) -> bool:
    pairs = data.split(splitter)
    once = np.bincount(np.concatenate([test for _, test in pairs]), minlength=data.n)
    rest = all(np.array_equal(np.union1d(train, test), np.arange(data.n)) for train, test in pairs)
    return bool((once == once[0]).all()) and once[0] >= 1 and rest


@check("only appends when more splits are asked for", "appendable")
def _appendable(splitter: Splitter, data: Data) -> bool:
    few = data.split(copy.deepcopy(splitter).set_params(n_splits=2))
    more = data.split(copy.deepcopy(splitter).set_params(n_splits=5))
    return _same(few, more[:2]) and not _same(more[:2], more[2:4])


@check("makes folds whose sizes differ by at most 1", "even_sizes")
def _even_sizes(splitter: Splitter, data: Data) -> bool:
    return _spread(np.array([[test.size] for _, test in data.split(splitter)])) <= 1


@check("makes folds whose counts of every class differ by at most 1", "even_classes")
def _even_classes(splitter: Splitter, data: Data) -> bool:
    y = np.asarray(data.y)
    levels = np.unique(y)
    return _spread(np.array([[np.sum(y[test] == level) for level in levels] for _, test in data.split(splitter)])) <= 1


@check("makes folds whose counts below any threshold differ by its bound", "even_distribution")
def _even_distribution(splitter: Splitter, data: Data) -> bool:
    y = np.asarray(data.y)
    below = [np.searchsorted(np.sort(y[test]), np.unique(y), side="right") for _, test in data.split(splitter)]
    return _spread(np.array(below)) <= getattr(splitter, "threshold_gap", 1)


@check("keeps every group on one side", "groups_whole")
def _groups_whole(splitter: Splitter, data: Data) -> bool:
    groups = np.asarray(data.groups)
    return all(np.intersect1d(groups[train], groups[test]).size == 0 for train, test in data.split(splitter))


@check("leaves no fold empty even with as many groups as folds", "no_empty_fold")
def _no_empty_fold(splitter: Splitter, data: Data) -> bool:
    k = splitter.get_n_splits(np.zeros((data.n, 1)), data.y, data.groups)
    # One group holds nearly all rows, so that a rule which looks only at sizes has a fold to forget.
    few = np.minimum(np.arange(data.n), k - 1)[::-1].copy()
    pairs = replace(data, groups=few).split(splitter)
    return len(pairs) == k and all(test.size > 0 for _, test in pairs)


@check("trains on n draws and tests on every row not drawn", "out_of_bag")
def _out_of_bag(splitter: Splitter, data: Data) -> bool:
    return all(
        train.size == data.n and np.array_equal(np.setdiff1d(np.arange(data.n), train), test)
        for train, test in data.split(splitter)
    )


assert all(a.name != b.name for a, b in pairwise(sorted(CHECKS, key=lambda each: each.name)))
