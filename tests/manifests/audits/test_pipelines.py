"""A build of features that leaks is told by what moves, and one that does not is silent."""

import sys
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from audited import finding
from evenfold.flows import GateError, evaluate, retrain
from evenfold.flows.cli import app
from evenfold.manifests import decide
from evenfold.manifests.audits.pipelines import audit_pipeline
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.plans import audit_key
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder
from typer.testing import CliRunner

N, MANY, NUMBERS = 600, 1500, list("abcdef")


def rows(n: int = N) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(n, 6)), columns=NUMBERS)
    frame["y"] = (frame["a"] + random.normal(size=n) > 0.8).astype(int)
    frame["city"] = [f"c{code}" for code in random.integers(0, 30, n)]
    frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n) // 20, "D")
    return frame.assign(shop=np.arange(n) % 20, amount=random.gamma(2, 30, n), id=random.permutation(n))


def scaled(frame: pd.DataFrame) -> Any:
    return StandardScaler().fit_transform(frame[NUMBERS])


def selected(frame: pd.DataFrame) -> Any:
    noise = pd.DataFrame(np.random.default_rng(1).normal(size=(N, 400)))[: len(frame)]
    return noise.loc[:, SelectKBest(f_classif, k=8).fit(noise, frame["y"]).get_support()]


def encoded(frame: pd.DataFrame) -> Any:
    return frame[NUMBERS].assign(city=frame.groupby("city")["y"].transform("mean"))


def encoded_in_training(train: pd.DataFrame, test: pd.DataFrame) -> Any:
    means = train.groupby("city")["y"].mean()
    return tuple(side[NUMBERS].assign(city=side["city"].map(means)) for side in (train, test))


def repeated(frame: pd.DataFrame) -> Any:
    rare = frame[frame["y"] == 1]
    return pd.concat([frame[NUMBERS], rare[NUMBERS], rare[NUMBERS]])


def centred(frame: pd.DataFrame) -> Any:
    of = frame.groupby("shop")["amount"]
    return pd.DataFrame({"mean": of.transform(lambda shop: shop.rolling(5, center=True, min_periods=1).mean())})


def past(frame: pd.DataFrame) -> Any:
    of = frame.groupby("shop")["amount"]
    return pd.DataFrame({"mean": of.transform(lambda shop: shop.shift(1).rolling(5, min_periods=1).mean())})


def scaled_by_batch(train: pd.DataFrame, test: pd.DataFrame) -> Any:
    return scaled(train), scaled(test)


def scaled_in_training(train: pd.DataFrame, test: pd.DataFrame) -> Any:
    scaler = StandardScaler().fit(train[NUMBERS])
    return scaler.transform(train[NUMBERS]), scaler.transform(test[NUMBERS])


def stacked(train: pd.DataFrame, test: pd.DataFrame) -> Any:
    model, folds = LogisticRegression(), KFold(5, shuffle=True, random_state=0)
    inside = cross_val_predict(model, train[NUMBERS], train["y"], cv=folds, method="predict_proba")[:, 1]
    outside = model.fit(train[NUMBERS], train["y"]).predict_proba(test[NUMBERS])[:, 1]
    return train[["a"]].assign(score=inside), test[["a"]].assign(score=outside)


def without_outliers(frame: pd.DataFrame, most: float = 90.0) -> Any:
    return frame[frame["amount"] < most][NUMBERS]


def by_row(frame: pd.DataFrame) -> Any:
    return pd.DataFrame({"log": np.log(frame["amount"]), "weekday": frame["day"].dt.weekday, "city": frame["city"]})


FITTED = make_pipeline(
    make_column_transformer((make_pipeline(StandardScaler(), PCA(3)), NUMBERS)), LogisticRegression()
)
OUT_OF_FOLD = make_column_transformer((TargetEncoder(cv=5, random_state=0, shuffle=True), ["city"]))


@pytest.mark.parametrize(
    ("build", "roles", "told"),
    [
        (scaled, {}, {("features_of_others", "note")}),
        (selected, {}, {("target_of_others", "error")}),
        (encoded, {}, {("target_of_others", "error"), ("features_of_others", "note"), ("own_target", "error")}),
        (encoded_in_training, {}, {("own_target", "error")}),
        (repeated, {}, {("rows_made", "error")}),
        (centred, {"time": "day"}, {("features_of_others", "warning")}),
        (scaled_by_batch, {}, {("other_test_rows", "warning")}),
        (without_outliers, {}, {("rows_made", "warning")}),
        (scaled_in_training, {}, set()),
        (stacked, {}, set()),
        (past, {"time": "day"}, set()),
        (centred, {"group": "shop"}, set()),
        (by_row, {}, set()),
        (FITTED, {}, set()),
        (OUT_OF_FOLD, {}, set()),
    ],
)
def test_what_moves_that_a_fold_must_not_see_is_told(build: Any, roles: Any, told: set[tuple[str, str]]) -> None:
    found = audit_pipeline(build, rows(), key="id", target="y", **roles)
    assert {(leak.question, leak.severity) for leak in found} == told, found


def test_small_whole_numbers_lists_and_texts_with_gaps_can_be_changed_and_compared() -> None:
    odd = rows().assign(small=(np.arange(N) % 30 + 97).astype(np.int8), tags=[["a"]] * N)
    odd["note"] = odd["city"].astype("string").where(odd.index % 3 > 0)
    assert audit_pipeline(lambda frame: by_row(frame).join(frame[["small", "note"]]), odd, key="id", target="y") == []


def test_an_audit_warns_of_rows_that_a_build_leaves_out_as_the_build_alone_is_told() -> None:
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, rows())
    for build in (without_outliers, lambda frame, **_: without_outliers(frame)):
        assert finding(manifest, rows(), "build_rows_made", build=build).severity == "warning"


def test_features_that_were_chosen_with_all_targets_are_worth_points() -> None:
    (leak,) = audit_pipeline(selected, rows(), key="id", target="y")
    assert leak.points > 3
    assert "comes or goes" in leak.message


def test_a_build_that_stops_is_told_and_few_rows_are_refused() -> None:
    with pytest.raises(SplitError, match="the build stopped with KeyError"):
        audit_pipeline(lambda frame: frame["nope"], rows(), key="id", target="y")
    answers = {"type NoneType": None, "two columns 'a'": rows()[["a", "a"]]}
    for words, answer in answers.items():
        with pytest.raises(SplitError, match=words):
            audit_pipeline(lambda frame, answer=answer: answer, rows(), key="id", target="y")
    with pytest.raises(SplitError, match="the build stopped with SystemExit: 3"):
        audit_pipeline(lambda frame: sys.exit(3), rows(), key="id", target="y")
    with pytest.raises(SplitError, match="39 rows are too few"):
        audit_pipeline(by_row, rows().head(39), key="id", target="y")


def test_the_command_and_a_flow_that_are_given_a_build_tell_of_it_and_stop_for_it(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the audit's own findings, in the outcome and on the page; kept until the code of the build changes."""
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "own_features.py"
    module.write_text(
        "def build(frame):\n    return frame[['a']].assign(c=frame.groupby('city')['y'].transform('mean'))"
    )
    tree = "sklearn.tree:DecisionTreeClassifier"
    how: dict[str, Any] = {"key": "id", "target": "y", "model": tree, "name": "built", "engine": "plain", "n_splits": 3}
    how["features"] = ["a"]  # of a single one an audit learns nothing but the build's
    plain, asked = (evaluate(rows(MANY), **how, **more) for more in ({}, {"build": "own_features:build"}))
    told = dict.fromkeys(("build_target_of_others", "build_features_of_others", "build_own_target"), "failed")
    found = {finding.check: finding.gate for finding in asked.audit.findings}
    assert found == {finding.check: finding.gate for finding in plain.audit.findings} | told
    assert asked.run_id == plain.run_id
    page = mlflow.artifacts.download_artifacts(
        run_id=asked.run_id, artifact_path="report.html", tracking_uri=home.tracking_uri
    )
    assert "own_features:build: training features move with the targets" in Path(page).read_text(encoding="utf-8")
    with pytest.raises(GateError, match="own_features:build: training features move with the targets"):
        retrain(rows(MANY), **how, build="own_features:build")
    folder, table = str(asked.split.folder), str(asked.split.data)
    ran = CliRunner().invoke(app, ["audit", folder, table, "--pipeline", "own_features:build"])
    assert ran.exit_code == 1
    assert "own_features:build: training features move with the targets of test rows" in " ".join(ran.output.split())
    gates, ignore = ({"EF601": 1}, {"EF602": "of two builds alike", "EF605": "every city is known before"})
    flags = [f"--gate={name}={limit}" for name, limit in gates.items()]
    flags += [f"--ignore={code}={reason}" for code, reason in ignore.items()]
    assert not CliRunner().invoke(app, ["audit", folder, table, "--pipeline", "own_features:build", *flags]).exit_code
    spec = {"strategy": "StratifiedKFold", "gates": gates, "ignore": ignore}
    accepted = evaluate(rows(MANY), spec, **how, build="own_features:build").audit
    assert {finding.check for finding in accepted.ignored} == {"build_features_of_others", "build_own_target"}
    assert accepted.passed["build_target_of_others"].startswith("own_features:build: training features move")
    before, split = audit_key(asked.split, build="own_features:build"), asked.split
    module.write_text("def build(frame):\n    return frame[['a']]")
    monkeypatch.delitem(sys.modules, "own_features")
    assert audit_key(split) == audit_key(plain.split) != before != audit_key(split, build="own_features:build")
    with pytest.raises(SplitError, match="StandardScaler is no function"):
        evaluate(rows(MANY), **how, build=StandardScaler())


def rows_of(seed: int = 0, noise: float = 1.0) -> tuple[pd.DataFrame, np.random.Generator]:
    """Return rows of three numbers and a class that two of them tell something of."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.normal(size=(MANY, 3)), columns=list("abc"))
    frame["y"] = (frame["a"] - frame["b"] + noise * random.normal(size=MANY) > 0).astype(int)
    frame["id"] = [f"K{i:05d}" for i in random.permutation(MANY)]
    return frame, random


def stakes(frame: pd.DataFrame, check: str, **roles: str) -> dict[str, Any]:
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    found = finding(manifest, frame, check, impact=True, **roles)
    assert "At stake:" in found.message
    return dict(found.figures["impact"])


def test_a_feature_that_gives_the_target_away_is_worth_what_the_others_alone_do_not_reach() -> None:
    frame, random = rows_of()
    honest = stakes(frame.assign(copy=frame["y"]), "target_like_features")["mended"]
    frame["paid"] = frame["y"] + random.normal(size=MANY) * 0.3
    found = stakes(frame, "giveaway_features")
    assert found["measure"] == "AUC"
    assert found["as_split"] > 0.98
    assert found["mended"] == pytest.approx(honest, abs=1e-12)
    assert 0.75 < found["mended"] < 0.92


def test_repeated_rows_of_pure_chance_are_worth_all_that_they_seemed_to_tell() -> None:
    random = np.random.default_rng(1)
    once = pd.DataFrame(random.normal(size=(500, 3)), columns=list("abc"))
    once["y"] = random.integers(0, 2, 500)
    frame = pd.concat([once] * 3, ignore_index=True)
    frame["id"] = np.arange(len(frame))
    found = stakes(frame, "duplicate_rows")
    assert found["as_split"] > 0.7
    assert abs(found["mended"] - 0.5) < 0.07


@pytest.mark.parametrize(("check", "roles"), [("unnamed_entities", {}), ("group_in_two_folds", {"group": "device"})])
def test_an_entity_is_worth_what_it_tells_of_its_own_other_rows(check: str, roles: dict[str, str]) -> None:
    frame, random = rows_of()
    device = random.integers(0, 60, MANY)
    frame["device"] = [f"D{code:03d}" for code in device]
    frame["weight"] = random.normal(size=60)[device]  # what the model recognises it by
    frame["y"] = (random.normal(size=60)[device] + 0.3 * random.normal(size=MANY) > 0).astype(int)
    found = stakes(frame, check, **roles)
    assert found["as_split"] > 0.9
    assert found["mended"] < 0.7
