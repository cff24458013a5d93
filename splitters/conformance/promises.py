"""One check per promise: a word in a strategy's ``promises`` means what its check here says."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from evenfold.splitters.base import DrawSplitter, Pair, Splitter
from evenfold.splitters.numbers import encode
from evenfold.splitters.strategies.parts import codes_of, shares_of_parts
from evenfold.splitters.times import ends_of, gap_of, later, rows_in, times_of
from numpy.typing import NDArray

from .checks import MORE, Data, check, data_for, repeats_a_row, same, spread


@check("keeps train and test apart", "disjoint")
def _disjoint(splitter: Splitter, data: Data) -> bool:
    return all(np.intersect1d(train, test).size == 0 for train, test in data.pairs(splitter))


@check("tests every row once", "exhaustive")
def _exhaustive(splitter: Splitter, data: Data) -> bool:
    return bool((_times_tested(splitter, data) == splitter.get_params(deep=False).get("n_repeats", 1)).all())


@check("tests no row twice", "tested_once_at_most")
def _tested_once_at_most(splitter: Splitter, data: Data) -> bool:
    return bool((_times_tested(splitter, data) <= splitter.get_params(deep=False).get("n_repeats", 1)).all())


def _times_tested(splitter: Splitter, data: Data) -> NDArray[np.int64]:
    return np.bincount(np.concatenate([test for _, test in data.pairs(splitter)]), minlength=data.n)


@check("trains on every row that it does not test", "trains_on_rest")
def _trains_on_rest(splitter: Splitter, data: Data) -> bool:
    return all(np.isin(np.arange(data.n), np.append(train, test)).all() for train, test in data.pairs(splitter))


@check("keeps earlier splits as they are when more are asked for, and draws each anew", "appendable")
def _appendable(splitter: Splitter, data: Data) -> bool:
    few = data.split(copy.deepcopy(splitter).set_params(n_splits=2))
    twenty = copy.deepcopy(splitter).set_params(n_splits=20)
    more = data.split(twenty)
    return same(few, more[:2]) and (_vary(more) or _vary(data_for(splitter, MORE * data.n).split(twenty)))


def _vary(pairs: list[Pair]) -> bool:
    return any(not same(pairs[:1], [other]) for other in pairs[1:])


@check("makes folds whose sizes differ by at most 1", "even_sizes")
def _even_sizes(splitter: Splitter, data: Data) -> bool:
    return spread(np.array([[test.size] for _, test in data.pairs(splitter)])) <= 1


@check("makes folds whose counts of every class differ by at most 1", "even_classes")
def _even_classes(splitter: Splitter, data: Data) -> bool:
    y = np.asarray(data.y)
    levels = np.unique(y)
    return spread(np.array([[np.sum(y[test] == level) for level in levels] for _, test in data.pairs(splitter)])) <= 1


@check("makes folds whose counts below any threshold differ by its bound", "even_distribution")
def _even_distribution(splitter: Splitter, data: Data) -> bool:
    y = np.asarray(data.y)
    below = [np.searchsorted(np.sort(y[test]), np.unique(y), side="right") for _, test in data.pairs(splitter)]
    return spread(np.array(below)) <= getattr(splitter, "threshold_gap", 1)


@check("keeps every group on one side", "groups_whole")
def _groups_whole(splitter: Splitter, data: Data) -> bool:
    groups = np.asarray(data.groups)
    return all(np.intersect1d(groups[train], groups[test]).size == 0 for train, test in data.pairs(splitter))


@check("keeps every level of every entity on one side", "entities_apart")
def _entities_apart(splitter: Splitter, data: Data) -> bool:
    return all(
        np.intersect1d(column[train], column[test]).size == 0
        for column in np.asarray(data.groups).T
        for train, test in data.pairs(splitter)
    )


@check("leaves out rows of entities in different folds alone", "leaves_out_crossing_alone")
def _leaves_out_crossing_alone(splitter: Splitter, data: Data) -> bool:
    labels = data.labels(splitter)
    folds = [{level: set(labels[column == level]) - {-3} for level in column} for column in np.asarray(data.groups).T]
    rows = np.asarray(data.groups)[labels == -3]
    # A row whose entities are in one fold, and no other, would have fitted there.
    return all(len(set().union(*(of[level] for of, level in zip(folds, row, strict=True)))) != 1 for row in rows)


@check("tests at most one group of a stratum in a fold", "one_group_a_stratum")
def _one_group_a_stratum(splitter: Splitter, data: Data) -> bool:
    y, _ = encode(data.y, "y")
    groups, levels = encode(data.groups, "groups")
    stratum = np.array([np.bincount(y[groups == group]).argmax() for group in range(len(levels))])
    tested = [stratum[np.unique(groups[test])] for _, test in data.pairs(splitter)]
    return all(np.unique(strata).size == strata.size for strata in tested)


@check("leaves no fold empty even with as many groups as folds", "no_empty_fold")
def _no_empty_fold(splitter: Splitter, data: Data) -> bool:
    k = data.count(splitter)
    # One group holds nearly all rows, so that a rule which looks only at sizes has a fold to forget.
    few = np.minimum(np.arange(data.n), k - 1)[::-1].copy()
    pairs = data.having(groups=few).split(splitter)
    return len(pairs) == k and all(test.size > 0 for _, test in pairs)


@check("tests the rows that are left out of training, which may repeat rows", "out_of_bag")
def _out_of_bag(splitter: Splitter, data: Data) -> bool:
    pairs = data.pairs(splitter)
    rest = all(np.array_equal(np.setdiff1d(np.arange(data.n), train), test) for train, test in pairs)
    return rest and repeats_a_row(pairs)


@check("repeats a row in some train set", "with_replacement")
def _with_replacement(splitter: Splitter, data: Data) -> bool:
    if repeats_a_row(data.pairs(splitter)):
        return True
    # In draws of few rows hardly any row is drawn again; in many such draws some are.
    many = copy.deepcopy(splitter)
    return isinstance(many, DrawSplitter) and repeats_a_row(data.split(many.set_params(n_splits=200)))


@check("trains on n draws", "n_draws")
def _n_draws(splitter: Splitter, data: Data) -> bool:
    return all(train.size == data.n for train, _ in data.pairs(splitter))


@check("draws each class as often as it has rows", "draws_classes")
def _draws_classes(splitter: Splitter, data: Data) -> bool:
    y, _ = encode(data.y, "y")
    return all(np.array_equal(np.bincount(y[train]), np.bincount(y)) for train, _ in data.pairs(splitter))


@check("draws all rows of a group equally often", "draws_groups")
def _draws_groups(splitter: Splitter, data: Data) -> bool:
    groups, levels = encode(data.groups, "groups")
    drawn = [np.bincount(train, minlength=data.n) for train, _ in data.pairs(splitter)]
    return all(np.unique(counts[groups == group]).size == 1 for counts in drawn for group in range(len(levels)))


@check("draws as many rows as it says", "exact_sizes")
def _exact_sizes(splitter: Splitter, data: Data) -> bool:
    wanted = splitter.sizes(data.n)
    return all((train.size, test.size) == wanted for train, test in data.pairs(splitter))


@check("tests each class's share of rows, rounded up or down", "draws_class_shares")
def _draws_class_shares(splitter: Splitter, data: Data) -> bool:
    y, levels = encode(data.y, "y")
    # All times n, so that shares are compared in whole numbers.
    counts = np.array([np.bincount(y[test], minlength=len(levels)) * data.n for _, test in data.pairs(splitter)])
    wanted = np.bincount(y) * data.pairs(splitter)[0][1].size
    return bool((np.abs(counts - wanted) < data.n).all())


@check("gives every row a part, trains on train and tests the parts of code 0 and above", "parts")
def _parts(splitter: Splitter, data: Data) -> bool:
    labels, codes = data.labels(splitter), codes_of(splitter.get_params(deep=False)["parts"])
    tested = [code for code in codes.values() if code >= 0]
    wanted = [(np.flatnonzero(labels == -1), np.flatnonzero(labels == code)) for code in tested]
    return bool(np.isin(labels, list(codes.values())).all()) and same(data.pairs(splitter), wanted)


@check("makes parts whose sizes are within 1 row of their shares", "exact_parts")
def _exact_parts(splitter: Splitter, data: Data) -> bool:
    labels, codes = data.labels(splitter), codes_of(splitter.get_params(deep=False)["parts"])
    shares = shares_of_parts(splitter.get_params(deep=False)["parts"])
    return all(abs(np.sum(labels == codes[name]) - share * data.n) < 1 + 1e-6 for name, share in shares.items())


@check("gives each part its share of every class, rounded up or down", "exact_class_parts")
def _exact_class_parts(splitter: Splitter, data: Data) -> bool:
    labels, (y, levels) = data.labels(splitter), encode(data.y, "y")
    codes = np.array(list(codes_of(splitter.get_params(deep=False)["parts"]).values()))
    counts = np.array([np.bincount(y[labels == code], minlength=len(levels)) for code in codes])
    wanted = np.outer(counts.sum(axis=1), np.bincount(y))
    return bool((np.abs(counts * data.n - wanted) < data.n).all())


@check("makes other folds in every repeat", "repeats_differ")
def _repeats_differ(splitter: Splitter, data: Data) -> bool:
    repeats = data.labels(splitter).T
    partitions = {encode(labels, "fold")[0].tobytes() for labels in repeats}
    return bool(len(partitions) == len(repeats) == splitter.get_params(deep=False)["n_repeats"])


@check("keeps the labels that it was given", "as_given")
def _as_given(splitter: Splitter, data: Data) -> bool:
    return bool(np.array_equal(data.labels(splitter), data.roles["fixed"]))


@check("gives a row with the same key the same sides, whatever other rows there are", "by_key_alone")
def _by_key_alone(splitter: Splitter, data: Data) -> bool:
    # Fewer rows and in another order: neither may matter.
    rows = np.arange(data.n - 3)[::-1]
    fewer = [(np.sort(rows[train]), np.sort(rows[test])) for train, test in data.take(rows).split(splitter)]
    return same(fewer, [(train[train < rows.size], test[test < rows.size]) for train, test in data.pairs(splitter)])


@check("trains on times that lie more than the gap before every time it tests", "past_before_future")
def _past_before_future(splitter: Splitter, data: Data) -> bool:
    time = times_of(data.roles["time"], "time")
    gap = gap_of(splitter.get_params(deep=False).get("gap", 0), time)
    return all(bool(later(time[train], gap).max() < time[test].min()) for train, test in data.pairs(splitter))


@check("trains on what comes before all that it tests of the same group", "last_of_each_group")
def _last_of_each_group(splitter: Splitter, data: Data) -> bool:
    time, groups = times_of(data.roles["time"], "time"), np.asarray(data.groups)
    return all(
        time[train[groups[train] == group]].max() < time[test[groups[test] == group]].min()
        for train, test in data.pairs(splitter)
        for group in np.unique(groups[test])
    )


@check("trains on no row whose label was not known, the gap before what it tests", "labels_known")
def _labels_known(splitter: Splitter, data: Data) -> bool:
    time, label_end = _times(data)
    gap = gap_of(splitter.get_params(deep=False).get("gap", 0), time)
    return all(bool(later(label_end[train], gap).max() < time[test].min()) for train, test in data.pairs(splitter))


@check("trains on no row whose label overlaps one that it tests, nor in the gap or the embargo", "purged")
def _purged(splitter: Splitter, data: Data) -> bool:
    time, label_end = _times(data)
    params = splitter.get_params(deep=False)
    gap, embargo = (0 if rows_in(width) else width for width in (params.get("gap", 0), params.get("embargo", 0)))
    before, after = gap_of(gap, time), gap_of(embargo, time, "embargo")
    for train, test in data.pairs(splitter):
        apart = (
            later(label_end[train], before)[:, None] < time[test],
            time[train][:, None] > later(label_end[test], after),
        )
        if not (apart[0] | apart[1]).all():
            return False
    return True


def _times(data: Data) -> tuple[NDArray[Any], NDArray[Any]]:
    time = times_of(data.roles["time"], "time")
    return time, ends_of(data.roles["label_end"], time) if "label_end" in data.roles else time


@check("keeps every block of the map on one side", "blocks_whole")
def _blocks_whole(splitter: Splitter, data: Data) -> bool:
    size = np.broadcast_to(splitter.get_params(deep=False)["block_size"], 2)
    squares = np.floor(np.asarray(data.roles["coordinates"], dtype=np.float64) / size)
    blocks = np.unique(squares, axis=0, return_inverse=True)[1].reshape(-1)
    return all(np.intersect1d(blocks[train], blocks[test]).size == 0 for train, test in data.pairs(splitter))


@check("trains on no row within the buffer of one that it tests, and on all others", "buffered")
def _buffered(splitter: Splitter, data: Data) -> bool:
    places = np.asarray(data.roles["coordinates"], dtype=np.float64)
    buffer = splitter.get_params(deep=False)["buffer"]
    for train, test in data.pairs(splitter):
        apart = np.sqrt(((places[:, None] - places[test]) ** 2).sum(axis=2)).min(axis=1)
        near = (apart <= buffer * (1 + 1e-9)) & (buffer > 0)
        wanted = ~near & ~np.isin(np.arange(data.n), test)
        if not np.array_equal(np.sort(train), np.flatnonzero(wanted)):
            return False
    return True


@check("tests every row once on every path", "on_every_path")
def _on_every_path(splitter: Splitter, data: Data) -> bool:
    combinatorial: Any = splitter
    tests, paths = [test for _, test in data.pairs(splitter)], combinatorial.paths()
    once = bool((_times_tested(splitter, data) == len(paths)).all())
    # The split of a block tests others too, so each block is what all its splits have in common.
    blocks = []
    for splits in zip(*paths, strict=True):
        shared = [np.isin(np.arange(data.n), tests[split]) for split in splits]
        blocks.append(np.flatnonzero(np.logical_and.reduce(shared)))
    whole = len(blocks) == splitter.get_params(deep=False)["n_blocks"]
    return once and whole and np.array_equal(np.sort(np.concatenate(blocks)), np.arange(data.n))


@check("tests every row from the first time it tests to the last", "to_the_end")
def _to_the_end(splitter: Splitter, data: Data) -> bool:
    time = times_of(data.roles["time"], "time")
    tested = np.concatenate([test for _, test in data.pairs(splitter)])
    return np.array_equal(np.unique(tested), np.flatnonzero(time >= time[tested].min()))


@check("splits the rows that are not locked as its strategy splits them alone", "rest_as_alone")
def _rest_as_alone(splitter: Splitter, data: Data) -> bool:
    holdout: Any = splitter
    rest = holdout.rest(np.zeros((data.n, 1)), data.y, data.groups, **data.roles)
    alone = [(rest[train], rest[test]) for train, test in data.take(rest).split(holdout.inner())]
    return same(data.pairs(splitter), alone)


@check("keeps the locked rows out of every pair, and nearly the asked share of them", "locked_apart")
def _locked_apart(splitter: Splitter, data: Data) -> bool:
    holdout: Any = splitter
    rows = holdout.rows(np.zeros((data.n, 1)), data.y, data.groups, **data.roles)
    locked = holdout.locked_of(rows)
    sides = [side for pair in data.pairs(splitter) for side in pair]
    untouched = all(np.intersect1d(side, locked).size == 0 for side in sides)
    # Rows of a time, a group or a block are locked together, so the share may be missed by one of those.
    together = rows.groups if rows.time is None else rows.time
    slack = 1 if together is None else int(np.unique(together, return_counts=True)[1].max())
    return untouched and abs(locked.size - holdout.fraction * data.n) <= slack
