"""Which rows an evaluation is of: those of each value of a column, one run for all; or the known ones of a split."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.estimates import EvaluationError
from evenfold.flows import split
from evenfold.splitters import SplitError
from evenfold.tasks import Home, fit_fold
from evenfold.tasks.record.splits import load_split
from mlflow.tracking import MlflowClient
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from small import RIDGE, SPEC, artifacts, evaluated, runs, small

ROWS = {"a": 40, "few": 1, "same": 40, "twice": 40, "é/b": 60}  # and three rows that name no shop
PIPELINE = make_pipeline(make_column_transformer((OneHotEncoder(), ["shop"]), ("passthrough", ["a"])), Ridge())


def shops() -> pd.DataFrame:
    rows = small(sum(ROWS.values()) + 3)
    rows["shop"] = [name for name, n in ROWS.items() for _ in range(n)] + [None] * 3
    rows.loc[rows["shop"] == "same", "y"] = 7.0
    rows.loc[rows["shop"] == "twice", "id"] = 5
    return rows


def test_each_segment_has_its_split_and_score_or_its_sentence_and_all_are_one_run(prefect_home: Home) -> None:
    """A segment scores as its rows do when they are evaluated alone, and its split is found by its id."""
    made = evaluated(shops(), by="shop", engine="prefect", metrics=["r2"])
    table = made.to_frame().set_index("segment")
    assert dict(table["rows"]) == ROWS | {"": 3}
    failed = {name: words for name, words in table["failed"].items() if words}
    assert list(failed) == ["", "few", "same", "twice"]
    assert "repeat" in failed["twice"]
    assert failed[""] == "these rows name no segment."
    assert [run.info.run_id for run in runs(prefect_home)] == [made.run_id]
    assert {"report.html", "segments.json"} <= artifacts(prefect_home, made.run_id)
    page = MlflowClient(prefect_home.tracking_uri).download_artifacts(made.run_id, "report.html")
    assert all(words in Path(page).read_text(encoding="utf-8") for words in ("é/b", table["split_id"]["é/b"][:12]))
    one = shops().query("shop == 'é/b'").drop(columns="shop")
    alone = evaluated(one, manifest=table["split_id"]["é/b"], spec=None, metrics=["r2"])
    assert (alone.estimates[0].value, alone.split.split_id) == (table["value"]["é/b"], table["split_id"]["é/b"])
    assert evaluated(shops(), by="shop", engine="plain", metrics=["r2"]).run_id == made.run_id


@pytest.mark.parametrize(
    ("rows", "asked", "error", "words"),
    [
        (shops(), {"by": "shp"}, SplitError, "did you mean .shop"),
        (shops(), {"by": "id"}, SplitError, "'id' plays a part in the split"),
        (shops(), {"by": "shop", "on": "holdout", "log_models": "all"}, SplitError, "on and log_models"),
        (shops(), {"by": "shop", "metrics": ["roc_auc"]}, Exception, "roc_auc"),
        (shops(), {"by": "note"}, EvaluationError, "none of 181 segments"),
    ],
)
def test_what_no_segment_can_be_evaluated_by_is_refused(
    home: Home, rows: pd.DataFrame, asked: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        evaluated(rows.head(181), **asked)
    assert asked["by"] == "note" or not runs(home)


@pytest.mark.parametrize("named", [{"model": PIPELINE}, {"features": ["a", "shop"]}, {"exclude": ["shop"]}], ids=str)
def test_a_column_that_the_model_names_is_in_its_segments_too(home: Home, named: dict[str, Any]) -> None:
    made = evaluated(shops().query("shop in ('a', 'é/b')"), by="shop", metrics=["r2"], **named)
    assert [segment.estimate is None for segment in made.segments] == [False, False]


LEFT = r"10 rows have no fold .*40 rows of the manifest are not in the data"


def part() -> pd.DataFrame:
    """Return 59 of the 99 rows that are split, and ten that nobody split."""
    return pd.concat([small().iloc[40:], small().head(10).assign(id=lambda rows: rows["id"] + 1_000)])


def test_an_evaluation_takes_the_known_rows_and_says_how_many_it_leaves_out(home: Home, tmp_path: Any) -> None:
    whole = split(small(), SPEC, engine="plain")
    with pytest.warns(UserWarning, match=LEFT):
        made = evaluated(part(), spec=None, manifest=whole, rows="known", metrics=["r2"])
    assert made.split.split_id == whole.split.split_id
    assert made.split_run_id == whole.run_id
    assert set(made.predictions()["id"]) == set(small()["id"].iloc[40:])
    assert evaluated(small(), spec=None, manifest=whole, metrics=["r2"]).run_id != made.run_id
    part().to_parquet(tmp_path / "part.parquet")
    with pytest.warns(UserWarning, match=LEFT):
        known = load_split.fn(whole.split.split_id, str(tmp_path / "part.parquet"), "known")
    assert fit_fold.fn(known, 0, {**RIDGE, "metrics": ["r2"]}).score.test == made.scores[0].test


def test_other_rows_are_refused_at_once(home: Home, tmp_path: Any) -> None:
    whole = split(small(), SPEC, engine="plain")
    part().to_parquet(tmp_path / "part.parquet")
    with pytest.raises(SplitError, match=LEFT):
        evaluated(part(), spec=None, manifest=whole)
    with pytest.raises(SplitError, match=LEFT):
        load_split.fn(whole.split.split_id, str(tmp_path / "part.parquet"))
    with pytest.raises(SplitError, match="rows is of no use for a split that is decided now"):
        evaluated(small(), rows="known")
