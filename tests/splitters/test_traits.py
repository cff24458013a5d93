"""What a strategy can do is declared by its class, and asked of the class or of one with parameters."""

import copy
import inspect
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import CASES
from evenfold.manifests import decide, write_manifest
from evenfold.splitters import (
    BalancedGroupKFold,
    BalancedKFold,
    ForwardChaining,
    HashSplit,
    Holdout,
    KFold,
    LeaveOneGroupOut,
    PredefinedPairs,
    Repeated,
    SplitError,
    Splitter,
    StratifiedKFold,
    all_strategies,
)
from evenfold.splitters.packing.cost import GroupRows, table_to_pack
from evenfold.splitters.strategies.given import FromSklearn
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score

BY_DEFAULT = [
    strategy()
    for strategy in all_strategies().values()
    if all(p.default is not p.empty for p in inspect.signature(strategy).parameters.values())
]


@pytest.mark.parametrize("splitter", [*BY_DEFAULT, *CASES], ids=repr)
def test_a_strategy_can_be_cloned_copied_and_sent_to_another_process(splitter: Splitter) -> None:
    for other in (clone(splitter), copy.deepcopy(splitter), pickle.loads(pickle.dumps(splitter))):
        assert repr(other.get_params()) == repr(splitter.get_params())


def test_a_wrapper_has_the_traits_of_what_it_wraps() -> None:
    assert Repeated(StratifiedKFold(3), 2).needs == StratifiedKFold.needs
    own = type("Own", (KFold,), {"part_codes": lambda self: {"train": -1, "a": 0, "b": 1}})  # parts without shares
    assert Repeated(own(), 2).part_codes() == own().part_codes()
    assert not Holdout(FromSklearn("sklearn.model_selection:KFold")).portable
    assert Holdout(KFold()).portable


def test_a_subclass_of_what_cannot_grow_cannot_grow() -> None:
    class Hospitals(LeaveOneGroupOut):
        pass

    assert not Hospitals.grows
    assert not Hospitals().shares_out


ONE_EACH = ("LeaveOneOut", "LeaveOneGroupOut", "StratifiedLeaveOneGroupOut")


def test_what_grows_is_labels_that_have_shares_and_draws_by_key() -> None:
    growing = {name for name, strategy in all_strategies().items() if strategy.grows}
    labels = {name for name, strategy in all_strategies().items() if strategy.kind == "labels"}
    assert growing == labels - {*ONE_EACH, "TimeSplit"} | {"PoissonBootstrap"}


@pytest.mark.parametrize("splitter", [each for each in CASES if each.by_group_table], ids=repr)
def test_what_is_decided_by_the_table_of_groups_needs_no_rows(splitter: Splitter) -> None:
    rng = np.random.default_rng(0)
    groups, y = rng.permutation(np.resize(np.arange(24), 400)), rng.integers(0, 3, 400)
    rows = splitter.rows(np.empty((400, 0)), y if splitter.needs.y != "ignored" else None, groups)
    sizes, table, weights = table_to_pack(rows)
    known = GroupRows(400, groups=np.arange(rows.n_groups), sizes=sizes, table=table, weights=weights)
    assert np.array_equal(splitter.assign(known)[rows.groups], splitter.assign(rows))


X, Y = np.zeros((30, 1)), np.arange(30) % 2
GROUPS, TIMES = {"groups": np.arange(30) // 3}, {"time": np.arange(30) // 2}


@pytest.mark.parametrize(
    ("splitter", "columns"),
    [
        (BalancedGroupKFold(3), GROUPS),
        (LeaveOneGroupOut(), GROUPS),
        (Holdout(BalancedGroupKFold(3)), GROUPS),
        (Repeated(BalancedGroupKFold(3), 2), GROUPS),
        (ForwardChaining(3), TIMES),
        (ForwardChaining(3), TIMES | GROUPS),
        (HashSplit(3), {"key": np.arange(30)}),
    ],
)
def test_scikit_learn_hands_a_strategy_the_columns_that_it_needs(splitter: Splitter, columns: dict[str, Any]) -> None:
    with config_context(enable_metadata_routing=True):
        scores = cross_val_score(DummyClassifier(), X, Y, cv=splitter, params=columns)
        search = GridSearchCV(DummyClassifier(), {"strategy": ["prior"]}, cv=splitter).fit(X, Y, **columns)
    assert scores.size == search.n_splits_ == len(list(splitter.split(X, Y, **columns)))


NUMPY: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("StratifiedKFold", {"n_splits": np.int64(4)}, {"n_splits": 4}),
    ("BalancedGroupKFold", {"n_splits": np.uint8(4), "effort": np.uint8(20)}, {"n_splits": 4, "effort": 20}),
    ("StratifiedShuffleSplit", {"test_size": np.float32(0.2)}, {"test_size": 0.2}),
    ("FractionalStratifiedSplit", {"parts": {"train": np.int64(89), "t": np.int64(11)}},
     {"parts": {"train": 89, "t": 11}}),
    ("Repeated", {"strategy": {"strategy": "KFold", "params": {"n_splits": np.int8(3)}}, "n_repeats": np.int64(2)},
     {"strategy": {"strategy": "KFold", "params": {"n_splits": 3}}, "n_repeats": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "given", "plain"), NUMPY, ids=[case[0] for case in NUMPY])
def test_numbers_of_numpy_are_numbers(
    strategy: str, given: dict[str, Any], plain: dict[str, Any], tmp_path: Path
) -> None:
    splitter = all_strategies()[strategy](**given)
    assert repr(clone(splitter)) == repr(all_strategies()[strategy](**plain))
    rows = pd.DataFrame({"k": range(100), "g": np.arange(100) // 4, "y": np.arange(100) % 3})
    columns = {"key": "k", "group": "g"} if splitter.needs.groups else {"key": "k"}
    asked = {"columns": columns | {"target": "y"}, "strategy": strategy, "params": given, "seed": np.int64(3)}
    manifest = decide(asked | {"holdout": np.float32(0.1)}, rows)
    assert manifest.plan_id == decide(asked | {"params": plain, "seed": 3, "holdout": 0.1}, rows).plan_id
    write_manifest(manifest, tmp_path / "split")


OWN = type("Own", (KFold,), {"parts": 3})()  # what a team's own strategy may call a number
ODD = [PredefinedPairs(5), PredefinedPairs([1, 2]), BalancedKFold(effort=np.arange(2)), OWN]


@pytest.mark.parametrize("splitter", ODD)
def test_a_parameter_of_another_kind_is_answered_in_a_sentence(splitter: Splitter) -> None:
    with pytest.raises(SplitError, match=r"given_pairs|effort|parts=3"):
        list(splitter.split(np.zeros(30)))


@pytest.mark.parametrize("place", ["crossed.Crossed", "kfold.Repeated", "grouped.LeaveOneGroupOut"])
def test_a_stored_model_finds_a_strategy_where_it_lay_when_it_was_kept(place: str) -> None:
    module, _, name = place.partition(".")
    assert getattr(import_module(f"evenfold.splitters.strategies.{module}"), name).__name__ == name
