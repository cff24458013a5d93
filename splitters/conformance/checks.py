"""Checks that any strategy can be held to, chosen by what it promises and never by its name.

Use them on a strategy of your own::

    from evenfold.splitters.conformance import check_conformance
    check_conformance(MyStrategy(n_splits=5))
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, LabelSplitter, Pair, Splitter, pairs_of_labels
from evenfold.splitters.errors import SplitError

from .data import CONTAINERS, Data, data_for, watch

Run = Callable[[Any, Data], Any]


@dataclass(frozen=True)
class Check:
    """One check: its name completes the sentence "a splitter ..."; ``promise`` says to whom it applies."""

    name: str
    promise: str | None
    run: Run

    def holds(self, splitter: Splitter, data: Data) -> bool:
        """Return whether ``splitter`` does it on ``data``; an exception counts as a failure."""
        try:
            return bool(self.run(copy.deepcopy(splitter), data.into("array")))
        except Exception:
            return False


CHECKS: list[Check] = []
MORE = 4  # times as many rows, where few leave a splitter no choice
THREADS = "OMP_NUM_THREADS"


def check(name: str, promise: str | None = None) -> Callable[[Run], Run]:
    """Register a function of (splitter, data) that returns whether the splitter does what ``name`` says."""

    def register(run: Run) -> Run:
        assert all(each.name != name for each in CHECKS), f"two checks are called {name!r}"
        CHECKS.append(Check(name, promise, run))
        return run

    return register


def check_conformance(splitter: Splitter, n: int = 60, seed: int = 0) -> None:
    """Raise AssertionError that names every check which ``splitter`` fails on ``n`` made-up rows, or on ``n + 1``.

    So many that a fault at odd or at even numbers alone is seen; ``n + 1`` rows may be refused with a SplitError.
    All is tried in this process: of what another one changes, such as PYTHONHASHSEED, only the order of sets is seen,
    as that of classes and groups under other names. To see all, compare the folds of two processes.
    """
    tried = [data_for(splitter, n, seed), data_for(splitter, n + 1, seed)]
    tried = tried[: 1 if isinstance(tried[1].seen(splitter).outcome, SplitError) else 2]
    failed = [check.name for data in tried for check in failures(splitter, data)]
    if failed:
        names = "; ".join(dict.fromkeys(failed))
        words = {check.promise for check in CHECKS if check.promise}
        unknown = ", ".join(map(repr, sorted(splitter.promises - words)))
        unknown = f"; no check is for {unknown}; choose from {', '.join(sorted(words))}." if unknown else ""
        raise AssertionError(f"{splitter!r} with {n} or {n + 1} rows does not do this: {names}{unknown}")


def failures(splitter: Splitter, data: Data) -> Iterator[Check]:
    """Yield the checks that ``splitter`` fails on ``data``, of those that hold for all or for what it promises."""
    to_pass = (check for check in CHECKS if check.promise is None or check.promise in splitter.promises)
    yield from (check for check in to_pass if not check.holds(splitter, data))


def same(some: list[Pair], others: list[Pair]) -> bool:
    """Return whether two lists of pairs hold the same positions in the same order."""
    return len(some) == len(others) and all(map(np.array_equal, chain(*some), chain(*others)))


def param(splitter: Splitter, name: str, default: Any = None) -> Any:
    """Return a parameter of a splitter."""
    return splitter.get_params(deep=False).get(name, default)


def repeats_a_row(pairs: list[Pair]) -> bool:
    """Return whether any train set lists a row more than once."""
    return any(np.unique(train).size < train.size for train, _ in pairs)


@check("yields positions of its rows, in two one-dimensional integer arrays")
def _positions(splitter: Splitter, data: Data) -> bool:
    sides = [side for pair in data.pairs(splitter) for side in pair]
    shaped = all(isinstance(s, np.ndarray) and s.ndim == 1 and s.dtype.kind == "i" for s in sides)
    return shaped and all(s.size == 0 or (s.min() >= 0 and s.max() < data.n) for s in sides)


@check("lists no row twice that it trains on, unless it promises draws with_replacement")
def _trained_once(splitter: Any, data: Data) -> bool:
    # A holdout has words of its own; what is trained on is for the strategy that splits the rest to say.
    promises = splitter.inner().promises if "rest_as_alone" in splitter.promises else splitter.promises
    again = promises & {"with_replacement", "out_of_bag", "n_draws", "draws_classes", "draws_groups"}
    # Somebody else's code has no word to promise it in.
    return bool(again) or not splitter.portable or not repeats_a_row(data.pairs(splitter))


check("lists no row twice that it tests")(
    lambda splitter, data: all(np.unique(test).size == test.size for _, test in data.pairs(splitter))
)
check("promises only what a check is for")(
    lambda splitter, data: splitter.promises <= {check.promise for check in CHECKS}
)


@check("draws a split alone as it draws it among all")
def _alone(splitter: Splitter, data: Data) -> bool:
    if not isinstance(splitter, DrawSplitter):
        return True
    rows, pairs = splitter.rows(**data.given), data.pairs(splitter)
    return same(pairs, [splitter.pair(rows, i) for i in range(len(pairs))])


@check("splits as its labels say")
def _labelled(splitter: Splitter, data: Data) -> bool:
    if not isinstance(splitter, LabelSplitter):
        return True
    labels, parts = data.labels(splitter), splitter.part_codes()
    tested = [code for code in parts.values() if code >= 0] if parts else np.unique(labels[labels >= 0]).tolist()
    return same(data.pairs(splitter), list(pairs_of_labels(labels, tested, parts=bool(parts))))


check("has a row to train on and a row to test in every pair")(
    lambda splitter, data: all(train.size > 0 and test.size > 0 for train, test in data.pairs(splitter))
)
check("yields as many splits as it says")(
    lambda splitter, data: len(data.pairs(splitter)) == splitter.get_n_splits(**data.given) >= 1
)


@check("repeats itself, whatever number of threads is set")
def _repeats(splitter: Splitter, data: Data) -> bool:
    again, before = copy.deepcopy(data.seen(splitter).splitter), os.environ.get(THREADS)
    os.environ[THREADS] = "3" if before == "2" else "2"
    try:
        return same(data.pairs(splitter), data.split(again))
    finally:
        os.environ.pop(THREADS)
        os.environ.update({} if before is None else {THREADS: before})


@check("obeys the seed")
def _seed(splitter: Splitter, data: Data) -> bool:
    seed = param(splitter, "random_state")
    if seed is None or not splitter.portable or splitter.needs.time:  # time may leave nothing to draw
        return True
    # Few rows may allow one good split alone; and other names for the same folds are the same split.
    others = [copy.deepcopy(splitter).set_params(random_state=seed + more) for more in (1, 2)]
    return any(
        _unnamed(some.pairs(splitter)) != _unnamed(some.split(other))
        for some in chain([data], (data_for(splitter, times * data.n) for times in (2, MORE)))
        for other in others
    )


def _unnamed(pairs: list[Pair]) -> list[tuple[bytes, bytes]]:
    return sorted((train.tobytes(), test.tobytes()) for train, test in pairs)


@check("leaves the global random state alone")
def _global_state(splitter: Splitter, data: Data) -> bool:
    # The state is the whole process's: another thread, as of a client that waits for a random while, may draw
    # meanwhile, but hardly each time. A new copy each time, for a splitter may draw at its first split alone.
    return data.seen(splitter).global_alone or any(watch(copy.deepcopy(splitter), data).global_alone for _ in range(2))


check("leaves its inputs alone")(
    lambda splitter, data: all(data.seen(splitter, container).inputs_alone for container in CONTAINERS)
)
check("leaves itself alone")(lambda splitter, data: data.seen(splitter).itself_alone)
check("ignores the container and its index")(
    lambda splitter, data: all(same(data.pairs(splitter), data.pairs(splitter, container)) for container in CONTAINERS)
)


@check("ignores what classes and groups are called")
def _names(splitter: Splitter, data: Data) -> bool:
    def rename(name: str, values: Any) -> Any:
        if name not in ("y", "groups") or np.asarray(values).dtype.kind == "f":
            return values
        levels = np.unique(values)
        return np.array([f"{levels.size - i:06d}" for i in range(levels.size)])[np.searchsorted(levels, values)]

    return same(data.pairs(splitter), data.each(rename).split(splitter))


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
