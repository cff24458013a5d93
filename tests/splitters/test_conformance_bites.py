"""The suite catches splitters that are broken on purpose, each by the check that names its fault."""

import broken_splitters as by
import numpy as np
import pytest
from broken_splitters import broken, first
from evenfold.splitters import (
    BalancedGroupKFold,
    Bootstrap,
    CombinatorialPurgedKFold,
    ForwardChaining,
    FractionalStratifiedSplit,
    GroupBootstrap,
    Holdout,
    KFold,
    LeaveLastOut,
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
from evenfold.splitters.conformance import CHECKS, check_conformance, failures, trial_of

FAULTS: list[tuple[Splitter, str]] = [
    (broken(Holdout(KFold(4), 0.25), by.look_at_the_locked), "keeps the locked rows out of every pair"),
    (broken(KFold(), first(lambda a, b: (np.append(a, b[0]), b))), "keeps train and test apart"),
    (broken(KFold(), first(lambda a, b: (np.append(a, a[:10]), b))), "lists no row twice that it trains"),
    (by.Unrepeated(5), "repeats a row in some train set"),
    (broken(Holdout(ShuffleSplit(5), 0.25), by.draw_one_more), "lists no row twice that it trains"),
    (broken(Bootstrap(5), first(lambda a, b: (a, np.append(b, b[0])))), "lists no row twice that it tests"),
    (by.Relabelled(), "splits as its labels say"),
    (by.Misspelt(), "promises only what"),
    (by.LastSwapped(5), "draws a split alone as it draws it among all"),
    (broken(Holdout(KFold(4), 0.25), by.leave_one_untested), "splits the rows that are not"),
    (broken(KFold(), by.leave_one_untested), "tests every row once"),
    (broken(KFold(), by.learn_less), "trains on every row that it does not test"),
    (broken(ForwardChaining(), by.the_first_rows_twice), "tests no row twice"),
    (broken(ForwardChaining(), by.lose_the_last_row), "tests every row from the first time"),
    (broken(ForwardChaining(), first(lambda a, b: (a, b[:1]))), "tests every row from the first time"),
    (broken(LeaveLastOut(), first(lambda a, b: (b, a))), "trains on what comes before all that"),
    (broken(KFold(), first(lambda a, b: (a, b + 60))), "yields positions of its rows"),
    (broken(KFold(), first(lambda a, b: (a, b.tolist()))), "yields positions of its rows"),
    (broken(Bootstrap(5), first(lambda a, b: (a, b[:0]))), "has a row to train on"),
    (by.OneTooMany(), "yields as many splits as it says"),
    (broken(KFold(), by.shift_each_time), "repeats itself"),
    (by.Seedless(), "obeys the seed"),
    (broken(KFold(), by.draw_globally), "leaves the global random state alone"),
    (broken(KFold(), by.draw_from_python), "leaves the global random state alone"),
    (by.Renaming(), "obeys the seed"),
    (by.Overwriting(), "leaves its inputs alone"),
    (by.SortingLists(), "leaves its inputs alone"),
    (by.ByWidth(), "ignores the container and its index"),
    (by.ByThreads(), "repeats itself"),
    (broken(KFold(), by.remember), "leaves itself alone"),
    (by.ByIndex(), "ignores the container and its index"),
    (broken(StratifiedKFold(), by.by_name), "ignores what classes and groups are called"),
    (by.BySet(), "ignores what classes and groups are called"),
    (by.Tolerant(), "refuses missing values"),
    (broken(Bootstrap(5), by.of_the_count), "keeps earlier splits as they are when more"),
    (broken(KFold(), by.swap_one_row), "makes folds whose sizes differ by at most 1"),
    (broken(StratifiedKFold(), by.swap_one_row), "makes folds whose counts of every class"),
    (broken(SortedStratifiedKFold(), by.swap_top_and_bottom), "makes folds whose counts below any threshold"),
    (broken(BalancedGroupKFold(effort=1), by.swap_one_row), "keeps every group on one side"),
    (by.Uncrossed(BalancedGroupKFold(3, effort=1)), "keeps every level of every entity"),
    (by.Wasteful(BalancedGroupKFold(3, effort=1)), "leaves out rows of entities in different folds"),
    (by.TwoOfAStratum(), "tests at most one group of a stratum"),
    (broken(BalancedGroupKFold(effort=1), by.forget_the_smallest_group), "leaves no fold empty"),
    (by.Partless(), "gives every row a part"),
    (broken(FractionalStratifiedSplit(), by.learn_less), "gives every row a part"),
    (by.Loose(), "makes parts whose sizes"),
    (by.Miscoded({"train": 0.6, "validation": 0.1, "test": 0.3}), "makes parts whose sizes"),
    (by.Classless(), "gives each part its share of every class"),
    (by.Echo(KFold(5), 3), "makes other folds in every repeat"),
    (by.Renumbered(), "keeps the labels that it was given"),
    (by.ByPosition(3), "gives a row with the same key"),
    (broken(ForwardChaining(), first(lambda a, b: (np.append(a, b[-1]), b[:-1]))), "trains on times that lie more"),
    (broken(ForwardChaining(), by.learn_the_row_before), "trains on no row whose label was not known"),
    (broken(PurgedKFold(12), by.learn_the_row_before), "trains on no row whose label overlaps"),
    (broken(PurgedKFold(embargo="2 days"), by.learn_the_row_after), "trains on no row whose label overlaps"),
    (broken(SpatialBlockKFold(block_size=1.5), by.swap_one_row), "keeps every block of the map"),
    (broken(SpatialBlockKFold(3, block_size=4, buffer=1), by.learn_all_the_rest), "trains on no row within the buffer"),
    (broken(SpatialBlockKFold(3, block_size=4, buffer=1), by.learn_less), "trains on no row within the buffer"),
    (broken(CombinatorialPurgedKFold(8, 2), by.forget_a_split), "tests every row once on every path"),
    (by.OneForAll(5), "keeps earlier splits as they are"),
    (broken(Bootstrap(5), by.leave_one_untested), "tests the rows that are left out"),
    (broken(Bootstrap(5), lambda pairs, splitter, rows: [(np.unique(a), b) for a, b in pairs]), "tests the rows that"),
    (broken(Bootstrap(5), by.draw_one_more), "trains on n draws"),
    (broken(StratifiedBootstrap(5), by.swap_a_draw), "draws each class as often"),
    (broken(GroupBootstrap(5), by.draw_one_more), "draws all rows of a group"),
    (broken(ShuffleSplit(5), by.learn_less), "draws as many rows as it says"),
    (broken(StratifiedShuffleSplit(5, test_size=0.5), by.swap_classes), "tests each class's share"),
]


@pytest.mark.parametrize(("splitter", "fault"), FAULTS, ids=[f"{i}: {name}" for i, (_, name) in enumerate(FAULTS)])
def test_a_broken_splitter_is_caught_by_the_check_that_names_its_fault(splitter: Splitter, fault: str) -> None:
    assert any(each.name.startswith(fault) for each in failures(trial_of(splitter, 60)))


def test_every_check_has_caught_something() -> None:
    caught = {each.name for each in CHECKS if any(each.name.startswith(fault) for _, fault in FAULTS)}
    assert {each.name for each in CHECKS} == caught


@pytest.mark.parametrize("splitter", [KFold(), Bootstrap(5), StratifiedKFold(), BalancedGroupKFold(effort=1)], ids=repr)
def test_the_wrapping_itself_breaks_nothing(splitter: Splitter) -> None:
    check_conformance(broken(splitter, lambda pairs, splitter, rows: pairs))


@pytest.mark.parametrize("rest", [0, 1])
def test_a_fault_at_odd_or_at_even_numbers_alone_is_caught(rest: int) -> None:
    def lose_a_row(pairs: by.Pairs, splitter: Splitter, rows: Rows) -> by.Pairs:
        return [(train, test[: test.size - (rows.n % 2 == rest)]) for train, test in pairs]

    with pytest.raises(AssertionError, match=r"with 60 or 61 rows.*tests every row once; ") as said:
        check_conformance(broken(KFold(), lose_a_row), 60)
    assert str(said.value).count("tests every row once") == 1


def test_one_row_more_may_be_refused() -> None:
    halves = np.arange(60) < 30
    check_conformance(PredefinedPairs([(halves, ~halves)]), 60)
