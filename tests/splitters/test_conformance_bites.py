"""The suite catches splitters that are broken on purpose, each by the check that names its fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from broken_splitters import (
    AgainLearnt,
    AgainTested,
    ByIndex,
    ByPosition,
    BySet,
    ByThreads,
    ByWidth,
    Classless,
    Echo,
    LastSwapped,
    Loose,
    Misspelt,
    OneForAll,
    OneTooMany,
    Overwriting,
    Pairs,
    Partless,
    Relabelled,
    Renaming,
    Renumbered,
    Scribbler,
    Seedless,
    SortingLists,
    Swapped,
    Tolerant,
    TwoOfAStratum,
    Uncrossed,
    Unrepeated,
    Wasteful,
    broken,
    by_name,
    draw_from_python,
    draw_globally,
    draw_one_more,
    first,
    forget_a_split,
    forget_the_smallest_group,
    learn_all_the_rest,
    learn_less,
    learn_the_row_after,
    learn_the_row_before,
    leave_one_untested,
    look_at_the_locked,
    lose_the_last_row,
    of_the_count,
    remember,
    shift_each_time,
    swap_a_draw,
    swap_classes,
    swap_one_row,
    swap_top_and_bottom,
    the_first_rows_twice,
)
from evenfold.splitters import (
    BalancedGroupKFold,
    Bootstrap,
    CombinatorialPurgedKFold,
    ForwardChaining,
    FractionalStratifiedSplit,
    GroupBootstrap,
    Holdout,
    KFold,
    Predefined,
    PredefinedPairs,
    PurgedKFold,
    Rows,
    ShuffleSplit,
    SortedStratifiedKFold,
    SpatialBlockKFold,
    Splitter,
    StratifiedBootstrap,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from evenfold.splitters.conformance import CHECKS, check_conformance, data_for, failures

FAULTS: list[tuple[Splitter, str]] = [
    (broken(Holdout(KFold(4), 0.25), look_at_the_locked), "keeps the locked rows out of every pair"),
    (broken(KFold(), first(lambda train, test: (np.append(train, test[0]), test))), "keeps train and test apart"),
    (
        broken(KFold(), first(lambda train, test: (np.append(train, train[:10]), test))),
        "lists no row twice that it trains",
    ),
    (
        broken(StratifiedKFold(), first(lambda train, test: (np.repeat(train, 2), test))),
        "lists no row twice that it trains",
    ),
    (AgainLearnt(5), "lists no row twice that it trains"),
    (Unrepeated(5), "repeats a row in some train set"),
    (broken(Holdout(ShuffleSplit(5), 0.25), draw_one_more), "lists no row twice that it trains"),
    (AgainTested(5), "lists no row twice that it tests"),
    (
        broken(Bootstrap(5), first(lambda train, test: (train, np.append(test, test[0])))),
        "lists no row twice that it tests",
    ),
    (broken(KFold(), lambda pairs, splitter, rows: pairs[::-1]), "splits as its labels say"),
    (Relabelled(), "splits as its labels say"),
    (Misspelt(), "promises only what"),
    (Swapped(5), "draws a split alone as it draws it among all"),
    (LastSwapped(5), "draws a split alone as it draws it among all"),
    (broken(Holdout(KFold(4), 0.25), leave_one_untested), "splits the rows that are not"),
    (broken(KFold(), leave_one_untested), "tests every row once"),
    (broken(KFold(), learn_less), "trains on every row that it does not test"),
    (broken(KFold(), leave_one_untested), "trains on every row that it does not test"),
    (broken(Predefined(), the_first_rows_twice), "tests no row twice"),
    (broken(ForwardChaining(), the_first_rows_twice), "tests no row twice"),
    (broken(ForwardChaining(), lose_the_last_row), "tests every row from the first time"),
    (broken(ForwardChaining(), first(lambda train, test: (train, test[:1]))), "tests every row from the first time"),
    (broken(KFold(), first(lambda train, test: (train, test + 60))), "yields positions of its rows"),
    (broken(KFold(), first(lambda train, test: (train, test.tolist()))), "yields positions of its rows"),
    (broken(Bootstrap(5), first(lambda train, test: (train, test[:0]))), "has a row to train on"),
    (broken(KFold(), lambda pairs, splitter, rows: pairs[1:]), "yields as many splits as it says"),
    (OneTooMany(), "yields as many splits as it says"),
    (broken(KFold(), shift_each_time), "repeats itself"),
    (Seedless(), "obeys the seed"),
    (broken(KFold(), draw_globally), "leaves the global random state alone"),
    (broken(KFold(), draw_from_python), "leaves the global random state alone"),
    (Renaming(), "obeys the seed"),
    (Scribbler(), "leaves its inputs alone"),
    (Overwriting(), "leaves its inputs alone"),
    (SortingLists(), "leaves its inputs alone"),
    (ByWidth(), "ignores the container and its index"),
    (ByThreads(), "repeats itself"),
    (broken(KFold(), remember), "leaves itself alone"),
    (ByIndex(), "ignores the container and its index"),
    (broken(StratifiedKFold(), by_name), "ignores what classes and groups are called"),
    (BySet(), "ignores what classes and groups are called"),
    (Tolerant(), "refuses missing values"),
    (broken(Bootstrap(5), of_the_count), "keeps earlier splits as they are when more"),
    (broken(KFold(), swap_one_row), "makes folds whose sizes differ by at most 1"),
    (broken(StratifiedKFold(), swap_one_row), "makes folds whose counts of every class"),
    (broken(SortedStratifiedKFold(), swap_top_and_bottom), "makes folds whose counts below any threshold"),
    (broken(BalancedGroupKFold(), swap_one_row), "keeps every group on one side"),
    (Uncrossed(BalancedGroupKFold(3)), "keeps every level of every entity"),
    (Wasteful(BalancedGroupKFold(3)), "leaves out rows of entities in different folds"),
    (TwoOfAStratum(), "tests at most one group of a stratum"),
    (broken(BalancedGroupKFold(), forget_the_smallest_group), "leaves no fold empty"),
    (Partless(), "gives every row a part"),
    (broken(FractionalStratifiedSplit(), learn_less), "gives every row a part"),
    (Loose(), "makes parts whose sizes"),
    (Classless(), "gives each part its share of every class"),
    (Echo(KFold(5), 3), "makes other folds in every repeat"),
    (Renumbered(), "keeps the labels that it was given"),
    (ByPosition(3), "gives a row with the same key"),
    (
        broken(ForwardChaining(), first(lambda train, test: (np.append(train, test[-1]), test[:-1]))),
        "trains on times that lie more than the gap",
    ),
    (broken(ForwardChaining(), learn_the_row_before), "trains on no row whose label was not known"),
    (broken(PurgedKFold(12), learn_the_row_before), "trains on no row whose label overlaps"),
    (broken(PurgedKFold(embargo="2 days"), learn_the_row_after), "trains on no row whose label overlaps"),
    (broken(SpatialBlockKFold(block_size=1.5), swap_one_row), "keeps every block of the map"),
    (broken(SpatialBlockKFold(3, block_size=4, buffer=1), learn_all_the_rest), "trains on no row within the buffer"),
    (broken(SpatialBlockKFold(3, block_size=4, buffer=1), learn_less), "trains on no row within the buffer"),
    (broken(CombinatorialPurgedKFold(8, 2), forget_a_split), "tests every row once on every path"),
    (OneForAll(5), "keeps earlier splits as they are"),
    (broken(Bootstrap(5), leave_one_untested), "tests the rows that are left out"),
    (
        broken(Bootstrap(5), lambda pairs, splitter, rows: [(np.unique(a), b) for a, b in pairs]),
        "tests the rows that are left",
    ),
    (broken(Bootstrap(5), draw_one_more), "trains on n draws"),
    (broken(StratifiedBootstrap(5), swap_a_draw), "draws each class as often"),
    (broken(GroupBootstrap(5), draw_one_more), "draws all rows of a group"),
    (broken(ShuffleSplit(5), learn_less), "draws as many rows as it says"),
    (broken(StratifiedShuffleSplit(5, test_size=0.5), swap_classes), "tests each class's share"),
]


@pytest.mark.parametrize(("splitter", "fault"), FAULTS, ids=[f"{i}: {name}" for i, (_, name) in enumerate(FAULTS)])
def test_a_broken_splitter_is_caught_by_the_check_that_names_its_fault(splitter: Splitter, fault: str) -> None:
    named = [each.name for each in failures(splitter, data_for(splitter, 60))]
    assert any(name.startswith(fault) for name in named), named


def test_every_check_has_caught_something() -> None:
    caught = {each.name for each in CHECKS if any(each.name.startswith(fault) for _, fault in FAULTS)}
    assert {each.name for each in CHECKS} == caught


@pytest.mark.parametrize("splitter", [KFold(), Bootstrap(5), StratifiedKFold(), BalancedGroupKFold()], ids=repr)
def test_the_wrapping_itself_breaks_nothing(splitter: Splitter) -> None:
    check_conformance(broken(splitter, lambda pairs, splitter, rows: pairs))


def test_the_message_names_every_failed_check() -> None:
    with pytest.raises(AssertionError, match="obeys the seed"):
        check_conformance(Seedless())


def test_the_message_names_promises_that_nothing_checks() -> None:
    """A misspelt promise is an unkept one that nobody would notice; whoever wrote it reads which word it is."""
    with pytest.raises(
        AssertionError, match="no check is for 'exhaustiv', 'groups_hole'; choose from appendable, as_given"
    ):
        check_conformance(Misspelt())


@pytest.mark.parametrize("rest", [0, 1])
def test_a_fault_at_odd_or_at_even_numbers_alone_is_caught(rest: int) -> None:
    def lose_a_row(pairs: Pairs, splitter: Splitter, rows: Rows) -> Pairs:
        return [(train, test[: test.size - (rows.n % 2 == rest)]) for train, test in pairs]

    with pytest.raises(AssertionError, match=r"with 60 or 61 rows.*tests every row once; ") as said:
        check_conformance(broken(KFold(), lose_a_row), 60)
    assert str(said.value).count("tests every row once") == 1


def test_one_row_more_may_be_refused() -> None:
    halves = np.arange(60) < 30
    check_conformance(PredefinedPairs([(halves, ~halves)]), 60)


@pytest.mark.parametrize("sorts_first", [False, True])
def test_a_splitter_that_cannot_read_a_list_is_accused_of_that_and_of_what_it_did_before(sorts_first: bool) -> None:
    class ArraysAlone(StratifiedKFold):
        """Asks y for its shape."""

        def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:
            if sorts_first and isinstance(y, list):
                y.sort()
            assert y.shape == (len(X),)
            return super().split(X, y, groups)

    splitter = ArraysAlone()
    named = [each.name for each in failures(splitter, data_for(splitter, 60))]
    assert named == ["leaves its inputs alone"] * sorts_first + ["ignores the container and its index"]
