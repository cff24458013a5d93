"""Checks that any strategy can be held to, chosen by what it promises and never by its name.

Use them on a strategy of your own::

    from evenfold.splitters.conformance import check_conformance
    check_conformance(MyStrategy(n_splits=5))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, LabelSplitter, Pair, Splitter, codes_tested, pairs_of_labels
from evenfold.splitters.errors import SplitError

from .data import Trial, trial_of

Run = Callable[[Trial], Any]


@dataclass(frozen=True)
class Check:
    """One check: its name completes the sentence "a splitter ..."; ``promise`` says to whom it applies."""

    name: str
    promise: str | None
    run: Run

    def holds(self, trial: Trial) -> bool:
        """Return whether the splitter does it on these rows; an exception counts as a failure."""
        try:
            return bool(self.run(trial))
        except Exception:
            return False


CHECKS: list[Check] = []
MORE = 4  # times as many rows, where few leave a splitter no choice
THREADS = "OMP_NUM_THREADS"


def check(name: str, promise: str | None = None) -> Callable[[Run], Run]:
    """Register a function of a trial that returns whether the splitter does what ``name`` says."""

    def register(run: Run) -> Run:
        CHECKS.append(Check(name, promise, run))
        return run

    return register


def check_conformance(splitter: Splitter, n: int = 60, seed: int = 0) -> None:
    """Raise AssertionError that names every check which ``splitter`` fails on ``n`` made-up rows, or on ``n + 1``.

    So a fault at odd or at even numbers alone is seen; ``n + 1`` rows may be refused with a SplitError. Of what another
    process changes, such as PYTHONHASHSEED, only the order of sets is seen; to see all, compare folds of two.
    """
    trials = [trial_of(splitter, n, seed), trial_of(splitter, n + 1, seed)]
    if isinstance(trials[1].seen.outcome, SplitError):
        trials.pop()
    failed = [check.name for trial in trials for check in failures(trial)]
    if failed:
        words = {check.promise for check in CHECKS if check.promise}
        unknown = ", ".join(map(repr, sorted(splitter.promises - words)))
        unknown = f"; no check is for {unknown}; choose from {', '.join(sorted(words))}." if unknown else ""
        names = "; ".join(dict.fromkeys(failed))
        raise AssertionError(f"{splitter!r} with {n} or {n + 1} rows does not do this: {names}{unknown}")


def failures(trial: Trial) -> Iterator[Check]:
    """Yield the checks that a splitter fails on some rows, of those that hold for all or for what it promises."""
    to_pass = (check for check in CHECKS if check.promise is None or check.promise in trial.splitter.promises)
    return (check for check in to_pass if not check.holds(trial))


def same(some: list[Pair], others: list[Pair]) -> bool:
    """Return whether two lists of pairs hold the same positions in the same order."""
    return len(some) == len(others) and all(map(np.array_equal, chain(*some), chain(*others)))


def repeats_a_row(pairs: list[Pair]) -> bool:
    """Return whether any train set lists a row more than once."""
    return any(np.unique(train).size < train.size for train, _ in pairs)


@check("yields positions of its rows, in two one-dimensional integer arrays")
def _positions(trial: Trial) -> bool:
    sides = [side for pair in trial.pairs for side in pair]
    shaped = all(isinstance(s, np.ndarray) and s.ndim == 1 and s.dtype.kind == "i" for s in sides)
    return shaped and all(s.size == 0 or (s.min() >= 0 and s.max() < trial.n) for s in sides)


@check("lists no row twice that it trains on, unless it promises draws with_replacement")
def _trained_once(trial: Trial) -> bool:
    # A holdout has words of its own; what is trained on is for the strategy that splits the rest to say.
    splitter: Any = trial.splitter
    promises = splitter.inner().promises if "rest_as_alone" in splitter.promises else splitter.promises
    again = promises & {"with_replacement", "out_of_bag", "n_draws", "draws_classes", "draws_groups"}
    # Somebody else's code has no word to promise it in.
    return bool(again) or not splitter.portable or not repeats_a_row(trial.pairs)


check("lists no row twice that it tests")(
    lambda trial: all(np.unique(test).size == test.size for _, test in trial.pairs)
)
check("promises only what a check is for")(lambda trial: trial.splitter.promises <= {check.promise for check in CHECKS})


@check("draws a split alone as it draws it among all")
def _alone(trial: Trial) -> bool:
    splitter = trial.fresh
    if not isinstance(splitter, DrawSplitter):
        return True
    rows = splitter.rows(**trial.given)
    return same(trial.pairs, [splitter.pair(rows, i) for i in range(len(trial.pairs))])


@check("splits as its labels say")
def _labelled(trial: Trial) -> bool:
    if not isinstance(trial.splitter, LabelSplitter):
        return True
    labels, parts = trial.labels, trial.splitter.part_codes()
    return same(trial.pairs, list(pairs_of_labels(labels, codes_tested(labels, parts), parts=bool(parts))))


check("has a row to train on and a row to test in every pair")(
    lambda trial: all(train.size > 0 and test.size > 0 for train, test in trial.pairs)
)
check("yields as many splits as it says")(
    lambda trial: len(trial.pairs) == trial.fresh.get_n_splits(**trial.given) >= 1
)


@check("repeats itself, whatever number of threads is set")
def _repeats(trial: Trial) -> bool:
    again, before = trial.fresh, os.environ.get(THREADS)
    os.environ[THREADS] = "3" if before == "2" else "2"
    try:
        return all(same(trial.pairs, list(again.split(**trial.given))) for _ in range(2))
    finally:
        os.environ.pop(THREADS)
        os.environ.update({} if before is None else {THREADS: before})


@check("obeys the seed")
def _seed(trial: Trial) -> bool:
    seed = trial.param("random_state")
    if seed is None or not trial.splitter.portable or trial.splitter.needs.time:  # time may leave nothing to draw
        return True
    # Few rows may allow one good split alone; and other names for the same folds are the same split.
    more = (trial_of(trial.splitter, times * trial.n) for times in (2, MORE))
    return any(
        _unnamed(some.pairs) != _unnamed(some.by(trial.fresh.set_params(random_state=seed + step)).pairs)
        for some in chain([trial], more)
        for step in (1, 2)
    )


def _unnamed(pairs: list[Pair]) -> list[tuple[bytes, bytes]]:
    return sorted((train.tobytes(), test.tobytes()) for train, test in pairs)


# The state is the whole process's: another thread, as of a client that waits for a random while, may draw meanwhile,
# but hardly each time. A new copy each time, for a splitter may draw at its first split alone.
check("leaves the global random state alone")(
    lambda trial: trial.seen.global_unchanged or any(trial.by(trial.splitter).seen.global_unchanged for _ in range(2))
)
check("leaves its inputs alone")(lambda trial: all(contained.seen.inputs_unchanged for contained in trial.contained))
check("leaves itself alone")(lambda trial: trial.seen.itself_unchanged)
check("ignores the container and its index")(
    lambda trial: all(same(trial.pairs, contained.pairs) for contained in trial.contained)
)


@check("ignores what classes and groups are called")
def _names(trial: Trial) -> bool:
    def renamed(values: Any) -> Any:
        levels = np.unique(values)
        return np.array([f"{levels.size - i:06d}" for i in range(levels.size)])[np.searchsorted(levels, values)]

    labelled = [name for name in ("y", "groups") if name in trial.columns and trial.columns[name].dtype.kind != "f"]
    return same(trial.pairs, trial.having(**{name: renamed(trial.columns[name]) for name in labelled}).pairs)


@check("refuses missing values with a SplitError")
def _missing(trial: Trial) -> bool:
    columns = trial.columns
    for name in columns.keys() - {"X"}:
        holed = columns[name].astype(object)
        holed[1] = None
        if not isinstance(trial.having(**{name: holed}).seen.outcome, SplitError):
            return False
    return True
