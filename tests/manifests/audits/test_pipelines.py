"""A build of features that leaks is told by what moves, and one that does not is silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import decide, write_manifest
from evenfold.manifests.audits.pipelines import audit_pipeline
from evenfold.splitters import SplitError
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder

N, NUMBERS = 600, list("abcdef")


def rows() -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(N, 6)), columns=NUMBERS)
    frame["y"] = (frame["a"] + random.normal(size=N) > 0.8).astype(int)
    frame["city"] = [f"c{code}" for code in random.integers(0, 30, N)]
    frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(N) // 20, "D")
    return frame.assign(shop=np.arange(N) % 20, amount=random.gamma(2, 30, N), id=random.permutation(N))


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
        (scaled_in_training, {}, set()),
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


def test_features_that_were_chosen_with_all_targets_are_worth_points() -> None:
    (leak,) = audit_pipeline(selected, rows(), key="id", target="y")
    assert leak.points > 3
    assert "comes or goes" in leak.message


def test_a_build_that_stops_is_told_and_few_rows_are_refused() -> None:
    with pytest.raises(SplitError, match="the build stopped with KeyError"):
        audit_pipeline(lambda frame: frame["nope"], rows(), key="id", target="y")
    with pytest.raises(SplitError, match="39 rows are too few"):
        audit_pipeline(by_row, rows().head(39), key="id", target="y")


def test_the_command_asks_a_build_by_its_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1 where it leaks."""
    from evenfold.flows.cli import app
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("our_features.py").write_text("def build(frame):\n    return frame[['a']] - frame[['a']].mean()\n")
    frame = rows()
    frame.to_parquet("rows.parquet")
    folder = write_manifest(decide({"columns": {"key": "id", "target": "y"}}, frame), tmp_path)
    ran = CliRunner().invoke(app, ["audit", str(folder), "rows.parquet", "--pipeline", "our_features:build"])
    assert ran.exit_code == 0, ran.output
    assert "note: training features move with the features of test rows: 1 column" in ran.output.replace("\n", " ")
