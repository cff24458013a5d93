"""What a person meets on MLflow's own pages: names, descriptions, charts, models, and one query that ranks them."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.flows import Evaluation, evaluate, split, tune
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.record.entries import MOST_FOLDS
from evenfold.tasks.record.reading import leaderboard
from mlflow.tracking import MlflowClient
from small import compared

RIDGE = "sklearn.linear_model:Ridge"


def rows(n: int = 99) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(n), "a": draw.normal(size=n), "g": np.arange(n) // 6})
    return frame.assign(y=frame["a"] + draw.normal(size=n), c=np.where(frame["id"] % 3, "big|part", "small"))


def evaluated(data: Any = None, alpha: float = 1.0, **asked: Any) -> Evaluation:
    scored = ["r2", "neg_mean_absolute_error"]
    model = {"estimator": RIDGE, "features": ["a"], "params": {"alpha": alpha}, "metrics": scored}
    named: dict[str, Any] = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 3, "name": "rows"}
    return evaluate(rows() if data is None else data, model=model, engine="plain", **(named | asked))


def test_a_run_page_says_what_a_person_wants_to_know(home: Home) -> None:
    """Its name, verdict, scores with errors as they are read, who ran what; links that open the training pages."""
    made = evaluated()
    client = MlflowClient(home.tracking_store)
    run, split_run = client.get_run(made.run_id), client.get_run(made.split_run_id)
    assert (run.info.run_name, split_run.info.run_name) == ("Ridge @ rows 1.0", "rows 1.0 split")
    r2 = np.array([score.test["r2"] for score in made.scores])
    assert [run.data.metrics[f"{name}/r2"] for name in ("mean", "sd")] == pytest.approx([r2.mean(), r2.std(ddof=1)])
    note = run.data.tags["mlflow.note.content"]
    assert "| MAE | cross-validation | 0." in note
    page = f"#/experiments/{run.info.experiment_id}/runs/{made.split_run_id}?workflowType=machine_learning"
    assert f"[Its split, rows 1.0]({page})" in note
    assert f"searchFilter=tags.split%3D%22{made.split.split_id[:12]}%22" in note
    assert "| split 2 | 33 |" in split_run.data.tags["mlflow.note.content"]
    dataset = next(one.dataset for one in split_run.inputs.dataset_inputs if one.dataset.source_type != "local")
    assert json.loads(dataset.profile)["audit"]["verdict"] in ("Good", "Look at this")


def test_the_leaderboard_ranks_whatever_was_judged_on_a_split(home: Home) -> None:
    """Evaluations and configurations of a tuning, the best first; another split's are not, nor those of its folds."""
    poor, good = evaluated(alpha=1000.0), evaluated(alpha=0.1)
    evaluated(n_splits=4, name="other")
    tune(
        rows(), key="id", target="y", strategy="KFold", n_splits=3, name="rows", model=RIDGE, metrics=["r2"],
        grid={"alpha": [10.0]}, engine="plain",
    )  # fmt: skip
    found = leaderboard("rows", "r2")
    assert [each.model for each in found.judgements] == ["Ridge", "Ridge configuration 0", "Ridge"]
    assert [each.run_id for each in found.judgements][::2] == [good.run_id, poor.run_id]
    assert found.judgements[0].value == good.estimates[0].value
    assert leaderboard(good.split.split_id, "neg_mean_absolute_error", most=1).judgements[0].run_id == good.run_id
    with pytest.raises(SplitError, match="was scored by 'auc'; say r2"):
        leaderboard("rows@1.0", "auc")
    split(rows(), key="id", target="y", strategy="KFold", n_splits=5, name="empty", engine="plain")
    with pytest.raises(SplitError, match=r"no model was judged on empty 1\.0"):
        leaderboard("empty")
    assert evaluated(target="g", name="another").split.split_id == good.split.split_id
    assert leaderboard("rows", "r2") == found


def test_no_run_and_no_model_per_row(home: Home) -> None:
    """Leave-one-out of 101 rows, one more than have runs: one run, one model, and a table of every score.

    Draws, which are drawn again from a seed, are a table too.
    """
    made = evaluated(rows(101), strategy="LeaveOneOut", n_splits=None, metrics=["neg_mean_absolute_error"])
    client = MlflowClient(home.tracking_store)
    run = client.get_run(made.run_id)
    assert len(made.scores) == MOST_FOLDS + 1
    assert len(client.search_runs([run.info.experiment_id])) == 2
    assert len(client.search_logged_models([run.info.experiment_id])) == 1
    assert len(pd.read_parquet(client.download_artifacts(made.run_id, "scores.parquet"))) == MOST_FOLDS + 1
    assert not [name for name in run.data.metrics if name.startswith("fold/")]
    made = evaluated(strategy="Bootstrap", name="draws")
    sides = pd.read_parquet(client.download_artifacts(made.split_run_id, "sides.parquet"))
    assert list(sides.columns) == ["id", "split_0", "split_1", "split_2"]


def test_a_comparison_by_another_level_or_margin_is_another_run(home: Home) -> None:
    """Its verdict and its ends are others; its parameters say what was asked."""
    one, other = evaluated(alpha=1.0), evaluated(alpha=100.0)
    for asked in ({}, {"level": 0.5}, {"margin": 10.0}, {"level": 0.5}):
        compared(one.run_id, other.run_id, repeats=1, **asked)
    client = MlflowClient(home.tracking_store)
    experiment = client.get_experiment_by_name("rows").experiment_id
    found = client.search_runs([experiment], "tags.`evenfold.record` = 'comparison'", order_by=["start_time"])
    named = [{name: run.data.params.get(name) for name in ("level", "margin")} for run in found]
    assert named == [
        {"level": level, "margin": margin} for level, margin in ((None, None), ("0.5", None), (None, "10.0"))
    ]
    widths = [run.data.metrics["difference_high/r2"] - run.data.metrics["difference_low/r2"] for run in found]
    assert widths[1] < widths[0] == widths[2]


def test_the_command_stands_where_mlflow_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, though MLflow's page shows what follows the last slash; and without a password."""
    from evenfold.tasks.record.splits import CALLED_WITH, command

    words = ["evenfold", "evaluate", "data/2026/flights.parquet", "--spec=../flights.yaml", "--target", "late or not"]
    for name in ("-c", "evenfold.py", "train.py"):  # the user's own: what it was called with may hold anything
        monkeypatch.setattr("sys.argv", [name, "--db-secret", "hunter2"])
        assert "hunter2" not in command()
    CALLED_WITH[:] = words[1:]
    assert command() == "evenfold evaluate flights.parquet --spec=flights.yaml --target 'late or not'"
    CALLED_WITH[:] = ["evaluate", "s3://us:geheim@host/flights.parquet"]
    assert "geheim" not in command()
    assert "/" not in command()
    CALLED_WITH.clear()
