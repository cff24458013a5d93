"""One check per promise: a word in a strategy's ``promises`` means what its check here says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, Splitter
from evenfold.splitters.kernels import IntArray
from evenfold.splitters.numbers import encode
from evenfold.splitters.strategies.parts import codes_of, shares_of_parts
from evenfold.splitters.times import ends_of, gap_of, later, rows_in, times_of
from numpy.typing import NDArray

from .checks import MORE, check, param, repeats_a_row, same
from .data import Data, data_for


def _spread(counts: Any) -> int:
    """Return the largest difference between two folds' counts (folds first)."""
    return int(np.ptp(counts, axis=0).max())


def _apart(values: Any, train: IntArray, test: IntArray) -> bool:
    """Return whether no value is on both sides."""
    return not np.intersect1d(values[train], values[test]).size


def _y(data: Data) -> IntArray:
    return encode(data.y, "y")[0]


def _groups(data: Data) -> IntArray:
    return encode(data.groups, "groups")[0]


def _times(data: Data) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the times of rows, and when their labels are known."""
    time = times_of(data.roles["time"], "time")
    return time, ends_of(data.roles["label_end"], time) if "label_end" in data.roles else time


def _times_tested(splitter: Splitter, data: Data) -> IntArray:
    return np.bincount(np.concatenate([test for _, test in data.pairs(splitter)]), minlength=data.n)


def _class_counts(splitter: Splitter, data: Data) -> IntArray:
    """Return the rows of each class that each pair tests."""
    y = _y(data)
    return np.array([np.bincount(y[test], minlength=y.max() + 1) for _, test in data.pairs(splitter)])


def _of_each(fits: Callable[[Any, Data, IntArray, IntArray], Any]) -> Callable[[Any, Data], bool]:
    """Return what asks of every pair."""
    return lambda splitter, data: all(fits(splitter, data, *pair) for pair in data.pairs(splitter))


check("tests every row once", "exhaustive")(
    lambda splitter, data: (_times_tested(splitter, data) == param(splitter, "n_repeats", 1)).all()
)
check("tests no row twice", "tested_once_at_most")(
    lambda splitter, data: (_times_tested(splitter, data) <= param(splitter, "n_repeats", 1)).all()
)
check("keeps train and test apart", "disjoint")(_of_each(lambda _, data, *pair: not np.intersect1d(*pair).size))
check("trains on every row that it does not test", "trains_on_rest")(
    _of_each(lambda _, data, *pair: np.isin(np.arange(data.n), np.concatenate(pair)).all())
)
check("makes folds whose sizes differ by at most 1", "even_sizes")(
    lambda splitter, data: _spread([test.size for _, test in data.pairs(splitter)]) <= 1
)
check("makes folds whose counts of every class differ by at most 1", "even_classes")(
    lambda splitter, data: _spread(_class_counts(splitter, data)) <= 1
)
check("keeps every group on one side", "groups_whole")(_of_each(lambda _, data, *pair: _apart(_groups(data), *pair)))
check("keeps every level of every entity on one side", "entities_apart")(
    _of_each(lambda _, data, *pair: all(_apart(column, *pair) for column in np.asarray(data.groups).T))
)
check("trains on n draws", "n_draws")(_of_each(lambda _, data, train, test: train.size == data.n))
check("draws each class as often as it has rows", "draws_classes")(
    _of_each(lambda _, data, train, test: np.array_equal(np.bincount(_y(data)[train]), np.bincount(_y(data))))
)
check("draws as many rows as it says", "exact_sizes")(
    _of_each(lambda splitter, data, *pair: splitter.sizes(data.n) == tuple(side.size for side in pair))
)
check("tests the rows that are left out of training, which may repeat rows", "out_of_bag")(
    lambda splitter, data: (
        repeats_a_row(data.pairs(splitter))
        and all(np.array_equal(np.setdiff1d(np.arange(data.n), train), test) for train, test in data.pairs(splitter))
    )
)
check("keeps the labels that it was given", "as_given")(
    lambda splitter, data: np.array_equal(data.labels(splitter), data.roles["fixed"])
)


@check("keeps earlier splits as they are when more are asked for, and draws each anew", "appendable")
def _appendable(splitter: Splitter, data: Data) -> bool:
    few, twenty = (copy.deepcopy(splitter).set_params(n_splits=n) for n in (2, 20))
    # Few rows may allow one draw alone; of more there are others.
    draws = (some.split(twenty) for some in (data, data_for(splitter, MORE * data.n)))
    vary = any(not same(pairs[:1], [other]) for pairs in draws for other in pairs[1:])
    return vary and same(data.split(few), data.split(twenty)[:2])


@check("makes folds whose counts below any threshold differ by its bound", "even_distribution")
def _even_distribution(splitter: Splitter, data: Data) -> bool:
    y = np.asarray(data.y)
    below = [np.searchsorted(np.sort(y[test]), np.unique(y), side="right") for _, test in data.pairs(splitter)]
    return _spread(below) <= getattr(splitter, "threshold_gap", 1)


@check("leaves out rows of entities in different folds alone", "leaves_out_crossing_alone")
def _leaves_out_crossing_alone(splitter: Splitter, data: Data) -> bool:
    labels = data.labels(splitter)
    folds = [{level: set(labels[column == level]) - {-3} for level in column} for column in np.asarray(data.groups).T]
    rows = np.asarray(data.groups)[labels == -3]
    # A row whose entities are in one fold, and no other, would have fitted there.
    return all(len(set().union(*(of[level] for of, level in zip(folds, row, strict=True)))) != 1 for row in rows)


@check("tests at most one group of a stratum in a fold", "one_group_a_stratum")
def _one_group_a_stratum(splitter: Splitter, data: Data) -> bool:
    y, groups = _y(data), _groups(data)
    stratum = np.array([np.bincount(y[groups == group]).argmax() for group in range(groups.max() + 1)])
    return all(np.bincount(stratum[np.unique(groups[test])]).max() == 1 for _, test in data.pairs(splitter))


@check("leaves no fold empty even with as many groups as folds", "no_empty_fold")
def _no_empty_fold(splitter: Splitter, data: Data) -> bool:
    k = splitter.get_n_splits(**data.given)
    # One group holds nearly all rows, so that a rule which looks only at sizes has a fold to forget.
    few = np.minimum(np.arange(data.n), k - 1)[::-1].copy()
    pairs = data.having(groups=few).split(splitter)
    return len(pairs) == k and all(test.size > 0 for _, test in pairs)


@check("repeats a row in some train set", "with_replacement")
def _with_replacement(splitter: Splitter, data: Data) -> bool:
    if repeats_a_row(data.pairs(splitter)):
        return True
    # In draws of few rows hardly any row is drawn again; in many such draws some are.
    many = copy.deepcopy(splitter)
    return isinstance(many, DrawSplitter) and repeats_a_row(data.split(many.set_params(n_splits=200)))


@check("draws all rows of a group equally often", "draws_groups")
def _draws_groups(splitter: Splitter, data: Data) -> bool:
    groups, drawn = _groups(data), [np.bincount(train, minlength=data.n) for train, _ in data.pairs(splitter)]
    return all(np.unique(counts[groups == group]).size == 1 for counts in drawn for group in np.unique(groups))


@check("tests each class's share of rows, rounded up or down", "draws_class_shares")
def _draws_class_shares(splitter: Splitter, data: Data) -> bool:
    # All times n, so that shares are compared in whole numbers.
    wanted = np.bincount(_y(data)) * data.pairs(splitter)[0][1].size
    return bool((np.abs(_class_counts(splitter, data) * data.n - wanted) < data.n).all())


@check("gives every row a part, trains on train and tests the parts of code 0 and above", "parts")
def _parts(splitter: Splitter, data: Data) -> bool:
    labels, codes = data.labels(splitter), codes_of(param(splitter, "parts"))
    tested = [code for code in codes.values() if code >= 0]
    wanted = [(np.flatnonzero(labels == -1), np.flatnonzero(labels == code)) for code in tested]
    return bool(np.isin(labels, list(codes.values())).all()) and same(data.pairs(splitter), wanted)


@check("makes parts whose sizes are within 1 row of their shares", "exact_parts")
def _exact_parts(splitter: Splitter, data: Data) -> bool:
    labels, parts = data.labels(splitter), param(splitter, "parts")
    wanted = {codes_of(parts)[name]: share * data.n for name, share in shares_of_parts(parts).items()}
    return all(abs(np.sum(labels == code) - rows) < 1 + 1e-6 for code, rows in wanted.items())


@check("gives each part its share of every class, rounded up or down", "exact_class_parts")
def _exact_class_parts(splitter: Splitter, data: Data) -> bool:
    labels, y = data.labels(splitter), _y(data)
    codes = codes_of(param(splitter, "parts")).values()
    counts = np.array([np.bincount(y[labels == code], minlength=y.max() + 1) for code in codes])
    wanted = np.outer(counts.sum(axis=1), np.bincount(y))
    return bool((np.abs(counts * data.n - wanted) < data.n).all())


@check("makes other folds in every repeat", "repeats_differ")
def _repeats_differ(splitter: Splitter, data: Data) -> bool:
    repeats = data.labels(splitter).T
    partitions = {encode(labels, "fold")[0].tobytes() for labels in repeats}
    return bool(len(partitions) == len(repeats) == param(splitter, "n_repeats"))


@check("gives a row with the same key the same sides, whatever other rows there are", "by_key_alone")
def _by_key_alone(splitter: Splitter, data: Data) -> bool:
    # Fewer rows and in another order: neither may matter.
    rows = np.arange(data.n - 3)[::-1]
    fewer = [(np.sort(rows[train]), np.sort(rows[test])) for train, test in data.take(rows).split(splitter)]
    return same(fewer, [(train[train < rows.size], test[test < rows.size]) for train, test in data.pairs(splitter)])


def _before(which: int) -> Callable[[Any, Data], bool]:
    """Return what asks whether all times (0) or ends (1) that are trained on lie the gap before any tested time."""

    def holds(splitter: Splitter, data: Data) -> bool:
        times, gap = _times(data), gap_of(param(splitter, "gap", 0), _times(data)[0])
        pairs = data.pairs(splitter)
        return all(later(times[which][train], gap).max() < times[0][test].min() for train, test in pairs)

    return holds


check("trains on times that lie more than the gap before every time it tests", "past_before_future")(_before(0))
check("trains on no row whose label was not known, the gap before what it tests", "labels_known")(_before(1))


@check("trains on what comes before all that it tests of the same group", "last_of_each_group")
def _last_of_each_group(splitter: Splitter, data: Data) -> bool:
    (time, _), groups = _times(data), _groups(data)
    return all(
        time[train[groups[train] == group]].max() < time[test[groups[test] == group]].min()
        for train, test in data.pairs(splitter)
        for group in np.unique(groups[test])
    )


@check("trains on no row whose label overlaps one that it tests, nor in the gap or the embargo", "purged")
def _purged(splitter: Splitter, data: Data) -> bool:
    time, label_end = _times(data)
    gap, embargo = (0 if rows_in(width := param(splitter, name, 0)) else width for name in ("gap", "embargo"))
    before, after = gap_of(gap, time), gap_of(embargo, time, "embargo")
    return all(
        (
            (later(label_end[train], before)[:, None] < time[test])
            | (time[train][:, None] > later(label_end[test], after))
        ).all()
        for train, test in data.pairs(splitter)
    )


@check("keeps every block of the map on one side", "blocks_whole")
def _blocks_whole(splitter: Splitter, data: Data) -> bool:
    squares = np.floor(np.asarray(data.roles["coordinates"], dtype=np.float64) / param(splitter, "block_size"))
    blocks = np.unique(squares, axis=0, return_inverse=True)[1].reshape(-1)
    return all(_apart(blocks, *pair) for pair in data.pairs(splitter))


@check("trains on no row within the buffer of one that it tests, and on all others", "buffered")
def _buffered(splitter: Splitter, data: Data) -> bool:
    places, buffer = np.asarray(data.roles["coordinates"], dtype=np.float64), param(splitter, "buffer")
    apart = np.sqrt(((places[:, None] - places) ** 2).sum(axis=2))
    far = (apart > buffer * (1 + 1e-9)) | (buffer == 0)
    return all(
        np.array_equal(np.sort(train), np.setdiff1d(np.flatnonzero(far[:, test].all(axis=1)), test))
        for train, test in data.pairs(splitter)
    )


@check("tests every row once on every path", "on_every_path")
def _on_every_path(splitter: Any, data: Data) -> bool:
    tests, paths = [test for _, test in data.pairs(splitter)], splitter.paths()
    once = bool((_times_tested(splitter, data) == len(paths)).all())
    # The split of a block tests others too, so each block is what all its splits have in common.
    blocks = []
    for splits in zip(*paths, strict=True):
        shared = [np.isin(np.arange(data.n), tests[split]) for split in splits]
        blocks.append(np.flatnonzero(np.logical_and.reduce(shared)))
    once &= len(blocks) == splitter.n_blocks
    return once and np.array_equal(np.sort(np.concatenate(blocks)), np.arange(data.n))


@check("tests every row from the first time it tests to the last", "to_the_end")
def _to_the_end(splitter: Splitter, data: Data) -> bool:
    (time, _), tested = _times(data), np.flatnonzero(_times_tested(splitter, data))
    return np.array_equal(tested, np.flatnonzero(time >= time[tested].min()))


@check("splits the rows that are not locked as its strategy splits them alone", "rest_as_alone")
def _rest_as_alone(splitter: Any, data: Data) -> bool:
    rest = splitter.rest(**data.given)
    alone = [(rest[train], rest[test]) for train, test in data.take(rest).split(splitter.inner())]
    return same(data.pairs(splitter), alone)


@check("keeps the locked rows out of every pair, and nearly the asked share of them", "locked_apart")
def _locked_apart(splitter: Any, data: Data) -> bool:
    rows = splitter.rows(**data.given)
    locked = splitter.locked_of(rows)
    untouched = all(not np.isin(side, locked).any() for pair in data.pairs(splitter) for side in pair)
    # Rows of a time, a group or a block are locked together, so the share may be missed by one of those.
    together = rows.groups if rows.time is None else rows.time
    slack = 1 if together is None else int(np.unique(together, return_counts=True)[1].max())
    return untouched and abs(locked.size - splitter.fraction * data.n) <= slack
