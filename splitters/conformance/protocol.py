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
from evenfold.splitters.base import Splitter
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels.random import MADE_UP, Stream
from numpy.typing import NDArray

from . import promises as promises  # registers a check for each promise
from .checks import CHECKS, Check, Data, check, same

__all__ = ["CHECKS", "Check", "Data", "check", "check_conformance", "data_for", "failures"]


def check_conformance(splitter: Splitter, n: int = 60, seed: int = 0) -> None:
    """Raise AssertionError that names every check which ``splitter`` fails on made-up rows."""
    failed = [check.name for check in failures(splitter, data_for(splitter, n, seed))]
    if failed:
        raise AssertionError(f"{splitter!r} with {n} rows does not do this: " + "; ".join(failed))


def failures(splitter: Splitter, data: Data) -> Iterator[Check]:
    """Yield the applying checks that ``splitter`` fails on ``data``."""
    yield from (check for check in CHECKS if check.applies(splitter) and not check.holds(splitter, data))


def data_for(splitter: Splitter, n: int, seed: int = 0) -> Data:
    """Return ``n`` made-up rows with what ``splitter`` needs: 3 uneven classes or heavy-tailed numbers, n//4 groups,
    or two columns of entities.

    Targets are known on the day of the row or on the next one; places lie on a map of 10 by 10.
    The same on every machine and with every NumPy, like a split.
    """
    stream, needs = Stream(seed, MADE_UP), splitter.needs
    n_groups = max(n // 4, 6)
    groups = np.concatenate([np.arange(n_groups), stream.below(n_groups, n - n_groups)])[stream.permutation(n)]
    classes = np.resize(["a", "b", "a", "c", "a", "b"], n)[stream.permutation(n)]
    roles = {
        "key": stream.permutation(n) * 7 + 3,
        "time": stream.below(n, n).astype("datetime64[D]"),
        "fixed": np.resize([0, 1, 2, 0, 1, 2, 0, -1, -2, -3], n)[stream.permutation(n)],
    }
    roles["label_end"] = roles["time"] + Stream(seed, MADE_UP, 1).below(2, n)
    roles["coordinates"] = Stream(seed, MADE_UP, 3).below(100, 2 * n).reshape(n, 2) / 10
    return Data(
        n=n,
        y={"ignored": None, "numbers": 1.0 / (1.0 - stream.uniform(n))}.get(needs.y, classes),
        groups=_entities(groups, seed) if "entities_apart" in splitter.promises else groups if needs.groups else None,
        roles={name: values for name, values in roles.items() if getattr(needs, name)},
    )


def _entities(groups: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return a second column beside ``groups``: two of them share a level, and one row in sixteen has another's."""
    stream = Stream(seed, MADE_UP, 2)
    other = groups[stream.permutation(groups.size)]
    return np.column_stack([groups, np.where(stream.below(16, groups.size) == 0, other, groups) // 2])


@check("yields positions of its rows, in two one-dimensional integer arrays")
def _positions(splitter: Splitter, data: Data) -> bool:
    sides = [side for pair in data.pairs(splitter) for side in pair]
    shaped = all(isinstance(s, np.ndarray) and s.ndim == 1 and s.dtype.kind == "i" for s in sides)
    return shaped and all(s.size == 0 or (s.min() >= 0 and s.max() < data.n) for s in sides)


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
    drawn = [data.split(copy.deepcopy(splitter).set_params(random_state=seed)) for seed in (1, 2, 3, 1)]
    differs = any(not same(drawn[0], other) for other in drawn[1:3])
    return same(drawn[0], drawn[3]) and (differs or not splitter.portable)


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
