"""One check per promise: a word in a strategy's ``promises`` means what its check here says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from evenfold.splitters.base import EXCLUDED, DrawSplitter
from evenfold.splitters.kernels import codes_of, shares_of_parts
from evenfold.splitters.numbers import IntArray, encode
from evenfold.splitters.times import ends_of, later, rows_in, times_of
from numpy.typing import NDArray

from .checks import MORE, Run, check, repeats_a_row, same
from .data import Trial, trial_of


def _spread(counts: Any) -> int:
    """Return the largest difference between two folds' counts (folds first)."""
    return int(np.ptp(counts, axis=0).max())


def _apart(values: Any, train: IntArray, test: IntArray) -> bool:
    """Return whether no value is on both sides."""
    return not np.intersect1d(values[train], values[test]).size


def _y(trial: Trial) -> IntArray:
    return encode(trial.columns["y"], "y")[0]


def _groups(trial: Trial) -> IntArray:
    return encode(trial.columns["groups"], "groups")[0]


def _times(trial: Trial) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the times of rows, and when their labels are known."""
    time = times_of(trial.columns["time"], "time")
    return time, ends_of(trial.columns["label_end"], time) if "label_end" in trial.columns else time


def _times_tested(trial: Trial) -> IntArray:
    return np.bincount(np.concatenate([test for _, test in trial.pairs]), minlength=trial.n)


def _class_counts(trial: Trial, sides: Iterable[Any]) -> IntArray:
    """Return the rows of each class on each of some sides."""
    y = _y(trial)
    return np.array([np.bincount(y[side], minlength=y.max() + 1) for side in sides])


def _have_class_shares(trial: Trial, sides: Iterable[Any]) -> bool:
    """Return whether each side has its share of every class, rounded up or down; times n, so in whole numbers."""
    counts = _class_counts(trial, sides)
    wanted = np.outer(counts.sum(axis=1), np.bincount(_y(trial)))
    return bool((np.abs(counts * trial.n - wanted) < trial.n).all())


def _of_each(fits: Callable[[Trial, IntArray, IntArray], Any]) -> Run:
    """Return what asks of every pair."""
    return lambda trial: all(fits(trial, *pair) for pair in trial.pairs)


check("tests every row once", "exhaustive")(lambda trial: (_times_tested(trial) == trial.param("n_repeats", 1)).all())
check("tests no row twice", "tested_once_at_most")(
    lambda trial: (_times_tested(trial) <= trial.param("n_repeats", 1)).all()
)
check("keeps train and test apart", "disjoint")(_of_each(lambda trial, *pair: not np.intersect1d(*pair).size))
check("trains on every row that it does not test", "trains_on_rest")(
    _of_each(lambda trial, *pair: np.isin(np.arange(trial.n), np.concatenate(pair)).all())
)
check("makes folds whose sizes differ by at most 1", "even_sizes")(
    lambda trial: _spread([test.size for _, test in trial.pairs]) <= 1
)
check("makes folds whose counts of every class differ by at most 1", "even_classes")(
    lambda trial: _spread(_class_counts(trial, (test for _, test in trial.pairs))) <= 1
)
check("tests each class's share of rows, rounded up or down", "draws_class_shares")(
    lambda trial: _have_class_shares(trial, (test for _, test in trial.pairs))
)
check("gives each part its share of every class, rounded up or down", "exact_class_parts")(
    lambda trial: _have_class_shares(trial, (trial.labels == code for code in codes_of(trial.param("parts")).values()))
)
check("makes other folds in every repeat", "repeats_differ")(
    lambda trial: len({encode(folds, "fold")[0].tobytes() for folds in trial.labels.T}) == trial.param("n_repeats")
)
check("keeps every group on one side", "groups_whole")(_of_each(lambda trial, *pair: _apart(_groups(trial), *pair)))
check("keeps every level of every entity on one side", "entities_apart")(
    _of_each(lambda trial, *pair: all(_apart(column, *pair) for column in trial.columns["groups"].T))
)
check("trains on n draws", "n_draws")(_of_each(lambda trial, train, test: train.size == trial.n))
check("draws each class as often as it has rows", "draws_classes")(
    _of_each(lambda trial, train, test: np.array_equal(np.bincount(_y(trial)[train]), np.bincount(_y(trial))))
)
check("draws as many rows as it says", "exact_sizes")(
    _of_each(lambda trial, *pair: trial.fresh.sizes(trial.n) == tuple(side.size for side in pair))
)
check("tests the rows that are left out of training, which may repeat rows", "out_of_bag")(
    lambda trial: (
        repeats_a_row(trial.pairs)
        and all(np.array_equal(np.setdiff1d(np.arange(trial.n), train), test) for train, test in trial.pairs)
    )
)
check("keeps the labels that it was given", "as_given")(
    lambda trial: np.array_equal(trial.labels, trial.columns["fixed"])
)


@check("keeps earlier splits as they are when more are asked for, and draws each anew", "appendable")
def _appendable(trial: Trial) -> bool:
    few, twenty = (trial.by(trial.fresh.set_params(n_splits=n)) for n in (2, 20))
    # Few rows may allow one draw alone; of more there are others.
    draws = (some.pairs for some in (twenty, trial_of(twenty.splitter, MORE * trial.n)))
    vary = any(not same(pairs[:1], [other]) for pairs in draws for other in pairs[1:])
    return vary and same(few.pairs, twenty.pairs[:2])


@check("makes folds whose counts below any threshold differ by its bound", "even_distribution")
def _even_distribution(trial: Trial) -> bool:
    y = trial.columns["y"]
    below = [np.searchsorted(np.sort(y[test]), np.unique(y), side="right") for _, test in trial.pairs]
    return _spread(below) <= getattr(trial.splitter, "threshold_gap", 1)


@check("leaves out rows of entities in different folds alone", "leaves_out_crossing_alone")
def _leaves_out_crossing_alone(trial: Trial) -> bool:
    labels, groups = trial.labels, trial.columns["groups"]
    folds = [{level: set(labels[column == level]) - {EXCLUDED} for level in column} for column in groups.T]
    rows = groups[labels == EXCLUDED]
    # A row whose entities are in one fold, and no other, would have fitted there.
    return all(len(set().union(*(of[level] for of, level in zip(folds, row, strict=True)))) != 1 for row in rows)


@check("tests at most one group of a stratum in a fold", "one_group_a_stratum")
def _one_group_a_stratum(trial: Trial) -> bool:
    y, groups = _y(trial), _groups(trial)
    stratum = np.array([np.bincount(y[groups == group]).argmax() for group in range(groups.max() + 1)])
    return all(np.bincount(stratum[np.unique(groups[test])]).max() == 1 for _, test in trial.pairs)


@check("leaves no fold empty even with as many groups as folds", "no_empty_fold")
def _no_empty_fold(trial: Trial) -> bool:
    k = trial.fresh.get_n_splits(**trial.given)
    # One group holds nearly all rows, so that a rule which looks only at sizes has a fold to forget.
    few = np.minimum(np.arange(trial.n), k - 1)[::-1].copy()
    pairs = trial.having(groups=few).pairs
    return len(pairs) == k and all(test.size > 0 for _, test in pairs)


@check("repeats a row in some train set", "with_replacement")
def _with_replacement(trial: Trial) -> bool:
    if repeats_a_row(trial.pairs):
        return True
    # In draws of few rows hardly any row is drawn again; in many such draws some are.
    draws = isinstance(trial.splitter, DrawSplitter)
    return draws and repeats_a_row(trial.by(trial.fresh.set_params(n_splits=200)).pairs)


@check("draws all rows of a group equally often", "draws_groups")
def _draws_groups(trial: Trial) -> bool:
    groups, drawn = _groups(trial), [np.bincount(train, minlength=trial.n) for train, _ in trial.pairs]
    return all(np.unique(counts[groups == group]).size == 1 for counts in drawn for group in np.unique(groups))


@check("gives every row a part, trains on train and tests the parts of code 0 and above", "parts")
def _parts(trial: Trial) -> bool:
    labels, codes = trial.labels, codes_of(trial.param("parts"))
    tested = [code for code in codes.values() if code >= 0]
    wanted = [(np.flatnonzero(labels == -1), np.flatnonzero(labels == code)) for code in tested]
    return bool(np.isin(labels, list(codes.values())).all()) and same(trial.pairs, wanted)


@check("makes parts whose sizes are within 1 row of their shares", "exact_parts")
def _exact_parts(trial: Trial) -> bool:
    codes, shares = codes_of(trial.param("parts")), shares_of_parts(trial.param("parts"))
    rows = {name: np.sum(trial.labels == code) for name, code in codes.items()}
    return all(abs(rows[name] - share * trial.n) < 1 + 1e-6 for name, share in shares.items())


@check("gives a row with the same key the same sides, whatever other rows there are", "by_key_alone")
def _by_key_alone(trial: Trial) -> bool:
    # Fewer rows and in another order: neither may matter.
    rows = np.arange(trial.n - 3)[::-1]
    fewer = [(np.sort(rows[train]), np.sort(rows[test])) for train, test in trial.take(rows).pairs]
    return same(fewer, [(train[train < rows.size], test[test < rows.size]) for train, test in trial.pairs])


def _before(which: int) -> Run:
    """Return what asks whether all times (0) or ends (1) that are trained on lie the gap before any tested time."""

    def holds(trial: Trial) -> bool:
        times, gap = _times(trial), trial.param("gap", 0)
        return all(later(times[which][train], gap).max() < times[0][test].min() for train, test in trial.pairs)

    return holds


check("trains on times that lie more than the gap before every time it tests", "past_before_future")(_before(0))
check("trains on no row whose label was not known, the gap before what it tests", "labels_known")(_before(1))


@check("trains on what comes before all that it tests of the same group", "last_of_each_group")
def _last_of_each_group(trial: Trial) -> bool:
    (time, _), groups = _times(trial), _groups(trial)
    return all(
        time[train[groups[train] == group]].max() < time[test[groups[test] == group]].min()
        for train, test in trial.pairs
        for group in np.unique(groups[test])
    )


@check("trains on no row whose label overlaps one that it tests, nor in the gap or the embargo", "purged")
def _purged(trial: Trial) -> bool:
    time, label_end = _times(trial)
    before, after = (0 if rows_in(width := trial.param(name, 0)) else width for name in ("gap", "embargo"))
    return all(
        (
            (later(label_end[train], before)[:, None] < time[test])
            | (time[train][:, None] > later(label_end[test], after))
        ).all()
        for train, test in trial.pairs
    )


@check("keeps every block of the map on one side", "blocks_whole")
def _blocks_whole(trial: Trial) -> bool:
    squares = np.floor(trial.columns["coordinates"] / trial.param("block_size"))
    blocks = np.unique(squares, axis=0, return_inverse=True)[1].reshape(-1)
    return all(_apart(blocks, *pair) for pair in trial.pairs)


@check("trains on no row within the buffer of one that it tests, and on all others", "buffered")
def _buffered(trial: Trial) -> bool:
    places, buffer = trial.columns["coordinates"], trial.param("buffer")
    apart = np.sqrt(((places[:, None] - places) ** 2).sum(axis=2))
    far = (apart > buffer * (1 + 1e-9)) | (buffer == 0)
    return all(
        np.array_equal(np.sort(train), np.setdiff1d(np.flatnonzero(far[:, test].all(axis=1)), test))
        for train, test in trial.pairs
    )


@check("tests every row once on every path", "on_every_path")
def _on_every_path(trial: Trial) -> bool:
    tests, paths = [test for _, test in trial.pairs], trial.fresh.paths()
    once = bool((_times_tested(trial) == len(paths)).all())
    # The split of a block tests others too, so each block is what all its splits have in common.
    blocks = []
    for splits in zip(*paths, strict=True):
        shared = [np.isin(np.arange(trial.n), tests[split]) for split in splits]
        blocks.append(np.flatnonzero(np.logical_and.reduce(shared)))
    once &= len(blocks) == trial.param("n_blocks")
    return once and np.array_equal(np.sort(np.concatenate(blocks)), np.arange(trial.n))


@check("tests every row from the first time it tests to the last", "to_the_end")
def _to_the_end(trial: Trial) -> bool:
    (time, _), tested = _times(trial), np.flatnonzero(_times_tested(trial))
    return np.array_equal(tested, np.flatnonzero(time >= time[tested].min()))


@check("splits the rows that are not locked as its strategy splits them alone", "rest_as_alone")
def _rest_as_alone(trial: Trial) -> bool:
    rest = trial.fresh.rest(**trial.given)
    alone = [(rest[train], rest[test]) for train, test in trial.take(rest).by(trial.fresh.inner()).pairs]
    return same(trial.pairs, alone)


@check("keeps the locked rows out of every pair, and nearly the asked share of them", "locked_apart")
def _locked_apart(trial: Trial) -> bool:
    rows = trial.fresh.rows(**trial.given)
    locked = trial.fresh.locked(rows)
    untouched = all(not np.isin(side, locked).any() for pair in trial.pairs for side in pair)
    # Rows of a time, a group or a block are locked together, so the share may be missed by one of those.
    together = rows.groups if rows.time is None else rows.time
    slack = 1 if together is None else int(np.unique(together, return_counts=True)[1].max())
    return untouched and abs(locked.size - trial.param("fraction") * trial.n) <= slack
