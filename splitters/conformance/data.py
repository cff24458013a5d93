"""Rows to split, made up or given, in containers of every kind; and what a splitter does with them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters.base import LabelSplitter, Pair, Splitter
from evenfold.splitters.numbers import MADE_UP, IntArray, Stream
from numpy.typing import NDArray

# What the same rows may come in.
CONTAINERS: tuple[Callable[[Any], Any], ...] = (
    copy.deepcopy,
    lambda values: np.array(values, dtype=np.int32 if values.dtype.kind == "i" else None),
    lambda values: values.copy() if values.shape[1:] == (1,) else values.tolist(),  # X, of one column, is never a list
    # A frame or series whose index labels are not its positions, as a shuffled one has them.
    lambda values: (pd.Series if values.ndim == 1 else pd.DataFrame)(values.copy(), index=np.arange(len(values))[::-1]),
)


@dataclass(frozen=True)
class Seen:
    """The first split of some rows: their pairs, or the error that was raised, and what was left alone by it."""

    outcome: list[Pair] | Exception
    inputs_unchanged: bool
    itself_unchanged: bool
    global_unchanged: bool


@dataclass(frozen=True)
class Trial:
    """A splitter and ``n`` rows: the columns that it needs, by the names that ``split`` takes them by.

    Checks get copies of both; the first split is made once and shared.
    """

    splitter: Splitter
    n: int
    columns: Mapping[str, Any]

    @property
    def fresh(self) -> Any:
        """A copy of the splitter that has split nothing yet."""
        return copy.deepcopy(self.splitter)

    @property
    def given(self) -> dict[str, Any]:
        """A copy of the columns."""
        return {name: copy.deepcopy(values) for name, values in self.columns.items()}

    @cached_property
    def seen(self) -> Seen:
        """The first split of the rows, by a fresh splitter."""
        splitter, columns, state = self.fresh, self.given, _random_state()
        itself = repr(vars(splitter))  # of the copy: some objects are written by their place in memory
        try:
            outcome: list[Pair] | Exception = list(splitter.split(**columns))
        except Exception as error:  # which is no change of anything; whoever asks for the pairs meets it
            outcome = error
        alone = all(np.array_equal(np.asarray(columns[name]), np.asarray(was)) for name, was in self.columns.items())
        return Seen(outcome, alone, repr(vars(splitter)) == itself, _random_state() == state)

    @property
    def pairs(self) -> list[Pair]:
        """All pairs of the rows; the splitter's error where it has one."""
        if isinstance(self.seen.outcome, Exception):
            raise self.seen.outcome
        return self.seen.outcome

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The label that the splitter, which gives labels, gives each row."""
        splitter = self.fresh
        assert isinstance(splitter, LabelSplitter), f"{splitter!r} gives no labels"
        return splitter.assign(**self.given)

    @cached_property
    def contained(self) -> list[Trial]:
        """The splitter with the same rows in every kind of container."""
        return [self.having(**{name: put(values) for name, values in self.columns.items()}) for put in CONTAINERS]

    def param(self, name: str, default: Any = None) -> Any:
        """Return a parameter of the splitter."""
        return self.splitter.get_params(deep=False).get(name, default)

    def by(self, splitter: Splitter) -> Trial:
        """Return another splitter with these rows."""
        return Trial(splitter, self.n, self.columns)

    def having(self, **columns: Any) -> Trial:
        """Return the splitter with the rows, some columns replaced."""
        return Trial(self.splitter, self.n, {**self.columns, **columns})

    def take(self, rows: IntArray) -> Trial:
        """Return the splitter with some of the rows, in the order of ``rows``."""
        return Trial(self.splitter, rows.size, {name: values[rows] for name, values in self.columns.items()})


def _random_state() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 - the legacy state is what must stay untouched
    return random.getstate(), name, np.asarray(keys).tobytes(), rest


def trial_of(splitter: Splitter, n: int, seed: int = 0) -> Trial:
    """Return ``splitter`` with ``n`` made-up rows of what it needs, the same on every machine.

    There are 3 uneven classes or heavy-tailed numbers, and n//4 groups or two columns of entities. Targets are known on
    the day of the row or on the next one; places lie on a map of 10 by 10.
    """
    stream, needs = Stream(seed, MADE_UP), splitter.needs
    n_groups = max(n // 4, 6)
    groups = np.concatenate([np.arange(n_groups), stream.below(n_groups, n - n_groups)])[stream.permutation(n)]
    classes = np.resize(["a", "b", "a", "c", "a", "b"], n)[stream.permutation(n)]
    columns = {
        "X": np.arange(float(n))[::-1].reshape(-1, 1),
        "key": stream.permutation(n) * 7 + 3,
        "time": stream.below(n, n).astype("datetime64[D]"),
        "fixed": np.resize([0, 1, 2, 0, 1, 2, 0, -1, -2, -3], n)[stream.permutation(n)],
    }
    columns["label_end"] = columns["time"] + Stream(seed, MADE_UP, 1).below(2, n)
    columns["coordinates"] = Stream(seed, MADE_UP, 3).below(100, 2 * n).reshape(n, 2) / 10
    columns["y"] = 1.0 / (1.0 - stream.uniform(n)) if needs.y == "numbers" else classes
    # A second entity beside the group: two groups share a level, and one row in sixteen has another group's.
    beside = Stream(seed, MADE_UP, 2)
    other = groups[beside.permutation(n)]
    entities = np.column_stack([groups, np.where(beside.below(16, n) == 0, other, groups) // 2])
    columns["groups"] = entities if "entities_apart" in splitter.promises else groups
    # Made-up groups lie all over time: where a holdout leaves out the locked ones, nothing of the past would be left.
    grouped = needs.groups is True or (needs.groups and ("groups_whole" in splitter.promises or not needs.time))
    seen = vars(needs) | {"X": True, "y": needs.y != "ignored", "groups": grouped}
    return Trial(splitter, n, {name: values for name, values in columns.items() if seen[name]})
