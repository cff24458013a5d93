"""Splitters that are broken on purpose, each in one way, which the conformance suite must name."""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from evenfold.splitters import (
    BalancedGroupKFold,
    Crossed,
    FractionalStratifiedSplit,
    HashSplit,
    KFold,
    Predefined,
    Repeated,
    Rows,
    ShuffleSplit,
    Splitter,
    StratifiedKFold,
    StratifiedLeaveOneGroupOut,
    StratifiedSplit,
)

Pairs = list[tuple[Any, Any]]


def broken(splitter: Splitter, spoil: Callable[[Pairs, Splitter, Rows], Pairs]) -> Splitter:
    """Return ``splitter`` with its pairs spoiled."""

    class Broken(type(splitter)):  # type: ignore[misc]
        __init__ = type(splitter).__init__  # scikit-learn reads the parameters from it

        def pairs(self, rows: Rows) -> Iterator[tuple[Any, Any]]:
            return iter(spoil(list(super().pairs(rows)), self, rows))

    return Broken(**splitter.get_params(deep=False))


def first(change: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[Pairs, Splitter, Rows], Pairs]:
    """Return a spoiler of the last pair only, which a check that looks at one split would miss."""
    return lambda pairs, splitter, rows: [*pairs[:-1], change(*pairs[-1])]


def learn_all_the_rest(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    return [(np.setdiff1d(np.arange(rows.n), test), test) for _, test in pairs]


def draw_globally(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    np.random.random()
    return pairs


def draw_from_python(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    random.random()
    return pairs


def remember(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    splitter.n_rows_ = rows.n
    return pairs


def shift_each_time(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    shift_each_time.calls += 1
    return pairs[shift_each_time.calls % 2 :] + pairs[: shift_each_time.calls % 2]


shift_each_time.calls = 0


def by_name(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    return sorted(pairs, key=lambda pair: str(rows.levels[rows.y[pair[1][0]]]) + str(pair[1].sum()))


def swap_one_row(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Move one row from the second fold to the first, everywhere."""
    row = pairs[1][1][:1]
    moved = [(np.union1d(train, row), np.setdiff1d(test, row)) for train, test in pairs]
    moved[0] = np.setdiff1d(pairs[0][0], row), np.union1d(pairs[0][1], row)
    return moved


def swap_top_and_bottom(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Trade the second fold's three smallest rows for the first fold's three largest."""
    low = pairs[1][1][np.argsort(rows.y[pairs[1][1]])[:3]]
    high = pairs[0][1][np.argsort(rows.y[pairs[0][1]])[-3:]]
    tests = [np.union1d(np.setdiff1d(pairs[0][1], high), low), np.union1d(np.setdiff1d(pairs[1][1], low), high)]
    tests += [test for _, test in pairs[2:]]
    return [(np.setdiff1d(np.arange(rows.n), test), test) for test in tests]


def forget_the_smallest_group(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Put the smallest group beside the largest, which empties its fold where groups are as few as folds."""
    sizes = np.bincount(rows.groups)
    small = np.flatnonzero(rows.groups == np.argmin(sizes))
    big = int(np.flatnonzero(rows.groups == np.argmax(sizes))[0])
    tests = [np.union1d(test, small) if big in test else np.setdiff1d(test, small) for _, test in pairs]
    return [(np.setdiff1d(np.arange(rows.n), test), test) for test in tests]


def of_the_count(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    shift = int(splitter.n_splits)
    return [(train, test) for train, test in pairs[shift % 3 :] + pairs[: shift % 3]]


def swap_a_draw(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Replace one of several draws of a row of one class by one more draw of a row of another."""
    (train, test), *others = pairs
    twice = np.flatnonzero((np.bincount(train) > 1) & (rows.y[: train.max() + 1] == 0))[0]
    instead = train[rows.y[train] == 1][0]
    return [(np.append(np.delete(train, np.flatnonzero(train == twice)[0]), instead), test), *others]


def swap_classes(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Test all rows of one class that are trained on, for as many of another."""
    (train, test), *others = pairs
    leave, come = test[rows.y[test] == 0][:3], train[rows.y[train] == 1][:3]
    return [(np.setdiff1d(np.union1d(train, leave), come), np.setdiff1d(np.union1d(test, come), leave)), *others]


def the_first_rows_twice(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Test the first split's rows in the last split as well."""
    (_, early), (train, test) = pairs[0], pairs[-1]
    return [*pairs[:-1], (np.setdiff1d(train, early), np.union1d(test, early))]


def lose_the_last_row(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:  # never test the latest row
    latest = np.argmax(rows.time)
    return [(train, np.setdiff1d(test, latest)) for train, test in pairs]


def learn_the_row_before(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Train on rows that happened before the tested stretch, and whose labels were not known yet."""
    starts = [rows.time[test].min() for _, test in pairs]
    late = [np.flatnonzero((rows.time < start) & (rows.known >= start)) for start in starts]
    return [(np.union1d(train, some), test) for (train, test), some in zip(pairs, late, strict=True)]


def learn_the_row_after(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Train on what happened within the embargo."""
    stops = [rows.known[test].max() for _, test in pairs]
    two_days = np.timedelta64(2, "D")
    soon = [np.flatnonzero((rows.time > stop) & (rows.time <= stop + two_days)) for stop in stops]
    return [(np.union1d(train, some), test) for (train, test), some in zip(pairs, soon, strict=True)]


def forget_a_split(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
    """Test in the last split what the first one tests."""
    return [*pairs[:-1], pairs[0]]


class Unrepeated(ShuffleSplit):  # says that it draws with replacement, and does not
    promises = ShuffleSplit.promises | {"with_replacement"}


class LastSwapped(ShuffleSplit):  # swaps the sides of the last draw, where it is asked for alone
    def pair(self, rows: Rows, i: int) -> Any:
        train, test = super().pair(rows, i)
        return (test, train) if i == self.n_splits - 1 else (train, test)


class Misspelt(KFold):  # promises in words that mean nothing, and keeps none of it
    promises = frozenset({"disjoint", "exhaustiv", "groups_hole"})

    def pairs(self, rows: Rows) -> Iterator[tuple[Any, Any]]:
        return ((train, test[:1]) for train, test in super().pairs(rows))


class OneForAll(ShuffleSplit):  # draws the same test set each time
    def draw(self, rows: Any, stream: Any) -> Any:
        return super().draw(rows, KFold()._stream(9))


class Overwriting(KFold):  # puts the rows of X in order, where they lie
    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:
        pairs = super().split(X, y, groups)
        X.sort(axis=0)
        return pairs


class SortingLists(StratifiedKFold):  # puts the classes in order, where they are a list
    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:
        pairs = super().split(X, y, groups)
        if isinstance(y, list):
            y.sort()
        return pairs


class ByWidth(BalancedGroupKFold):  # makes other folds of groups in narrow integers
    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:
        pairs = list(super().split(X, y, groups))
        return iter(pairs[::-1] if np.asarray(groups).dtype == np.int32 else pairs)


class BySet(BalancedGroupKFold):
    """Deals the groups in the order of a set, which follows PYTHONHASHSEED where their names are text."""

    def rows(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> Rows:
        rows, names = super().rows(X, y, groups, **roles), np.asarray(groups).tolist()
        place = {name: i for i, name in enumerate(set(names))}
        return replace(rows, groups=np.array([place[name] for name in names]))

    def labels(self, rows: Rows, stream: Any) -> Any:
        return rows.groups % self.n_splits


class Relabelled(KFold):  # gives a caller who asks for labels others than it splits by
    def assign(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> Any:
        labels = super().assign(X, y, groups, **roles)
        return labels if isinstance(X, Rows) else labels[::-1]


class ByThreads(KFold):  # makes other folds where other numbers of threads are set
    def labels(self, rows: Rows, stream: Any) -> Any:
        return np.roll(super().labels(rows, stream), int(os.environ.get("OMP_NUM_THREADS", "1")))


class ByIndex(StratifiedKFold):  # takes labels for positions
    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:
        return super().split(X, [y[i] for i in range(len(y))])


class Tolerant(StratifiedKFold):  # takes None for a class
    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        super().__init__(n_splits, rare="spread", random_state=random_state)

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:
        return super().split(X, [str(value) for value in y])


class Seedless(KFold):  # ignores the seed
    def _stream(self, *path: int) -> Any:
        return KFold(random_state=0)._stream(*path)


class Renaming(KFold):  # draws nothing by the seed but the names of the folds
    def labels(self, rows: Rows, stream: Any) -> Any:
        return (np.arange(rows.n) + self.random_state) % self.n_splits


class OneTooMany(KFold):  # says that it yields one more than it does
    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return super().get_n_splits() + 1


class Classless(StratifiedSplit):  # looks at no class
    def labels(self, rows: Rows, stream: Any) -> Any:
        return super().labels(rows, stream)[np.argsort(rows.y, kind="stable")]


class Loose(FractionalStratifiedSplit):  # moves two rows from train to test
    def labels(self, rows: Rows, stream: Any) -> Any:
        labels = super().labels(rows, stream)
        labels[np.flatnonzero(labels == -1)[:2]] = 0
        return labels


class Miscoded(StratifiedSplit):  # locks the part that is to be validated by, and tests the one that is to be locked
    def part_codes(self) -> dict[str, int]:
        return {"train": -1, "validation": -2, "test": 0}


class Partless(FractionalStratifiedSplit):  # forgets to give a row a part
    def labels(self, rows: Rows, stream: Any) -> Any:
        labels = super().labels(rows, stream)
        labels[0] = -2
        return labels


class TwoOfAStratum(StratifiedLeaveOneGroupOut):  # tests the groups of the last fold in the first one
    def labels(self, rows: Rows, stream: Any) -> Any:
        labels = super().labels(rows, stream)
        labels[labels == labels.max()] = 0
        return labels


class Uncrossed(Crossed):  # gives the rows that are left out the fold of their first entity
    def labels(self, rows: Rows, stream: Any) -> Any:
        labels, (first, _) = super().labels(rows, stream), rows.entities.codes.T
        of_level = np.full(first.max() + 1, -3)
        np.maximum.at(of_level, first, labels)
        return of_level[first]


class Wasteful(Crossed):  # leaves out a row that crosses nothing
    def labels(self, rows: Rows, stream: Any) -> Any:
        labels = super().labels(rows, stream)
        first, other = (column == column[0] for column in rows.entities.codes.T)
        assert labels[0] >= 0
        assert (first & other & (labels >= 0)).sum() > 1
        labels[0] = -3
        return labels


class Echo(Repeated):  # repeats the same folds under other labels
    def labels(self, rows: Rows, stream: Any) -> Any:
        labels = super().labels(rows, stream)
        labels[:, 1] = (labels[:, 0] + 1) % 5
        return labels


class Renumbered(Predefined):  # gives row 0 a label of its own choice
    def labels(self, rows: Rows, stream: Any) -> Any:
        labels = super().labels(rows, stream).copy()
        labels[0] = (labels[0] + 1) % 2
        return labels


class ByPosition(HashSplit):  # hashes the key and the number of rows
    def labels(self, rows: Rows, stream: Any) -> Any:
        return (super().labels(rows, stream) + rows.n // 2) % self.n_splits


def look_at_the_locked(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:  # train the last split on one locked row
    return [*pairs[:-1], (np.append(pairs[-1][0], splitter.locked(rows)[0]), pairs[-1][1])]


learn_less = first(lambda train, test: (train[1:], test))
leave_one_untested = first(lambda train, test: (train, test[1:]))
draw_one_more = first(lambda train, test: (np.append(train, train[0]), test))
