"""How even a split is, in figures that can be worked out by hand or with scipy."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import CASES
from evenfold.manifests import Manifest, decide, extend, measure, read_header, write_manifest
from evenfold.manifests.membership import Labels
from evenfold.splitters import SplitError, Splitter
from scipy.stats import ks_2samp, wasserstein_distance
from tables import quick_spec_of, table

SHAPES = ("KFold", "SortedStratifiedKFold", "BalancedGroupSplit", "GroupShuffleSplit", "Bootstrap", "ForwardChaining")
NAMED = [*{type(splitter): splitter for splitter in CASES if type(splitter).__name__ in SHAPES}.values()]


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
        assert report.worst["size"] == 0.5
        assert (report.n_rows, report.n_splits, report.n_measured) == (6, 3, 3)
        assert report.target is None
        assert {fold.groups for fold in report.folds} == {None}


@pytest.mark.parametrize("classes", [["no", "yes"], [0, 1], [False, True]])
def test_class_shares_by_hand(classes: list[Any]) -> None:
    """Half the rows are yes; fold 0 has two thirds of them, fold 1 a third: both a sixth off."""
    manifest, frame = of_folds([0, 0, 0, 1, 1, 1], target=[classes[i] for i in (1, 1, 0, 0, 0, 1)])
    report = measure(manifest, frame)
    assert report.classes == [str(each) for each in classes]
    assert report.shares == [0.5, 0.5]
    assert [fold.shares for fold in report.folds] == [pytest.approx([1 / 3, 2 / 3]), pytest.approx([2 / 3, 1 / 3])]
    assert report.worst["size"] == 0.0
    assert report.worst["class_share"] == pytest.approx(1 / 6)


def test_a_fold_without_rows_has_no_shares_of_classes() -> None:
    """As it has no mean: two even folds beside it are even, and no gap of 50 points is told."""
    manifest, frame = of_folds([0, 0, 2, 2], target=["yes", "no", "yes", "no"])
    report = measure(manifest, frame)
    assert [(fold.rows, fold.shares) for fold in report.folds] == [(2, [0.5, 0.5]), (0, None), (2, [0.5, 0.5])]
    assert report.worst["class_share"] == 0.0
    numbers, frame = of_folds([0, 0, 2, 2], target=[1.5, 2.5, 1.5, 2.5])
    assert measure(numbers, frame).worst["ks"] == 0.0
    assert measure(numbers, frame).folds[1].ks is None


def test_distributions_by_hand() -> None:
    """Of 0.5, 1.5, 2.5, 10.5 fold 0 holds the first two."""
    manifest, frame = of_folds([0, 0, 1, 1], target=[0.5, 1.5, 2.5, 10.5])
    report = measure(manifest, frame)
    low, high = report.folds
    sd = np.std([0.0, 1.0, 2.0, 10.0], ddof=1)
    assert (low.mean, high.mean) == (1.0, 6.5)
    assert (low.sd, high.sd) == (pytest.approx(math.sqrt(0.5)), pytest.approx(math.sqrt(32)))
    assert (low.ks, high.ks) == (0.5, 0.5)
    # Below 1.5: a half against a quarter, for 1 unit; below 2.5: all against a half, 1; below 10.5: against 3/4, 8.
    assert low.wasserstein == pytest.approx(0.25 * 1 + 0.5 * 1 + 0.25 * 8)
    assert high.wasserstein == pytest.approx(0.25 * 1 + 0.5 * 1 + 0.25 * 8)
    assert [report.worst[name] for name in ("size", "ks")] == [0.0, 0.5]
    assert report.worst["wasserstein"] == pytest.approx(2.75)
    assert report.worst["mean_in_sd"] == pytest.approx((6.0 - 3.25) / sd)


@pytest.mark.parametrize("splitter", NAMED, ids=repr)
def test_distances_are_those_of_scipy_and_the_worst_is_the_worst_of_the_folds(splitter: Splitter) -> None:
    frame = table(92)
    frame["number"] = frame["number"].round(1)
    spec = quick_spec_of(splitter, target="number" if splitter.needs.y in ("ignored", "numbers", "any") else "label")
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
        assert fold.sd == pytest.approx(y[test].std(ddof=1))
    places, mean = [*report.folds, *report.parts], np.mean([fold.rows for fold in report.folds])
    sides = [(p.rows, p.wanted or mean) for p in places]
    sides += [(fold.train, fold.wanted_train) for fold in report.folds if fold.train and fold.wanted_train]
    assert report.worst["size"] == pytest.approx(max(abs(rows / wanted - 1) for rows, wanted in sides))
    if report.shares is not None:
        gaps = [np.abs(np.subtract(place.shares, report.shares)).max() for place in places]
        assert report.worst["class_share"] == pytest.approx(max(gaps))
    else:
        for name in ("ks", "wasserstein"):
            assert report.worst[name] == max(getattr(place, name) for place in places)
        means = [abs(place.mean - y.mean()) for place in places]
        assert report.worst["mean_in_sd"] == pytest.approx(max(means) / y.std(ddof=1))
    for name, least in report.reachable.items():
        assert least <= report.worst[name] + 1e-12, name


def test_groups_are_counted() -> None:
    manifest, frame = of_folds([0, 0, 0, 1, 1, 1], group=list("aabccd"))
    assert [fold.groups for fold in measure(manifest, frame).folds] == [2, 2]


def test_a_target_of_one_value_has_no_distance() -> None:
    manifest, frame = of_folds([0, 0, 1, 1], target=[2.5] * 4)
    worst = measure(manifest, frame).worst
    assert [worst[name] for name in ("size", "ks", "wasserstein", "mean_in_sd")] == [0.0] * 4


def test_a_large_offset_hides_nothing() -> None:
    near = of_folds([0, 0, 1, 1], target=[0.5, 1.5, 2.5, 10.5])
    far = of_folds([0, 0, 1, 1], target=[x + 1e9 for x in (0.5, 1.5, 2.5, 10.5)])
    worst, shifted = measure(*near).worst, measure(*far).worst
    for name in ("size", "ks", "wasserstein", "mean_in_sd"):
        assert shifted[name] == pytest.approx(worst[name], rel=1e-6)


@pytest.mark.parametrize("hole", [np.nan, None, np.inf])
def test_a_target_with_a_hole_is_refused(hole: Any) -> None:
    manifest, frame = of_folds([0, 0, 1, 1], target=[0.0, 1.0, 2.0, 10.0])
    frame = frame.assign(target=frame["target"].astype(object).mask(frame["id"] == 2, hole).astype(float))
    with pytest.raises(
        SplitError, match=r"'target' is (missing|infinite) .*in 1 of 4 rows \(first at row 1"
    ) as refused:
        measure(manifest, frame)
    assert "wait" not in str(refused.value), "they are decided"


def test_a_part_is_measured_against_what_was_asked() -> None:
    """A test part of 2 % that whole groups make 4 % deviates by 100 %, though it is the only tested part."""
    frame = pd.DataFrame({"id": range(100), "g": np.repeat(range(25), 4), "y": np.arange(100) % 2})
    columns = {"key": "id", "group": "g", "target": "y"}
    parts = {"parts": {"train": 0.98, "test": 0.02}}
    report = measure(decide({"columns": columns, "strategy": "BalancedGroupSplit", "params": parts}, frame), frame)
    assert [(fold.rows, fold.wanted) for fold in report.folds] == [(4, pytest.approx(2.0))]
    assert [(part.name, part.rows, part.wanted) for part in report.parts] == [("train", 96, pytest.approx(98.0))]
    assert report.worst["size"] == pytest.approx(1.0)


def test_locked_rows_are_a_part() -> None:
    frame = table(100)
    spec = {"columns": {"key": "id", "target": "label"}, "strategy": "StratifiedKFold", "holdout": 0.2}
    report = measure(decide(spec, frame), frame)
    assert [(part.name, part.wanted) for part in report.parts] == [("locked", pytest.approx(20.0))]
    assert sum(fold.rows for fold in report.folds) + report.parts[0].rows == 100
    assert len(report.parts[0].shares) == len(report.classes)


def test_rows_out_of_use_are_in_no_figure() -> None:
    frame = pd.DataFrame({"id": range(40), "y": np.arange(40) / 3})
    spec = {"columns": {"key": "id", "target": "y"}, "strategy": "KFold", "params": {"n_splits": 2}}
    left = frame.iloc[:37]
    report = measure(extend(decide(spec, frame), left).manifest, left)
    assert report.mean == pytest.approx(left["y"].mean())
    assert report.sd == pytest.approx(left["y"].std(ddof=1))
    assert sum(fold.rows for fold in report.folds) == report.n_rows == 37


def test_columns_to_stratify_by_are_measured() -> None:
    frame = pd.DataFrame({"id": range(120), "sex": ["f", "m"] * 60, "site": np.repeat(list("abc"), 40)})
    columns = {"key": "id", "stratify": ["sex", "site"]}
    manifest = decide({"columns": columns, "strategy": "BalancedKFold", "params": {"n_splits": 4}}, frame)
    report = measure(manifest, frame)
    by_hand = {
        name: max(
            abs((frame[name].to_numpy()[test] == level).mean() - (frame[name] == level).mean())
            for _, test in manifest.pairs()
            for level in set(frame[name])
        )
        for name in columns["stratify"]
    }
    assert report.strata == pytest.approx(by_hand)
    assert report.worst["stratum_share"] == pytest.approx(max(by_hand.values()))


def test_draws_of_groups_say_how_unevenly_groups_are_tested() -> None:
    frame = pd.DataFrame({"id": range(60), "g": np.arange(60) // 5})
    spec = {"strategy": "GroupShuffleSplit", "params": {"n_splits": 20}, "columns": {"key": "id", "group": "g"}}
    manifest = decide(spec | {"holdout": 0.2}, frame)
    tested = [set(frame["g"].to_numpy()[test]) for _, test in manifest.pairs()]
    often = [sum(g in groups for groups in tested) / 20 for g in range(12)]
    often = [share for g, share in enumerate(often) if manifest.in_use.column()[5 * g] == 0]
    report = measure(manifest, frame)
    assert report.picks == (min(often), max(often))
    assert report.worst["picks"] == pytest.approx(max(often) - min(often))


def test_draws_are_held_against_the_sizes_that_were_asked() -> None:
    frame = pd.DataFrame({"id": range(1000), "g": np.arange(1000) // 40})
    spec: dict[str, Any] = {"columns": {"key": "id", "group": "g"}, "strategy": "GroupShuffleSplit"}
    few = spec | {"params": {"n_splits": 3, "test_size": 0.02}}
    report = measure(decide(few, frame), frame)
    assert [(fold.rows, fold.wanted, fold.train) for fold in report.folds] == [(40, 20.0, 960)] * 3
    assert report.worst["size"] == pytest.approx(1.0)
    assert "size" not in report.reachable
    half = spec | {"params": {"n_splits": 3, "test_size": 0.2, "train_size": 0.1}}
    sided = measure(decide(half, frame), frame)
    assert {fold.wanted_train for fold in sided.folds} == {100.0}
    assert sided.worst["size"] == pytest.approx(max(abs(fold.train - 100) / 100 for fold in sided.folds if fold.train))


def test_merged_folds_are_measured_against_what_was_asked(tmp_path: Path) -> None:
    """89 and 11 of a hundred folds are 89 % and 11 % in the manifest, and their sizes are as asked."""
    frame = pd.DataFrame({"id": range(700), "y": np.random.default_rng(1).gamma(2.0, size=700)})
    strategy = {"strategy": "FractionalStratifiedSplit", "params": {"parts": {"train": 89, "test": 11}}}
    made = decide({"name": "merged", "columns": {"key": "id", "target": "y"}, **strategy}, frame)
    parts = {
        part["name"]: (part["share"], part["code"]) for part in read_header(write_manifest(made, tmp_path))["parts"]
    }
    assert parts == {"train": (0.89, -1), "test": (0.11, 0)}
    assert measure(made, frame).worst["size"] == 0.0
