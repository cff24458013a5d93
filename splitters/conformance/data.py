"""Rows to split, made up or given, in containers of every kind; and what a splitter does with them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters.base import LabelSplitter, Pair, Splitter, T
from evenfold.splitters.kernels import MADE_UP, IntArray, Stream
from numpy.typing import NDArray

# What the same rows may come in; every one is a copy.
CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "array": copy.deepcopy,
    "narrow": lambda values: np.array(values, dtype=np.int32 if np.asarray(values).dtype.kind == "i" else None),
    "list": lambda values: np.asarray(values).tolist(),
    # A frame or series whose index labels are not its positions, as a shuffled one has them.
    "labelled": lambda values: (pd.Series if np.ndim(values) == 1 else pd.DataFrame)(
        np.array(values), index=np.arange(len(values))[::-1]
    ),
}


@dataclass(frozen=True)
class Seen:
    """A splitter after it first split some rows: their pairs, or the error that it raised, and what it left alone."""

    splitter: Splitter
    outcome: list[Pair] | Exception
    inputs_alone: bool
    itself_alone: bool
    global_alone: bool


@dataclass(frozen=True)
class Data:
    """Rows for a strategy to split: what it needs and no more. ``roles`` are its key, time and fixed columns."""

    n: int
    y: Any = None
    groups: Any = None
    roles: Mapping[str, Any] = field(default_factory=dict)
    _known: dict[tuple[type, str, str], Any] = field(default_factory=dict, repr=False, compare=False)
    X: Any = None

    @property
    def given(self) -> dict[str, Any]:
        """All that a splitter is given, by name."""
        X = np.zeros((self.n, 1)) if self.X is None else self.X
        return {"X": X, "y": self.y, "groups": self.groups, **self.roles}

    def columns(self) -> dict[str, Any]:
        """Return what there is of y, groups and the roles, by name."""
        return {name: values for name, values in self.given.items() if name != "X" and values is not None}

    def split(self, splitter: Splitter) -> list[Pair]:
        """Return all pairs of ``splitter`` on these rows, split anew."""
        return list(splitter.split(**self.given))

    def pairs(self, splitter: Splitter, container: str = "array") -> list[Pair]:
        """Return all pairs, split once for all checks that only look at them; the splitter's error where it has one."""
        outcome = self.seen(splitter, container).outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def seen(self, splitter: Splitter, container: str = "array") -> Seen:
        """Return what a copy of ``splitter`` does with these rows in containers of their own, done once for all."""
        return self._once(splitter, container, lambda: watch(copy.deepcopy(splitter), self.into(container)))

    def labels(self, splitter: Splitter) -> NDArray[Any]:
        """Return the label that ``splitter``, which gives labels, gives each of these rows, asked once for all."""
        assert isinstance(splitter, LabelSplitter), f"{splitter!r} gives no labels"
        return self._once(splitter, "labels", lambda: splitter.assign(**self.given))

    def _once(self, splitter: Splitter, what: str, make: Callable[[], T]) -> T:
        name = type(splitter), repr(vars(splitter)), what
        if name not in self._known:
            self._known[name] = make()
        value: T = self._known[name]
        return value

    def each(self, change: Callable[[str, Any], Any]) -> Data:
        """Return these rows with each column that there is as ``change`` makes it of its name and values."""
        columns = {"X": self.X, "y": self.y, "groups": self.groups, **self.roles}
        new = {name: None if values is None else change(name, values) for name, values in columns.items()}
        return Data(self.n, new["y"], new["groups"], {name: new[name] for name in self.roles}, X=new["X"])

    def into(self, container: str) -> Data:
        """Return these rows in other containers, or in new ones of the same kind; X is never a list."""
        put = CONTAINERS[container]
        new = self.each(lambda name, values: (copy.deepcopy if (name, container) == ("X", "list") else put)(values))
        return replace(new, _known=self._known)

    def having(self, **columns: Any) -> Data:
        """Return these rows with some columns replaced."""
        return self.each(lambda name, values: columns.get(name, values))

    def take(self, rows: IntArray) -> Data:
        """Return some of these rows, in the order of ``rows``."""
        return replace(self.each(lambda _, values: values[rows]), n=rows.size)


def watch(splitter: Splitter, data: Data) -> Seen:
    """Return what ``splitter`` does with ``data``."""
    inputs, itself, state = copy.deepcopy(data.given), repr(vars(splitter)), _random_state()
    try:
        outcome: list[Pair] | Exception = data.split(splitter)
    except Exception as error:  # which is no change of anything; whoever asks for the pairs meets it
        outcome = error
    untouched = all(np.array_equal(np.asarray(inputs[name]), np.asarray(now)) for name, now in data.given.items())
    return Seen(splitter, outcome, untouched, repr(vars(splitter)) == itself, _random_state() == state)


def _random_state() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 - the legacy state is what must stay untouched
    return random.getstate(), name, np.asarray(keys).tobytes(), rest


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
    # A second entity beside the group: two groups share a level, and one row in sixteen has another group's.
    beside = Stream(seed, MADE_UP, 2)
    other = groups[beside.permutation(n)]
    entities = np.column_stack([groups, np.where(beside.below(16, n) == 0, other, groups) // 2])
    # Made-up groups lie all over time: where a holdout leaves out the locked ones, nothing of the past would be left.
    grouped = needs.groups is True or (needs.groups and ("groups_whole" in splitter.promises or not needs.time))
    return Data(
        n=n,
        X=np.arange(float(n))[::-1].reshape(-1, 1),
        y={"ignored": None, "numbers": 1.0 / (1.0 - stream.uniform(n))}.get(needs.y, classes),
        groups=entities if "entities_apart" in splitter.promises else groups if grouped else None,
        roles={name: values for name, values in roles.items() if getattr(needs, name)},
    )
