"""A manifest replays as scikit-learn's cv: joined by key, and never on rows it does not know."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from evenfold.manifests import decide, read_manifest, write_manifest
from evenfold.splitters import SplitError
from scipy import sparse
from sklearn import model_selection
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate
from tables import rows, table

FRAME = table()
SPEC = {"columns": {"key": "id", "target": "number"}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: pd.concat([f, f.iloc[:2].assign(id=[901, 900])]), "2 rows have no fold (first key 900); use the"),
        (lambda f: f[~f["id"].isin([-50, -43, 6])], "3 rows of the manifest are not in the data (first key -50);"),
        (lambda f: f.replace({"id": {-50: 900}}), "1 row has no fold (first key 900) and 1 row of the manifest is not"),
        (lambda f: pd.concat([f, f.iloc[[4]]], ignore_index=True), "key id is not unique: 1 of 98 rows repeats an"),
        (
            lambda f: f.assign(id=f["id"].astype("Int64").mask(f.index.isin([3, 8]))),
            "key column 'id' is missing (None or NaN) in 2 of 97 rows (first at rows 3, 8);",
        ),
    ],
)
def test_rows_that_were_not_split_are_refused(change: Any, said: str) -> None:
    with pytest.raises(SplitError) as error:
        decide(SPEC, FRAME).as_cv(change(FRAME))
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("shape", [lambda n: sparse.csr_matrix((n, 2)), lambda n: [[0]] * n], ids=["sparse", "list"])
def test_an_X_of_another_length_is_refused(shape: Any) -> None:
    cv = decide(SPEC, FRAME).as_cv(FRAME)
    assert len(list(cv.split(shape(97), range(97)))) == 5
    with pytest.raises(SplitError, match="X has 96 rows and the manifest was joined to 97; call as_cv with the frame"):
        cv.split(shape(96))
    with pytest.raises(SplitError, match="y has 96 rows and the manifest was joined to 97"):
        cv.split(shape(97), range(96))


def test_an_X_in_another_order_is_refused_where_its_index_tells() -> None:
    shuffled = FRAME.sample(frac=1, random_state=1)
    cv = decide(SPEC, FRAME).as_cv(shuffled)
    with pytest.raises(SplitError, match=r"rows of X stand elsewhere than in the frame .* in the order of X"):
        cv.split(FRAME)
    with pytest.raises(SplitError, match="rows of y stand elsewhere"):
        cv.split(shuffled, FRAME["number"])
    cv.split(shuffled[["number"]], shuffled["number"])
    cv.split(shuffled.to_numpy())
    cv.split(FRAME.set_index(np.arange(len(FRAME)) + 10_000))


def test_without_a_key_only_the_same_number_of_rows_is_taken() -> None:
    manifest = decide({"columns": {"target": "number"}}, FRAME)
    assert manifest.keys is None
    X, pairs = FRAME[["number"]].to_numpy(), list(manifest.as_cv(FRAME).split())
    assert sorted(np.concatenate([test for _, test in pairs]).tolist()) == list(range(97))
    for (train, test), (ours, theirs) in zip(manifest.split(X), pairs, strict=True):
        assert (train.tolist(), test.tolist()) == (ours.tolist(), theirs.tolist())
    with pytest.raises(SplitError, match=r"X has .* rows and the manifest was joined to"):
        next(manifest.split(X[:-1]))
    with pytest.raises(SplitError, match=r"holds 97 rows by position \(it has no key column\) and the data have 96;"):
        manifest.as_cv(FRAME.iloc[:-1])


def test_scikit_learn_takes_it_everywhere(tmp_path: Any) -> None:
    X, y = FRAME[["unread", "flag"]], FRAME["number"]
    manifest = decide(SPEC, FRAME)
    cv = manifest.as_cv(FRAME)
    by_hand = [Ridge().fit(X.iloc[a], y.iloc[a]).score(X.iloc[b], y.iloc[b]) for a, b in cv.split()]
    assert cross_val_score(Ridge(), X, y, cv=cv).tolist() == by_hand
    assert cross_validate(Ridge(), X, y, cv=cv)["test_score"].tolist() == by_hand
    assert cross_val_predict(Ridge(), X, y, cv=cv).shape == (97,)
    search = GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]}, cv=cv)
    assert [clone(search).fit(X, y).cv_results_[f"split{i}_test_score"][0] for i in range(5)] == by_hand
    stored = read_manifest(write_manifest(manifest, tmp_path))
    assert cross_val_score(Ridge(), X, y, cv=copy.deepcopy(stored).as_cv(FRAME)).tolist() == by_hand


def test_a_draw_that_comes_out_differently_is_refused() -> None:
    drawn = decide({"columns": {"key": "id"}, "strategy": "Bootstrap", "params": {"n_splits": 3}}, FRAME)
    other = decide({"columns": {"key": "id"}, "strategy": "Bootstrap", "params": {"n_splits": 3}, "seed": 1}, FRAME)
    drawn = replace(drawn, membership=replace(drawn.membership, recorded=other.membership.recorded))
    with pytest.raises(SplitError, match="draw 0 comes out differently from what was recorded"):
        list(drawn.as_cv(FRAME).split())


def test_a_manifest_is_itself_a_cv_where_the_features_hold_the_key() -> None:
    manifest, shuffled = decide(SPEC, FRAME), FRAME.sample(frac=1, random_state=3)
    scores = [
        cross_val_score(Ridge(), frame[["id", "unread"]], frame["number"], cv=cv).tolist()
        for frame, cv in ((shuffled, manifest), (shuffled, manifest.as_cv(shuffled)), (FRAME, manifest.as_cv(FRAME)))
    ]
    assert scores[0] == scores[1] == scores[2]
    assert manifest.get_n_splits() == len(scores[0])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_folds_and_sides_are_had_in_one_call(kind: Any) -> None:
    manifest = decide(SPEC, FRAME)
    shuffled = FRAME.sample(frac=1, random_state=4)
    frame = kind(shuffled)
    folds = manifest.fold_of(frame)
    for fold, (train, test) in enumerate(manifest.as_cv(frame).split()):
        assert np.flatnonzero(folds == fold).tolist() == sorted(test.tolist())
        trained, tested = manifest.train_test(frame, fold)
        assert type(trained) is type(tested) is kind
        assert trained["id"].to_list() == shuffled["id"].iloc[train].to_list()
        assert tested["id"].to_list() == shuffled["id"].iloc[test].to_list()


def test_rows_of_draws_have_no_one_fold() -> None:
    manifest = decide(SPEC | {"strategy": "Bootstrap", "params": {"n_splits": 3}}, FRAME)
    train, test = manifest.train_test(FRAME, 2)
    assert len(train) == len(FRAME)
    assert not set(train["id"]) & set(test["id"])
    with pytest.raises(
        SplitError, match=r"holds draws, and a row has no one fold in them; take train_test\(frame, fold\)"
    ):
        manifest.fold_of(FRAME)
    with pytest.raises(SplitError, match=r"there is no fold 3 in split 1.0; choose 0 to 2"):
        manifest.train_test(FRAME, 3)


@pytest.mark.parametrize(
    ("columns", "strategy"),
    [
        ({"target": "sick"}, "StratifiedKFold"),
        ({"group": "patient"}, "BalancedGroupKFold"),
        ({"time": "day"}, "ForwardChaining"),
        ({}, "Bootstrap"),
    ],
)
def test_rows_to_calibrate_by_are_set_apart_inside_each_training_side(
    columns: Any, strategy: str, tmp_path: Any
) -> None:
    """Whole groups, the last in time, or a class's share; the same for any order of rows, and none that is tested."""
    n = np.arange(240)
    frame = pd.DataFrame({"key": n * 7 % 240, "sick": n % 4 == 0, "patient": n // 5, "day": n // 4})
    spec = {"columns": {"key": "key"} | columns, "strategy": strategy}
    plain, manifest = (decide(spec, frame, calibration=share) for share in (None, 0.25))
    assert (plain.split_id, plain.plan_id != manifest.plan_id) == (manifest.split_id, True)
    cv, shuffled = manifest.as_cv(frame, calibration=True), frame.sample(frac=1, random_state=1)
    again = manifest.as_cv(shuffled, calibration=True)
    for i, ((train, test), (all_of_it, tested)) in enumerate(zip(cv.split(), plain.as_cv(frame).split(), strict=True)):
        calibration = cv.calibration(i)
        assert (shuffled["key"].to_numpy()[again.calibration(i)] == frame["key"].to_numpy()[calibration]).all()
        assert set(test) == set(tested)
        assert set(train).isdisjoint(calibration)
        assert set(train) | set(calibration) == set(all_of_it)
        share = calibration.size / np.unique(all_of_it).size
        assert 0.2 <= share <= 0.3
        if "target" in columns:
            assert frame["sick"].to_numpy()[calibration].mean() == pytest.approx(0.25, abs=0.02)
        if "group" in columns:
            assert set(frame["patient"].to_numpy()[train]).isdisjoint(frame["patient"].to_numpy()[calibration])
        if "time" in columns:
            assert frame["day"].to_numpy()[train].max() < frame["day"].to_numpy()[calibration].min()
    with pytest.raises(SplitError, match="nothing is set apart to calibrate by; name a share"):
        plain.as_cv(frame, calibration=True)
    assert read_manifest(write_manifest(manifest, tmp_path)).as_cv(frame, calibration=True).calibration(0).size


@pytest.mark.parametrize("strategy", [model_selection.TimeSeriesSplit(3), [([0, 1], [2, 3])]], ids=["series", "pairs"])
def test_what_goes_by_the_position_of_rows_is_refused_beside_a_key(strategy: Any) -> None:
    """Rows lie in the order of the key, in which a series would train on its future."""
    with pytest.raises(SplitError, match="goes by the position of rows, and rows with a key lie in its order; leave"):
        decide(rows(40), key="id", target="y", strategy=strategy)


def test_a_splitter_of_scikit_learn_that_ignores_groups_is_refused_beside_a_group() -> None:
    frame = rows(40).assign(g=np.arange(40) // 4)
    assert decide(frame, key="id", group="g", strategy=model_selection.GroupKFold(5)).n_splits == 5
    with pytest.raises(SplitError, match="does not keep groups whole, and the group column 'g' is named"):
        decide(frame, key="id", group="g", strategy=model_selection.KFold(5))
