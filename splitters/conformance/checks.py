"""The check of a promise, its input, and the list that checks register in."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters.base import LabelSplitter, Pair, Splitter, T
from evenfold.splitters.kernels import MADE_UP, IntArray, Stream
from evenfold.splitters.rows import Rows
from numpy.typing import NDArray


def _narrow(values: Any) -> NDArray[Any]:
    array = np.array(values)
    return array.astype(np.int32) if array.dtype.kind == "i" else array


# What the same rows may come in; every one is a copy.
CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "array": copy.deepcopy,
    "narrow": _narrow,
    "list": lambda values: np.asarray(values).tolist(),
    # A frame or series whose index labels are not its positions, as a shuffled one has them.
    "labelled": lambda values: (pd.Series if np.ndim(values) == 1 else pd.DataFrame)(
        np.array(values), index=np.arange(len(values))[::-1]
    ),
}


@dataclass(frozen=True)
class Seen:
    """A splitter after it first split some rows, and what came of it: their pairs, or the error that it
    raised instead, and what it left alone."""

    splitter: Splitter
    outcome: list[Pair] | Exception
    inputs_alone: bool
    itself_alone: bool
    global_alone: bool

    @property
    def pairs(self) -> list[Pair]:
        """The pairs; raises the splitter's own error where there are none."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass(frozen=True)
class Data:
    """Rows for a strategy to split: what it needs and no more. ``roles`` are its key, time and fixed columns."""

    n: int
    y: Any = None
    groups: Any = None
    roles: Mapping[str, Any] = field(default_factory=dict)
    _known: dict[tuple[type, str, str], Any] = field(default_factory=dict, repr=False, compare=False)
    X: Any = None

    def split(self, splitter: Splitter) -> list[Pair]:
        """Return all pairs of ``splitter`` on these rows, split anew."""
        return list(splitter.split(*self._given(), **self.roles))

    def pairs(self, splitter: Splitter) -> list[Pair]:
        """Return all pairs of ``splitter`` on these rows, split once for all checks that only look at them."""
        return self.seen(splitter).pairs

    def seen(self, splitter: Splitter, container: str = "array") -> Seen:
        """Return what a copy of ``splitter`` does with these rows in containers of their own, done once for all."""
        return self._once(splitter, container, lambda: watch(copy.deepcopy(splitter), self.into(container)))

    def into(self, container: str) -> Data:
        """Return these rows in other containers, or in new ones of the same kind; X is never a list."""
        put = CONTAINERS[container]
        y, groups = (None if values is None else put(values) for values in (self.y, self.groups))
        X = None if self.X is None else (copy.deepcopy if container == "list" else put)(self.X)
        return Data(self.n, y, groups, {name: put(values) for name, values in self.roles.items()}, self._known, X)

    def count(self, splitter: Splitter) -> int:
        """Return how many pairs ``splitter`` says it yields of these rows."""
        return splitter.get_n_splits(*self._given(), **self.roles)

    def rows(self, splitter: Splitter) -> Rows:
        """Return these rows as ``splitter`` may see them."""
        return splitter.rows(*self._given(), **self.roles)

    def labels(self, splitter: Splitter) -> NDArray[Any]:
        """Return the label that ``splitter``, which gives labels, gives each of these rows, asked once for all."""
        assert isinstance(splitter, LabelSplitter), f"{splitter!r} gives no labels"
        return self._once(splitter, "labels", lambda: splitter.assign(*self._given(), **self.roles))

    def _given(self) -> tuple[Any, Any, Any]:
        return np.zeros((self.n, 1)) if self.X is None else self.X, self.y, self.groups

    def _once(self, splitter: Splitter, what: str, make: Callable[[], T]) -> T:
        name = type(splitter), repr(vars(splitter)), what
        if name not in self._known:
            self._known[name] = make()
        value: T = self._known[name]
        return value

    def columns(self) -> dict[str, Any]:
        """Return what there is of y, groups and the roles, by name."""
        roles = {"y": self.y, "groups": self.groups, **self.roles}
        return {name: values for name, values in roles.items() if values is not None}

    def everything(self) -> dict[str, Any]:
        """Return all that a splitter is given, by name."""
        return self.columns() | ({} if self.X is None else {"X": self.X})

    def having(self, **columns: Any) -> Data:
        """Return these rows with some columns replaced."""
        roles = {name: columns.get(name, values) for name, values in self.roles.items()}
        return Data(self.n, columns.get("y", self.y), columns.get("groups", self.groups), roles, X=self.X)

    def take(self, rows: IntArray) -> Data:
        """Return some of these rows, in the order of ``rows``."""
        y, groups, X = (None if values is None else values[rows] for values in (self.y, self.groups, self.X))
        return Data(rows.size, y, groups, {name: values[rows] for name, values in self.roles.items()}, X=X)


def watch(splitter: Splitter, data: Data) -> Seen:
    """Return what ``splitter`` does with ``data``."""
    inputs, itself, state = copy.deepcopy(data.everything()), repr(vars(splitter)), _random_state()
    try:
        outcome: list[Pair] | Exception = data.split(splitter)
    except Exception as error:  # which is no change of anything; whoever asks for the pairs meets it
        outcome = error
    now = data.everything()
    untouched = all(np.array_equal(np.asarray(inputs[name]), np.asarray(now[name])) for name in inputs)
    return Seen(splitter, outcome, untouched, repr(vars(splitter)) == itself, _random_state() == state)


def _random_state() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 - the legacy state is what must stay untouched
    return random.getstate(), name, np.asarray(keys).tobytes(), rest


@dataclass(frozen=True)
class Check:
    """One check: its name completes the sentence "a splitter ..."; ``promise`` says to whom it applies."""

    name: str
    promise: str | None
    run: Callable[[Splitter, Data], bool]

    def holds(self, splitter: Splitter, data: Data) -> bool:
        """Return whether ``splitter`` does it on ``data``; an exception counts as a failure."""
        try:
            return bool(self.run(copy.deepcopy(splitter), data.into("array")))
        except Exception:
            return False


CHECKS: list[Check] = []
MORE = 4  # times as many rows, where few leave a splitter no choice


def check(name: str, promise: str | None = None) -> Callable[[Callable[[Splitter, Data], bool]], Any]:
    """Register a function of (splitter, data) that returns whether the splitter does what ``name`` says."""

    def register(run: Callable[[Splitter, Data], bool]) -> Callable[[Splitter, Data], bool]:
        assert all(each.name != name for each in CHECKS), f"two checks are called {name!r}"
        CHECKS.append(Check(name, promise, run))
        return run

    return register


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
    # Made-up groups lie all over time: where a holdout leaves out the locked ones, nothing of the past would be left.
    grouped = needs.groups is True or (needs.groups and ("groups_whole" in splitter.promises or not needs.time))
    return Data(
        n=n,
        X=np.arange(float(n))[::-1].reshape(-1, 1),
        y={"ignored": None, "numbers": 1.0 / (1.0 - stream.uniform(n))}.get(needs.y, classes),
        groups=_entities(groups, seed) if "entities_apart" in splitter.promises else groups if grouped else None,
        roles={name: values for name, values in roles.items() if getattr(needs, name)},
    )


def _entities(groups: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return a second column beside ``groups``: two of them share a level, and one row in sixteen has another's."""
    stream = Stream(seed, MADE_UP, 2)
    other = groups[stream.permutation(groups.size)]
    return np.column_stack([groups, np.where(stream.below(16, groups.size) == 0, other, groups) // 2])


def same(some: list[Pair], others: list[Pair]) -> bool:
    """Return whether two lists of pairs hold the same positions in the same order."""
    return len(some) == len(others) and all(
        np.array_equal(a, b) for one, other in zip(some, others, strict=True) for a, b in zip(one, other, strict=True)
    )


def repeats_a_row(pairs: list[Pair]) -> bool:
    """Return whether any train set lists a row more than once."""
    return any(np.unique(train).size < train.size for train, _ in pairs)


def spread(counts: NDArray[Any]) -> int:
    """Return the largest difference between two folds' counts (folds first)."""
    return int((counts.max(axis=0) - counts.min(axis=0)).max())
