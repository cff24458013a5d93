"""Checks that any strategy can be held to, chosen by what it promises and never by its name.

Use it on a strategy of your own::

    from evenfold.splitters.conformance import check_conformance
    check_conformance(MyStrategy(n_splits=5))
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, Pair, Splitter
from evenfold.splitters.errors import SplitError
from numpy.typing import NDArray

from . import promises as promises  # registers a check for each promise
from .checks import CHECKS, MORE, Check, Data, check, data_for, same

__all__ = ["CHECKS", "Check", "Data", "check", "check_conformance", "data_for", "failures"]


def check_conformance(splitter: Splitter, n: int = 60, seed: int = 0) -> None:
    """Raise AssertionError that names every check which ``splitter`` fails on made-up rows."""
    failed = [check.name for check in failures(splitter, data_for(splitter, n, seed))]
    if failed:
        raise AssertionError(f"{splitter!r} with {n} rows does not do this: {'; '.join(failed)}{_unchecked(splitter)}")


def _unchecked(splitter: Splitter) -> str:
    words = {check.promise for check in CHECKS if check.promise}
    unknown = ", ".join(map(repr, sorted(splitter.promises - words)))
    return f"; no check is for {unknown}; choose from {', '.join(sorted(words))}." if unknown else ""


def failures(splitter: Splitter, data: Data) -> Iterator[Check]:
    """Yield the applying checks that ``splitter`` fails on ``data``."""
    yield from (check for check in CHECKS if check.applies(splitter) and not check.holds(splitter, data))


@check("yields positions of its rows, in two one-dimensional integer arrays")
def _positions(splitter: Splitter, data: Data) -> bool:
    sides = [side for pair in data.pairs(splitter) for side in pair]
    shaped = all(isinstance(s, np.ndarray) and s.ndim == 1 and s.dtype.kind == "i" for s in sides)
    return shaped and all(s.size == 0 or (s.min() >= 0 and s.max() < data.n) for s in sides)


@check("lists no row twice that it trains on, unless it promises to draw with replacement")
def _trained_once(splitter: Splitter, data: Data) -> bool:
    # A holdout has words of its own; what is trained on is for the strategy that splits the rest to say.
    of: Any = splitter
    promises = of.inner().promises if "rest_as_alone" in splitter.promises else splitter.promises
    again = bool(promises & {"out_of_bag", "n_draws", "draws_classes", "draws_groups"})
    return again or all(np.unique(train).size == train.size for train, _ in data.pairs(splitter))


@check("lists no row twice that it tests")
def _tested_once(splitter: Splitter, data: Data) -> bool:
    return all(np.unique(test).size == test.size for _, test in data.pairs(splitter))


@check("promises only what a check is for")
def _known_promises(splitter: Splitter, data: Data) -> bool:
    return splitter.promises <= {check.promise for check in CHECKS}


@check("draws a split alone as it draws it among all")
def _alone(splitter: Splitter, data: Data) -> bool:
    if not isinstance(splitter, DrawSplitter):
        return True
    rows = data.rows(splitter)
    return same(data.pairs(splitter), [splitter.pair(rows, i) for i in range(data.count(splitter))])


@check("has a row to train on and a row to test in every pair")
def _both_sides(splitter: Splitter, data: Data) -> bool:
    return all(train.size > 0 and test.size > 0 for train, test in data.pairs(splitter))


@check("yields as many splits as it says")
def _count(splitter: Splitter, data: Data) -> bool:
    return len(data.pairs(splitter)) == data.count(splitter) >= 1


@check("repeats itself")
def _repeats(splitter: Splitter, data: Data) -> bool:
    return same(data.split(splitter), data.split(splitter))


@check("obeys the seed")
def _seed(splitter: Splitter, data: Data) -> bool:
    if "random_state" not in splitter.get_params(deep=False):
        return True

    def drawn(rows: Data, seed: int) -> list[Pair]:
        return rows.split(copy.deepcopy(splitter).set_params(random_state=seed))

    if not same(drawn(data, 1), drawn(data, 1)):
        return False
    if not splitter.portable or splitter.needs.time:  # time may leave nothing to draw
        return True
    rows = (data, data_for(splitter, MORE * data.n))  # few rows may allow one good split alone
    return any(not same(drawn(some, 1), drawn(some, seed)) for some in rows for seed in (2, 3))


@check("leaves the global random state alone")
def _global_state(splitter: Splitter, data: Data) -> bool:
    # The state is the whole process's: another thread, as of a client that waits for a random while, may draw
    # meanwhile, but hardly each time. A new copy each time, for a splitter may draw at its first split alone.
    return any(_is_left_alone(copy.deepcopy(splitter), data) for _ in range(3))


def _is_left_alone(splitter: Splitter, data: Data) -> bool:
    before = _random_state()
    data.split(splitter)
    return _random_state() == before


def _random_state() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 - the legacy state is what must stay untouched
    return random.getstate(), name, np.asarray(keys).tobytes(), rest


@check("leaves its inputs alone")
def _inputs(splitter: Splitter, data: Data) -> bool:
    before = data.copy()
    data.split(splitter)
    now = data.columns()
    return all(np.array_equal(np.asarray(values), np.asarray(now[name])) for name, values in before.columns().items())


@check("leaves itself alone")
def _itself(splitter: Splitter, data: Data) -> bool:
    before = repr(vars(splitter))
    data.split(splitter)
    return repr(vars(splitter)) == before


class _Labelled:
    """A container whose index labels are not its positions, as in a shuffled frame."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        self.index = np.arange(len(self))[::-1]

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self.values if dtype is None else self.values.astype(dtype)

    def __getitem__(self, label: Any) -> Any:
        return self.values[::-1][label]


@check("ignores the container and its index")
def _container(splitter: Splitter, data: Data) -> bool:
    wanted = data.pairs(splitter)
    for wrap in (lambda values: np.asarray(values).tolist(), _Labelled):
        wrapped = {name: wrap(values) for name, values in data.columns().items()}
        if not same(wanted, data.having(**wrapped).split(splitter)):
            return False
    return True


@check("ignores what classes and groups are called")
def _names(splitter: Splitter, data: Data) -> bool:
    def rename(values: Any) -> Any:
        if values is None or np.asarray(values).dtype.kind == "f":
            return values
        levels = np.unique(values)
        return np.array([f"{levels.size - i:06d}" for i in range(levels.size)])[np.searchsorted(levels, values)]

    renamed = data.having(y=rename(data.y), groups=rename(data.groups))
    return same(data.pairs(splitter), renamed.split(splitter))


@check("refuses missing values with a SplitError")
def _missing(splitter: Splitter, data: Data) -> bool:
    for name, values in data.columns().items():
        holed = np.asarray(values).astype(object)
        holed[1] = None
        try:
            data.having(**{name: holed}).split(splitter)
        except SplitError:
            continue
        return False
    return True
