"""What a check is, what it runs on, and the list that checks register in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from evenfold.splitters.base import LabelSplitter, Pair, Splitter
from evenfold.splitters.kernels.random import IntArray
from numpy.typing import NDArray


@dataclass(frozen=True)
class Data:
    """Rows for a strategy to split: what it needs and no more. ``roles`` are its key, time and fixed columns."""

    n: int
    y: Any = None
    groups: Any = None
    roles: Mapping[str, Any] = field(default_factory=dict)
    _known: dict[tuple[type, str], list[Pair]] = field(default_factory=dict, repr=False, compare=False)

    def split(self, splitter: Splitter) -> list[Pair]:
        """Return all pairs of ``splitter`` on these rows, split anew."""
        return list(splitter.split(np.zeros((self.n, 1)), self.y, self.groups, **self.roles))

    def pairs(self, splitter: Splitter) -> list[Pair]:
        """Return all pairs of ``splitter`` on these rows, split once for all checks that only look at them."""
        name = type(splitter), repr(splitter)
        if name not in self._known:
            self._known[name] = self.copy().split(copy.deepcopy(splitter))
        return self._known[name]

    def copy(self) -> Data:
        """Return these rows in containers of their own."""
        return Data(self.n, *copy.deepcopy((self.y, self.groups, self.roles)), self._known)

    def count(self, splitter: Splitter) -> int:
        """Return how many pairs ``splitter`` says it yields of these rows."""
        return splitter.get_n_splits(np.zeros((self.n, 1)), self.y, self.groups, **self.roles)

    def labels(self, splitter: Splitter) -> NDArray[Any]:
        """Return the label that ``splitter``, which gives labels, gives each of these rows."""
        assert isinstance(splitter, LabelSplitter), f"{splitter!r} gives no labels"
        return splitter.assign(np.zeros((self.n, 1)), self.y, self.groups, **self.roles)

    def columns(self) -> dict[str, Any]:
        """Return what there is of y, groups and the roles, by name."""
        given = {"y": self.y, "groups": self.groups, **self.roles}
        return {name: values for name, values in given.items() if values is not None}

    def having(self, **columns: Any) -> Data:
        """Return these rows with some columns replaced."""
        roles = {name: columns.get(name, values) for name, values in self.roles.items()}
        return Data(self.n, columns.get("y", self.y), columns.get("groups", self.groups), roles)

    def take(self, rows: IntArray) -> Data:
        """Return some of these rows, in the order of ``rows``."""
        y, groups = (None if values is None else values[rows] for values in (self.y, self.groups))
        return Data(rows.size, y, groups, {name: values[rows] for name, values in self.roles.items()})


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
        """Return whether ``splitter`` does it on ``data``; an exception counts as a failure."""
        try:
            return bool(self.run(copy.deepcopy(splitter), data.copy()))
        except Exception:
            return False


CHECKS: list[Check] = []


def check(name: str, promise: str | None = None) -> Callable[[Callable[[Splitter, Data], bool]], Any]:
    """Register a function of (splitter, data) that returns whether the splitter does what ``name`` says."""

    def register(run: Callable[[Splitter, Data], bool]) -> Callable[[Splitter, Data], bool]:
        assert all(known.name != name for known in CHECKS), f"two checks are called {name!r}"
        CHECKS.append(Check(name, promise, run))
        return run

    return register


def same(some: list[Pair], others: list[Pair]) -> bool:
    """Return whether two lists of pairs hold the same positions in the same order."""
    return len(some) == len(others) and all(
        np.array_equal(a, b) for one, other in zip(some, others, strict=True) for a, b in zip(one, other, strict=True)
    )


def spread(counts: NDArray[Any]) -> int:
    """Return the largest difference between two folds' counts (folds first)."""
    return int((counts.max(axis=0) - counts.min(axis=0)).max())
