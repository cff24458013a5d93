"""A champion that is lost, fails or was tampered with: the retraining says so, and who may take its place."""

from __future__ import annotations

import json
import re

import pytest
from evenfold.flows import GateError
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.tasks import Home
from small import champion, registry, retrain
from tables import rows

GOOD = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
BAD = {"estimator": "sklearn.dummy:DummyRegressor", "metrics": ["r2"]}


@pytest.fixture(autouse=True)
def home(shared_home: Home) -> Home:
    return shared_home


def test_a_champion_that_no_longer_loads_is_told_and_decides_nothing(home: Home) -> None:
    """Its recipe still competes; the report says that the stored model does not load."""
    import shutil

    retrain("broken", rows(120), GOOD)
    source = registry(home).get_model_version_by_alias("broken", "champion")
    shutil.rmtree(registry(home).get_model_version_download_uri("broken", source.version).removeprefix("file://"))
    outcome = retrain("broken", rows(150), BAD)
    assert "no longer loads" in outcome.stored_champion.why
    assert outcome.decision.winner == "champion"
    assert outcome.decision.difference is not None


def test_a_champion_whose_recipe_is_gone_gives_way(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import path that no longer exists cannot be evaluated: the candidate takes over, and the report says why."""
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "sklearn,a_package_that_left")
    retrain("gone", rows(120), GOOD)
    version = champion(home, "gone")
    gone = '{"estimator": "a_package_that_left:Model", "metrics": ["r2"]}'
    registry(home).set_model_version_tag("gone", version, "evenfold.model", gone)
    outcome = retrain("gone", rows(150), GOOD)
    assert "can no longer be evaluated" in outcome.decision.why
    assert "a_package_that_left" in outcome.decision.why
    assert champion(home, "gone") == "2"


def test_a_champion_whose_recipe_fails_does_not_give_way(home: Home) -> None:
    """A fit that breaks off or lasts too long is no comparison: the retraining stops, unless gates are off."""
    retrain("fails", rows(120), GOOD)
    fails = '{"estimator": "sklearn.linear_model:Ridge", "params": {"alpha": -1}, "metrics": ["r2"]}'
    registry(home).set_model_version_tag("fails", "1", "evenfold.model", fails)
    with pytest.raises(GateError, match=r"champion's recipe could not be fitted on these folds.*--no-gates"):
        retrain("fails", rows(150), GOOD)
    assert champion(home, "fails") == "1"
    outcome = retrain("fails", rows(150), GOOD, gates=False)
    assert outcome.decision.why.startswith("the champion's recipe could not be fitted on these folds")
    assert champion(home, "fails") == "2"


@pytest.mark.parametrize("path", ["os:system", "a_package:Model", "evenfold.estimates.models.spec:named_estimator"])
def test_a_champion_that_names_what_it_may_not_stops_the_retraining(home: Home, path: str) -> None:
    """Whoever may edit the registry has nothing imported here, and does not make the candidate champion either."""
    name = f"tagged-{path.partition(':')[0]}"
    retrain(name, rows(120), GOOD)
    theirs = json.dumps({"estimator": path, "params": {"command": "touch tagged"}})
    registry(home).set_model_version_tag(name, champion(home, name), "evenfold.model", theirs)
    with pytest.raises(UntrustedNameError, match=re.escape(path)):
        retrain(name, rows(150), GOOD)
    assert champion(home, name) == "1"
    runs = registry(home).search_runs([registry(home).get_experiment_by_name(name).experiment_id])
    assert [run.info.status for run in runs if run.info.run_name == f"retrain/{name}"] == ["FAILED", "FINISHED"]


def test_a_malformed_tag_is_a_sentence_and_makes_no_champion(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """What stops a retraining names the tag, whose it is and what to do; put right, the same retraining goes on."""
    retrain("tags", rows(120), GOOD)
    experiment = registry(home).get_experiment_by_name("tags").experiment_id
    (first,) = registry(home).search_runs([experiment], "tags.`mlflow.runName` = 'retrain/tags'")
    for tag, bad, words in (
        ("model", "[" * 3_000, "evenfold.model of version 1 of tags, the champion, in MLflow is not a recipe"),
        ("model", '{"estimator": 7}', "'estimator' is '7'"),
        (
            "scores",
            '{"a":' * 900,
            "evenfold.scores of version 1 of tags, the champion, in MLflow is not a list of scores",
        ),
    ):
        kept = registry(home).get_model_version("tags", "1").tags[f"evenfold.{tag}"]
        registry(home).set_model_version_tag("tags", "1", f"evenfold.{tag}", bad)
        with pytest.raises((SplitError, GateError), match=re.escape(words)):
            retrain("tags", rows(150), GOOD)
        assert champion(home, "tags") == "1"
        registry(home).set_model_version_tag("tags", "1", f"evenfold.{tag}", kept)
    kept = first.data.tags["evenfold.decision"]
    registry(home).set_tag(first.info.run_id, "evenfold.decision", '{"spent": -100}')
    with pytest.raises(SplitError, match=f"evenfold.decision of run {first.info.run_id} in MLflow is not a decision"):
        retrain("tags", rows(150), BAD)
    registry(home).set_tag(first.info.run_id, "evenfold.decision", kept)
    for run in registry(home).search_runs([experiment], "tags.`mlflow.runName` = 'retrain/tags'"):
        if run.info.status == "FAILED":  # the one that goes on: what it had decided is decided anew
            registry(home).set_tag(run.info.run_id, "evenfold.decision", "{")
    assert retrain("tags", rows(150), GOOD).registered
    assert "It is decided anew" in caplog.text
    assert champion(home, "tags") == "2"
    registry(home).log_text(first.info.run_id, "[" * 100_000, "retrain.json")
    assert not retrain("tags", rows(120), GOOD, on_refused="new_major", gates=False).reused
