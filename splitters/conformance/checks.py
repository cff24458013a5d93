"""Checks that any strategy can be held to, chosen by what it promises and never by its name; and rows to split.

Use them on a strategy of your own::

    from evenfold.splitters.conformance import check_conformance
    check_conformance(MyStrategy(n_splits=5))
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters.base import DrawSplitter, LabelSplitter, Pair, Splitter, pairs_of_labels, tested_codes
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels import MADE_UP, IntArray, Stream
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
    inputs_alone: bool
    itself_alone: bool
    global_alone: bool


@dataclass(frozen=True)
class Trial:
    """A splitter and ``n`` rows: the columns that it needs, by the names that ``split`` takes them by.

    Copies of both meet; what follows is seen once, for all checks.
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
    return same(trial.pairs, list(pairs_of_labels(labels, tested_codes(labels, parts), parts=bool(parts))))


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
    lambda trial: trial.seen.global_alone or any(trial.by(trial.splitter).seen.global_alone for _ in range(2))
)
check("leaves its inputs alone")(lambda trial: all(contained.seen.inputs_alone for contained in trial.contained))
check("leaves itself alone")(lambda trial: trial.seen.itself_alone)
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
