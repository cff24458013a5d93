"""Checks that any strategy can be held to, chosen by what it promises and never by its name.

Use it on a strategy of your own::

    from evenfold.splitters.conformance import check_conformance
    check_conformance(MyStrategy(n_splits=5))
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, LabelSplitter, Pair, Splitter, pairs_of_labels
from evenfold.splitters.errors import SplitError

from . import promises as promises  # registers a check for each promise
from .checks import CHECKS, CONTAINERS, MORE, Check, Data, check, data_for, repeats_a_row, same, watch

__all__ = ["CHECKS", "Check", "Data", "check", "check_conformance", "data_for", "failures"]

THREADS = "OMP_NUM_THREADS"


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


@check("yields positions of its rows, in two one-dimensional integer arrays")
def _positions(splitter: Splitter, data: Data) -> bool:
    sides = [side for pair in data.pairs(splitter) for side in pair]
    shaped = all(isinstance(s, np.ndarray) and s.ndim == 1 and s.dtype.kind == "i" for s in sides)
    return shaped and all(s.size == 0 or (s.min() >= 0 and s.max() < data.n) for s in sides)


@check("lists no row twice that it trains on, unless it promises draws with_replacement")
def _trained_once(splitter: Splitter, data: Data) -> bool:
    # A holdout has words of its own; what is trained on is for the strategy that splits the rest to say.
    of: Any = splitter
    promises = of.inner().promises if "rest_as_alone" in splitter.promises else splitter.promises
    again = promises & {"with_replacement", "out_of_bag", "n_draws", "draws_classes", "draws_groups"}
    # Somebody else's code has no word to promise it in.
    return bool(again) or not splitter.portable or not repeats_a_row(data.pairs(splitter))


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
    return same(data.pairs(splitter), [splitter.pair(rows, i) for i in range(len(data.pairs(splitter)))])


@check("splits as its labels say")
def _labelled(splitter: Splitter, data: Data) -> bool:
    if not isinstance(splitter, LabelSplitter):
        return True
    labels, parts = data.labels(splitter), splitter.part_codes()
    tested = [code for code in parts.values() if code >= 0] if parts else np.unique(labels[labels >= 0]).tolist()
    return same(data.pairs(splitter), list(pairs_of_labels(labels, tested, parts=bool(parts))))


@check("has a row to train on and a row to test in every pair")
def _both_sides(splitter: Splitter, data: Data) -> bool:
    return all(train.size > 0 and test.size > 0 for train, test in data.pairs(splitter))


@check("yields as many splits as it says")
def _count(splitter: Splitter, data: Data) -> bool:
    return len(data.pairs(splitter)) == data.count(splitter) >= 1


@check("repeats itself, whatever number of threads is set")
def _repeats(splitter: Splitter, data: Data) -> bool:
    seen = data.seen(splitter)
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "3" if before == "2" else "2"
    try:
        return same(seen.pairs, data.split(copy.deepcopy(seen.splitter)))
    finally:
        os.environ.pop(THREADS)
        os.environ.update({} if before is None else {THREADS: before})


@check("obeys the seed")
def _seed(splitter: Splitter, data: Data) -> bool:
    params = splitter.get_params(deep=False)
    if "random_state" not in params or not splitter.portable or splitter.needs.time:  # time may leave nothing to draw
        return True
    # Few rows may allow one good split alone; and other names for the same folds are the same split.
    others = [copy.deepcopy(splitter).set_params(random_state=params["random_state"] + more) for more in (1, 2)]
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


@check("leaves its inputs alone")
def _inputs(splitter: Splitter, data: Data) -> bool:
    return all(data.seen(splitter, container).inputs_alone for container in CONTAINERS)


@check("leaves itself alone")
def _itself(splitter: Splitter, data: Data) -> bool:
    return data.seen(splitter).itself_alone


@check("ignores the container and its index")
def _container(splitter: Splitter, data: Data) -> bool:
    return all(same(data.pairs(splitter), data.seen(splitter, container).pairs) for container in CONTAINERS)


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
