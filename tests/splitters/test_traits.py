"""What a strategy can do is declared by its class, and asked of the class or of one with parameters."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest
from cases import CASES
from evenfold.splitters import (
    Bootstrap,
    Crossed,
    HashSplit,
    Holdout,
    KFold,
    LabelSplitter,
    LeaveOneGroupOut,
    LeaveOneOut,
    Needs,
    PoissonBootstrap,
    Predefined,
    Repeated,
    Splitter,
    StratifiedKFold,
    all_strategies,
)
from evenfold.splitters.packing.cost import table_to_pack
from evenfold.splitters.packing.pack import DEFAULT_EFFORT, searches_on
from evenfold.splitters.rows import GroupRows
from evenfold.splitters.strategies.given import FromSklearn
from sklearn.base import clone

BY_DEFAULT = [
    strategy()
    for strategy in all_strategies().values()
    if all(p.default is not p.empty for p in inspect.signature(strategy).parameters.values())
]


@pytest.mark.parametrize("strategy", all_strategies().values(), ids=list(all_strategies()))
def test_a_class_can_be_asked_for_every_trait(strategy: type[Splitter]) -> None:
    """No trait of a class is a property object, which would be true whatever it stands for."""
    assert isinstance(strategy.needs, Needs)
    assert isinstance(strategy.promises, frozenset)
    assert isinstance(strategy.version, (int, str))
    assert {
        type(strategy.portable),
        type(strategy.grows),
        type(strategy.shares_out),
        type(strategy.by_group_table),
    } == {bool}
    assert isinstance(strategy.in_memory_because, str)


@pytest.mark.parametrize("splitter", [*BY_DEFAULT, *CASES], ids=repr)
def test_a_strategy_can_be_cloned_copied_and_sent_to_another_process(splitter: Splitter) -> None:
    """As GridSearchCV and joblib do, its defaults included: what comes back has the same parameters."""
    for other in (clone(splitter), copy.deepcopy(splitter), pickle.loads(pickle.dumps(splitter))):
        assert repr(other.get_params()) == repr(splitter.get_params())


@pytest.mark.parametrize("splitter", CASES, ids=repr)
def test_a_strategy_is_no_less_than_its_class_says_where_parameters_refine_nothing(splitter: Splitter) -> None:
    """Only wrappers and what is made of parts differ from what their class says, and the version at high effort."""
    refining = (Repeated, Crossed, Holdout, HashSplit, Predefined, FromSklearn)
    effort = getattr(splitter, "effort", DEFAULT_EFFORT)
    for trait in ("needs", "promises", "version", "portable", "grows", "shares_out", "in_memory_because"):
        same = getattr(splitter, trait) == getattr(type(splitter), trait)
        assert same or isinstance(splitter, refining) or (trait == "version" and searches_on(effort)), trait


def test_a_wrapper_has_the_traits_of_what_it_wraps() -> None:
    """Repeats of what cannot grow cannot grow, and a holdout before scikit-learn's folds is not portable."""
    assert Repeated(StratifiedKFold(3), 2).needs == StratifiedKFold.needs
    assert Repeated(KFold(3), 2).in_memory_because == ""
    assert Holdout(Bootstrap(3)).in_memory_because == Bootstrap.in_memory_because
    assert not Holdout(FromSklearn("sklearn.model_selection:KFold")).portable
    assert Holdout(KFold()).portable


def test_a_subclass_of_what_cannot_grow_cannot_grow() -> None:
    """The trait is inherited, whatever the subclass is called."""

    class Hospitals(LeaveOneGroupOut):
        pass

    assert not Hospitals.grows
    assert not Hospitals().shares_out


ONE_EACH = ("LeaveOneOut", "LeaveOneGroupOut", "StratifiedLeaveOneGroupOut")


def test_what_grows_is_labels_that_have_shares_and_draws_by_key() -> None:
    """A fold per row or group, given labels, and draws that look at all rows cannot grow."""
    growing = {name for name, strategy in all_strategies().items() if strategy.grows}
    labels = {name for name, strategy in all_strategies().items() if strategy.kind == "labels"}
    assert growing == labels - {*ONE_EACH, "Predefined"} | {"PoissonBootstrap"}
    assert PoissonBootstrap.grows
    assert not LeaveOneOut.grows


@pytest.mark.parametrize("splitter", [each for each in CASES if each.by_group_table], ids=repr)
def test_what_is_decided_by_the_table_of_groups_needs_no_rows(splitter: Splitter) -> None:
    """Groups that are known by their counts alone get the labels that their rows get."""
    rng = np.random.default_rng(0)
    groups, y = rng.permutation(np.resize(np.arange(30), 400)), rng.integers(0, 3, 400)
    rows = splitter.rows(np.empty((400, 0)), y if splitter.needs.y != "ignored" else None, groups)
    sizes, table, weights = table_to_pack(rows)
    names = tuple(range(rows.n_groups))
    known = GroupRows(
        400, groups=np.arange(rows.n_groups), group_levels=names, sizes=sizes, table=table, weights=weights
    )
    assert isinstance(splitter, LabelSplitter)
    assert np.array_equal(splitter.decide(known)[rows.groups], splitter.decide(rows))
