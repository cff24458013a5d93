"""Splits and evaluations as OpenLineage events, written by the real client, where the environment asks for them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.flows import evaluate
from evenfold.splitters import SplitError
from evenfold.tasks import Home


def rows() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(90), "a": draw.normal(size=90)})
    return frame.assign(y=frame["a"] + draw.normal(size=90))


def evaluated(data: Path, **asked: Any) -> Any:
    model = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
    named: dict[str, Any] = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 3, "name": "rows"}
    return evaluate(str(data), model=model, engine="plain", **(named | asked))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows().to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events.json"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return tmp_path / "events.json"


def test_without_the_switch_nothing_is_sent(home: Home, data: Path, log: Path) -> None:
    """A transport that is configured for other jobs gets nothing of ours."""
    evaluated(data)
    assert not log.exists()


def test_a_split_and_an_evaluation_name_what_they_read_and_made(
    home: Home, data: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data -> split -> evaluation, by the same names; the split's identity and the scores are facets; twice is once."""
    monkeypatch.setenv("EVENFOLD_OPENLINEAGE", "1")
    made = evaluated(data)
    split, evaluation = (json.loads(line) for line in log.read_text().splitlines())
    assert [event["job"]["name"] for event in (split, evaluation)] == ["split rows", "evaluate Ridge on rows"]
    assert {event["eventType"] for event in (split, evaluation)} == {"COMPLETE"}
    assert [(one["namespace"], one["name"]) for one in split["inputs"]] == [("file", str(data))]
    (out,) = split["outputs"]
    assert (out["namespace"], out["name"]) == ("evenfold", "rows/1.0")
    assert out["facets"]["version"]["datasetVersion"] == made.split.split_id
    told = out["facets"]["evenfold_split"]
    assert (told["strategy"], told["rows"], told["splits"]) == ("KFold", 90, 3)
    assert [(one["namespace"], one["name"]) for one in evaluation["inputs"]] == [
        ("file", str(data)),
        ("evenfold", "rows/1.0"),
    ]
    (score,) = evaluation["run"]["facets"]["evenfold_estimates"]["estimates"]
    assert score == {
        "metric": "r2",
        "method": "cross-validation",
        "value": made.estimates[0].value,
        "low": made.estimates[0].interval.low,
        "high": made.estimates[0].interval.high,
        "level": 0.95,
    }
    evaluated(data)
    again = [json.loads(line)["run"]["runId"] for line in log.read_text().splitlines()]
    assert set(again) == {split["run"]["runId"], evaluation["run"]["runId"]}


def test_an_evaluation_that_fails_is_a_failed_run(
    home: Home, data: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the sentence that the terminal says."""
    monkeypatch.setenv("EVENFOLD_OPENLINEAGE", "1")
    with pytest.raises(Exception, match="3 of 3 fits failed"):
        evaluated(data, model_params={"alpha": -1.0})
    event = json.loads(log.read_text().splitlines()[-1])
    assert event["eventType"] == "FAIL"
    assert "3 of 3 fits failed" in event["run"]["facets"]["errorMessage"]["message"]


def test_a_backend_that_does_not_answer_is_a_warning_and_the_record_stands(
    home: Home, data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lineage is told on the side: MLflow is the record."""
    monkeypatch.setenv("EVENFOLD_OPENLINEAGE", "1")
    transport = {"type": "http", "url": "http://user:secret@127.0.0.1:9", "retry": {"total": 0}}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    with caplog.at_level(logging.WARNING, "evenfold"):
        assert evaluated(data).run_id
    told = [record.getMessage() for record in caplog.records if "OpenLineage" in record.getMessage()]
    assert len(told) == 2
    assert not any("secret" in message for message in told)


def test_the_switch_without_the_client_is_a_sentence(home: Home, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would work is named."""
    monkeypatch.setenv("EVENFOLD_OPENLINEAGE", "1")
    monkeypatch.setitem(__import__("sys").modules, "openlineage.client", None)
    with pytest.raises(SplitError, match="EVENFOLD_OPENLINEAGE is on, and openlineage-python is not installed"):
        evaluated(data)
