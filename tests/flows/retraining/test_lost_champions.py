"""A champion that is lost, fails or was tampered with: the retraining says so, and who may take its place."""

import json
import re
from pathlib import Path

import pytest
from evenfold.flows import GateError
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.tasks import Home
from small import BAD, GOOD, champion, changed, registry, retrain
from tables import rows

pytestmark = pytest.mark.usefixtures("first")


@pytest.mark.parametrize(
    ("recipe", "why", "gates"),
    [
        ('{"estimator": "a_package_that_left:Model", "metrics": ["r2"]}', "a_package_that_left", True),
        ('{"estimator": "sklearn.linear_model:Ridge", "params": {"alpha": -1}, "metrics": ["r2"]}', "alpha", True),
        (None, "it names no recipe", False),
    ],
    ids=["gone", "fails", "deleted"],
)
def test_a_champion_that_cannot_be_evaluated_does_not_give_way(
    home: Home, monkeypatch: pytest.MonkeyPatch, recipe: str | None, why: str, gates: bool
) -> None:
    """Whoever may edit a tag makes no candidate champion, whatever the gates; the sentence says who decides."""
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "sklearn,a_package_that_left")
    changed(home, "monthly", "1", "evenfold.model", recipe)
    with pytest.raises(GateError, match=rf"version 1 of monthly, the champion, cannot be compared .*{why}.* decides"):
        retrain("monthly", rows(150), GOOD, gates=gates)
    assert champion(home, "monthly") == "1"
    assert [folder.name for folder in (home.splits / "monthly").iterdir()] == ["1.0"]


@pytest.mark.parametrize("path", ["os:system", "evenfold.estimates.models.spec:named_estimator"])
def test_a_champion_that_names_what_it_may_not_stops_a_deployed_retraining(
    home: Home, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where somebody who may has signed it: nothing is imported, and the candidate does not become champion."""
    theirs = json.dumps({"estimator": path, "params": {"command": "touch tagged"}})
    changed(home, "monthly", "1", "evenfold.model", theirs)
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    with pytest.raises(UntrustedNameError, match=re.escape(path)):
        retrain("monthly", rows(150), GOOD)
    assert champion(home, "monthly") == "1"
    runs = registry(home).search_runs([registry(home).get_experiment_by_name("monthly").experiment_id])
    assert [run.info.status for run in runs if run.info.run_name == "retrain/monthly"] == ["FAILED", "FINISHED"]


def test_a_malformed_tag_is_a_sentence_and_makes_no_champion(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """What stops a retraining names the tag, whose it is and what to do; put right, the same retraining goes on."""
    experiment = registry(home).get_experiment_by_name("monthly").experiment_id
    (first,) = registry(home).search_runs([experiment], "tags.`mlflow.runName` = 'retrain/monthly'")
    for tag, bad, words in (
        ("model", "[" * 3_000, "evenfold.model of version 1 of monthly, the champion, in MLflow is not a recipe"),
        (
            "scores",
            '{"a":' * 900,
            "evenfold.scores of version 1 of monthly, the champion, in MLflow is not a list of scores",
        ),
    ):
        kept = registry(home).get_model_version("monthly", "1").tags[f"evenfold.{tag}"]
        changed(home, "monthly", "1", f"evenfold.{tag}", bad)
        with pytest.raises((SplitError, GateError), match=re.escape(words)):
            retrain("monthly", rows(150), GOOD)
        assert champion(home, "monthly") == "1"
        changed(home, "monthly", "1", f"evenfold.{tag}", kept)
    kept = first.data.tags["evenfold.decision"]
    registry(home).set_tag(first.info.run_id, "evenfold.decision", '{"spent": -100}')
    with pytest.raises(SplitError, match=f"evenfold.decision of run {first.info.run_id} in MLflow is not a decision"):
        retrain("monthly", rows(150), BAD)
    registry(home).set_tag(first.info.run_id, "evenfold.decision", kept)
    for run in registry(home).search_runs([experiment], "tags.`mlflow.runName` = 'retrain/monthly'"):
        if run.info.status == "FAILED":  # the one that goes on: what it had decided is decided anew
            registry(home).set_tag(run.info.run_id, "evenfold.decision", "{")
    assert retrain("monthly", rows(150), GOOD).registered
    assert "It is decided anew" in caplog.text
    assert champion(home, "monthly") == "2"


def test_the_outcome_of_a_finished_retraining_is_believed_where_it_is_signed(home: Home, tmp_path: Path) -> None:
    experiment = registry(home).get_experiment_by_name("monthly").experiment_id
    (first,) = registry(home).search_runs([experiment], "tags.`mlflow.runName` = 'retrain/monthly'")
    assert retrain("monthly", rows(120), GOOD).reused
    kept = Path(registry(home).download_artifacts(first.info.run_id, "retrain.json", str(tmp_path))).read_text()
    registry(home).log_text(first.info.run_id, kept.replace("first version", "best version"), "retrain.json")
    again = retrain("monthly", rows(120), GOOD)
    assert (again.reused, "best version" in str(again)) == (False, False)
