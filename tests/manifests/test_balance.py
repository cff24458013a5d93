"""How even a split is, in figures that can be worked out by hand or with scipy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import CASES
from evenfold.manifests import BalanceReport, Manifest, decide, measure
from evenfold.manifests.membership import Labels
from evenfold.splitters import SplitError, Splitter
from scipy.stats import ks_2samp, wasserstein_distance
from tables import spec_of, table

NAMED = [splitter for splitter in CASES if spec_of(splitter) is not None]


def of_folds(folds: list[int], **columns: Any) -> tuple[Manifest, pd.DataFrame]:
    """Return a manifest with these folds, and the frame they are of, with its rows the other way round."""
    frame = pd.DataFrame({"id": range(len(folds)), **columns})
    roles = {"key": "id", **{role: role for role in ("target", "group") if role in columns}}
    strategy = {"strategy": "BalancedGroupKFold"} if "group" in columns else {"strategy": "KFold"}
    manifest = decide({"columns": roles, **strategy, "params": {"n_splits": 2}}, frame)
    return replace(manifest, membership=Labels.of(np.array(folds, np.int16), manifest.splitter)), frame.iloc[::-1]


def test_sizes_by_hand() -> None:
    """Folds of 3, 2 and 1 rows: the largest is half as large again as the mean of 2."""
    manifest, frame = of_folds([0, 0, 0, 1, 1, 2])
    for data in (None, frame):
        report = measure(manifest, data)
        assert [fold.rows for fold in report.folds] == [3, 2, 1]
        assert report.worst == {"size": 0.5}
        assert (report.n_rows, report.n_splits, report.n_measured) == (6, 3, 3)
        assert report.target is None
        assert {fold.groups for fold in report.folds} == {None}


def test_class_shares_by_hand() -> None:
    """Half the rows are yes; fold 0 has two thirds of them, fold 1 a third: both a sixth off."""
    manifest, frame = of_folds([0, 0, 0, 1, 1, 1], target=["yes", "yes", "no", "no", "no", "yes"])
    report = measure(manifest, frame)
    assert report.classes == ["no", "yes"]
    assert report.shares == [0.5, 0.5]
    assert [fold.shares for fold in report.folds] == [pytest.approx([1 / 3, 2 / 3]), pytest.approx([2 / 3, 1 / 3])]
    assert report.worst == {"size": 0.0, "class_share": pytest.approx(1 / 6)}


@pytest.mark.parametrize("values", [[1, 1, 0, 0, 0, 1], [True, True, False, False, False, True]])
def test_integers_and_booleans_of_few_values_are_classes(values: list[Any]) -> None:
    """They are named as they read."""
    manifest, frame = of_folds([0, 0, 0, 1, 1, 1], target=values)
    report = measure(manifest, frame)
    assert report.classes in (["0", "1"], ["False", "True"])
    assert report.worst["class_share"] == pytest.approx(1 / 6)


def test_distributions_by_hand() -> None:
    """Of 0, 1, 2, 10 fold 0 holds 0 and 1, fold 1 holds 2 and 10."""
    manifest, frame = of_folds([0, 0, 1, 1], target=[0.0, 1.0, 2.0, 10.0])
    report = measure(manifest, frame)
    low, high = report.folds
    sd = np.std([0.0, 1.0, 2.0, 10.0])
    assert (low.mean, high.mean) == (0.5, 6.0)
    assert (low.sd, high.sd) == (pytest.approx(math.sqrt(0.5)), pytest.approx(math.sqrt(32)))
    assert (low.ks, high.ks) == (0.5, 0.5)
    # Below 1: a half against a quarter, for 1 unit; below 2: all against a half, 1; below 10: all against 3/4, 8.
    assert low.wasserstein == pytest.approx(0.25 * 1 + 0.5 * 1 + 0.25 * 8)
    assert high.wasserstein == pytest.approx(0.25 * 1 + 0.5 * 1 + 0.25 * 8)
    assert report.worst == {
        "size": 0.0,
        "ks": 0.5,
        "wasserstein": pytest.approx(2.75),
        "mean_in_sd": pytest.approx((6.0 - 3.25) / sd),
    }


@pytest.mark.parametrize("splitter", NAMED, ids=repr)
def test_distances_are_those_of_scipy(splitter: Splitter) -> None:
    """KS and Wasserstein of every fold against all rows, heavy tail and ties included."""
    frame = table(150)
    frame["number"] = frame["number"].round(1)
    spec = spec_of(splitter, target="number" if splitter.needs.y in ("ignored", "numbers", "any") else "label")
    assert spec is not None
    manifest = decide(spec, frame)
    report = measure(manifest, frame.sample(frac=1, random_state=1))
    y = frame.sort_values("id")[spec["columns"]["target"]].to_numpy()
    for fold, (_, test) in zip(report.folds, manifest.pairs(), strict=True):
        assert fold.rows == test.size
        if y.dtype.kind != "f":
            shares = [np.mean(y[test] == level) for level in np.unique(y)]
            assert fold.shares == pytest.approx(shares)
            continue
        assert fold.ks == pytest.approx(ks_2samp(y[test], y).statistic, abs=1e-12)
        assert fold.wasserstein == pytest.approx(wasserstein_distance(y[test], y), rel=1e-9)
        assert fold.mean == pytest.approx(y[test].mean())
        assert fold.sd == (pytest.approx(y[test].std(ddof=1)) if test.size > 1 else None)


@pytest.mark.parametrize("splitter", NAMED, ids=repr)
def test_the_worst_is_the_worst_of_the_folds(splitter: Splitter) -> None:
    """Each figure of ``worst`` is reached by a fold, and passed by none."""
    frame = table(150)
    report = measure(decide(spec_of(splitter), frame), frame)
    sizes = np.array([fold.rows for fold in report.folds])
    assert report.worst["size"] == pytest.approx(max(abs(sizes / sizes.mean() - 1)))
    if report.shares is not None:
        gaps = [np.abs(np.subtract(fold.shares, report.shares)).max() for fold in report.folds]
        assert report.worst["class_share"] == pytest.approx(max(gaps))
    else:
        for name in ("ks", "wasserstein"):
            assert report.worst[name] == max(getattr(fold, name) for fold in report.folds)
        y = frame["number"]
        assert report.worst["mean_in_sd"] == pytest.approx(
            max(abs(fold.mean - y.mean()) for fold in report.folds) / y.std(ddof=0)
        )


def test_groups_are_counted() -> None:
    """Four groups of unlike size, two and two."""
    manifest, frame = of_folds([0, 0, 0, 1, 1, 1], group=list("aabccd"))
    assert [fold.groups for fold in measure(manifest, frame).folds] == [2, 2]


def test_a_promise_shows_in_the_figures() -> None:
    """Sorted stratification keeps KS within two rows of a fold's size; random folds do not."""
    frame = table(1000)
    columns = {"key": "id", "target": "number"}
    even = measure(decide({"columns": columns}, frame), frame)
    random = measure(decide({"columns": columns, "strategy": "KFold"}, frame), frame)
    assert even.worst["ks"] <= 2 / 200 < random.worst["ks"]


def test_of_many_draws_the_first_200_are_measured() -> None:
    """And the report says so."""
    frame = table(30)
    spec = {"columns": {"key": "id", "target": "number"}, "strategy": "Bootstrap", "params": {"n_splits": 201}}
    report = measure(decide(spec, frame), frame)
    assert (report.n_splits, report.n_measured, len(report.folds)) == (201, 200, 200)


def test_a_target_of_one_value_has_no_distance() -> None:
    """Nothing is divided by its zero deviation."""
    manifest, frame = of_folds([0, 0, 1, 1], target=[2.5] * 4)
    assert measure(manifest, frame).worst == {"size": 0.0, "ks": 0.0, "wasserstein": 0.0, "mean_in_sd": 0.0}


def test_a_large_offset_hides_nothing() -> None:
    """A target far from zero has the distances of one that is near."""
    near = of_folds([0, 0, 1, 1], target=[0.0, 1.0, 2.0, 10.0])
    far = of_folds([0, 0, 1, 1], target=[x + 1e9 for x in (0.0, 1.0, 2.0, 10.0)])
    for name, value in measure(*near).worst.items():
        assert measure(*far).worst[name] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("hole", [np.nan, None, np.inf])
def test_a_target_with_a_hole_is_refused(hole: Any) -> None:
    """Also where the strategy did not read it."""
    manifest, frame = of_folds([0, 0, 1, 1], target=[0.0, 1.0, 2.0, 10.0])
    frame = frame.assign(target=frame["target"].astype(object).mask(frame["id"] == 2, hole).astype(float))
    with pytest.raises(
        SplitError, match=r"'target' is (missing \(None or NaN\)|infinite) in 1 of 4 rows \(first at row 1"
    ):
        measure(manifest, frame)


def test_a_report_survives_json() -> None:
    """What is logged is what is read."""
    frame = table()
    report = measure(decide({"columns": {"key": "id", "target": "number"}}, frame), frame)
    assert BalanceReport.model_validate_json(report.model_dump_json()) == report
