"""Grouped folds and parts, several columns, the report, and the published search."""

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import decide
from evenfold.splitters import BalancedGroupKFold, BalancedGroupSplit, BalancedKFold, SplitError, Stream
from evenfold.splitters.packing.cost import Aim, table_to_pack
from evenfold.splitters.packing.searches import Published
from sklearn.base import clone


def rows_of_groups(seed: int, n: int, n_classes: int, mean: float = 30.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    sizes = np.maximum(1, rng.lognormal(0, 1, n) * mean).astype(int)
    groups = rng.permutation(np.repeat(np.arange(n), sizes))
    mixes = rng.dirichlet(np.full(n_classes, 0.5), n).cumsum(axis=1)
    return groups, (rng.random(groups.size)[:, None] > mixes[groups]).sum(axis=1)


def shares(labels: Any, y: Any) -> Any:
    return np.array([[np.mean(y[labels == f] == c) for c in np.unique(y)] for f in np.unique(labels)])


def test_the_report_is_the_cost_of_the_split_computed_from_its_rows() -> None:
    groups, y = rows_of_groups(0, 40, 3)
    for size_weight, factor in ((1.0, 1.0), ("relative", 16.0)):
        splitter = BalancedGroupKFold(4, size_weight=size_weight)
        labels, report = splitter.assign(None, y, groups), splitter.report(None, y, groups)
        sizes = np.bincount(labels) / y.size
        overall = np.array([np.mean(y == c) for c in np.unique(y)])
        assert report.size_term == pytest.approx(factor * ((sizes - 0.25) ** 2).sum())
        assert report.class_term == pytest.approx(((shares(labels, y) - overall) ** 2).sum())
        assert report.cost == pytest.approx(report.size_term + report.class_term + report.missing)
        assert report == splitter.report(splitter.rows(None, y, groups))
    with pytest.raises(FrozenInstanceError):
        report.cost = 0.0  # type: ignore[misc]


def test_as_many_groups_as_folds_have_one_packing_and_the_report_says_optimal() -> None:
    groups, y = rows_of_groups(1, 25, 2)
    report = BalancedGroupKFold(25).report(None, y, groups)
    assert report.optimal
    assert report.cost > 0.1


def test_numbers_are_balanced_by_quantile() -> None:
    """Groups of different level and 40 heavy-tailed rows: in each fold a tenth of the rows is in each tenth of y."""
    groups = np.arange(6000) % 150
    y = np.random.default_rng(0).pareto(1.5, groups.size) + groups % 7
    labels = BalancedGroupKFold(5).assign(None, y, groups)
    tenths = y.argsort().argsort() * 10 // y.size
    assert np.abs(shares(labels, tenths) - 0.1).max() < 0.01


def test_several_columns_of_groups_are_balanced_at_once() -> None:
    groups, first = rows_of_groups(4, 200, 3)
    second, third = rows_of_groups(5, 200, 2, mean=60)[1], groups % 2
    y = np.column_stack([first, np.resize(second, first.size), third])
    labels = BalancedGroupKFold(4).assign(None, y, groups)
    for column in y.T:
        assert np.ptp(shares(labels, column), axis=0).max() < 0.005


def test_columns_stand_side_by_side_in_the_table() -> None:
    """Two groups; a column of three classes as it is, one of two by its rarer class with weight 2."""
    y = np.array([[0, 7], [1, 7], [2, 7], [0, 8], [0, 7]])
    rows = BalancedGroupKFold(2).rows(None, y, ["a", "a", "a", "b", "b"])
    sizes, table, weights = table_to_pack(rows)
    assert sizes.tolist() == [3, 2]
    assert table.tolist() == [[1, 1, 1, 0], [2, 0, 0, 1]]
    assert weights.tolist() == [1, 1, 1, 2]


def test_many_labels_a_row_are_even_to_a_row_or_two() -> None:
    """With 12 labels of 3 to 40 % on 2,000 rows, no fold's count of a label is 2 rows off its share."""
    rng = np.random.default_rng(0)
    y = (rng.random((2000, 12)) < rng.uniform(0.03, 0.4, 12)).astype(int)
    labels = BalancedKFold(5).assign(None, y)
    counts = np.array([y[labels == f].sum(axis=0) for f in range(5)])
    assert np.abs(counts - y.sum(axis=0) / 5).max() < 2
    assert np.bincount(labels).tolist() == [400] * 5


@pytest.mark.parametrize("n", [11, 30, 64, 203])
def test_sizes_are_exact_whatever_the_labels(n: int) -> None:
    """Sizes differ by at most 1 also where rows are few, all different, or all the same."""
    rng = np.random.default_rng(n)
    for y in (rng.integers(0, 2, (n, 7)), np.eye(n, dtype=int), np.zeros((n, 2), dtype=int)):
        assert np.ptp(np.bincount(BalancedKFold(4).assign(None, y), minlength=4)) <= 1


def test_parts_have_their_codes_their_groups_and_their_shares() -> None:
    groups, y = rows_of_groups(6, 400, 3)
    parts = {"train": 0.6, "validation": 0.15, "test": 0.15, "calibration": 0.1}
    splitter = BalancedGroupSplit(parts)
    labels = splitter.assign(None, y, groups)
    assert {name: code for name, code in splitter.part_codes().items()} == {
        "train": -1,
        "validation": 0,
        "test": -2,
        "calibration": 1,
    }
    for name, code in splitter.part_codes().items():
        assert abs(np.mean(labels == code) - parts[name]) < 0.005
        assert np.abs(shares(labels[labels == code], y[labels == code]) - shares(np.zeros(y.size), y)).max() < 0.005
    assert all(len(set(labels[groups == group].tolist())) == 1 for group in range(400))
    (train, validation), (again, calibration) = splitter.split(None, y, groups)
    assert np.array_equal(train, np.flatnonzero(labels == -1))
    assert np.array_equal(again, train)
    assert (labels[validation] == 0).all()
    assert (labels[calibration] == 1).all()


@pytest.mark.parametrize(
    ("splitter", "message"),
    [
        (BalancedGroupKFold(4), "n_splits=4 with 3 groups; choose 2 or 3"),
        (BalancedGroupSplit({"train": 0.4, "validation": 0.3, "test": 0.2, "more": 0.1}), "parts=4 with 3 groups"),
        (BalancedGroupKFold(2, effort=0), "effort=0; choose a whole number of at least 1"),
        (BalancedGroupKFold(2, size_weight=-1.0), "size_weight=-1.0; choose a number of at least 0"),
        (BalancedGroupKFold(2, optimiser="best"), "optimiser='best'; choose 'evenfold', 'published'"),  # type: ignore[arg-type]
        (BalancedGroupKFold(2, optimiser={"name": "published", "start": "one"}), "start='one'; choose 'greedy'"),
        (BalancedGroupKFold(2, optimiser={"name": "published", "min_cost": -1}), "min_cost=-1; choose a number"),
        (BalancedGroupKFold(2, optimiser={"name": "published", "max_retries": -1}), "max_retries=-1"),
        (BalancedGroupKFold(2, optimiser={"name": "published", "tries": 1}), "optimiser="),
    ],
    ids=repr,
)
def test_what_cannot_be_is_refused_with_what_would_work(splitter: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message.replace("(", r"\(")):
        splitter.assign(None, [0, 1, 0, 1, 0, 1, 0, 1, 1, 0], [0, 0, 1, 1, 2, 2, 2, 0, 1, 2])


def published(**parameters: Any) -> dict[str, Any]:
    return {"name": "published", **parameters}


def test_the_published_search_ends_when_every_neighbour_was_visited() -> None:
    aim = Aim(np.array([[3, 1], [2, 2], [1, 4]]), np.full(2, 0.5), size_weight=1.0)
    assert Published() == Published(start="greedy", min_cost=1e-5, max_retries=100), "where nothing is said"
    bins = Published(min_cost=0.0, max_retries=10**9).pack(aim, Stream(0))
    assert set(bins.tolist()) == {0, 1}
    assert set(Published(start="zero", max_retries=0).pack(aim, Stream(0)).tolist()) == {0, 1}, "and never before"


def test_the_published_search_stops_at_its_minimum_cost() -> None:
    groups, y = rows_of_groups(8, 60, 3)
    loose, tight = (
        BalancedGroupKFold(3, size_weight=1.0, optimiser=published(start="random", min_cost=cost)).report(
            None, y, groups
        )
        for cost in (1e-2, 1e-5)
    )
    assert tight.cost <= 1e-5 < loose.cost <= 1e-2


@pytest.mark.parametrize("strategy", [BalancedGroupKFold(3, rare="error"), BalancedGroupSplit(rare="error")], ids=repr)
def test_a_class_of_fewer_groups_than_folds_is_refused_however_many_rows_it_has(strategy: Any) -> None:
    groups = np.arange(90) // 9
    y, enough = (np.where(groups < n, "rare", "common") for n in (2, 3))
    frame = pd.DataFrame({"key": range(90), "y": y, "group": groups})
    strategy.split(y, enough, groups)
    clone(strategy).set_params(rare="spread").split(y, y, groups)
    for ask in (
        lambda: strategy.split(y, y, groups),
        lambda: decide(frame, strategy=strategy, key="key", target="y", group="group"),
    ):
        with pytest.raises(SplitError, match=r"class 'rare' lies in 2 of 10 groups, fewer than .*3.*; .*rare='spread'"):
            ask()
    with pytest.raises(SplitError, match="rare='sometimes'; choose 'error' or 'spread'"):
        clone(strategy).set_params(rare="sometimes").split(y, y, groups)


def test_most_effort_costs_no_more_than_any_seed_and_says_optimal() -> None:
    """With 18 groups the search is complete; the default's gap is what it leaves on the table."""
    groups, y = rows_of_groups(13, 18, 2)
    best = BalancedGroupKFold(4, effort="max").report(None, y, groups)
    assert best.optimal
    for seed in range(3):
        report = BalancedGroupKFold(4, random_state=seed).report(None, y, groups)
        assert report.lower_bound == pytest.approx(best.cost)
        assert report.gap == pytest.approx(report.cost - best.cost, abs=1e-12)
