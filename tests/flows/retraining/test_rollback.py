"""Putting a champion back: who said so and why is in the registry, and no two aliases name one version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from evenfold.flows.cli import app
from evenfold.splitters import SplitError
from evenfold.tasks import Home, roll_back
from tables import rows
from typer.testing import CliRunner

from evenfold import flows

RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
DUMMY = {"estimator": "sklearn.dummy:DummyRegressor", "metrics": ["r2"]}
SPEC = {"columns": {"key": ["id"], "target": "y"}, "strategy": "KFold", "params": {"n_splits": 3}}


@pytest.fixture(autouse=True)
def home(shared_home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("EVENFOLD_USER", "ada")
    return shared_home


def retrain(name: str, n: int, model: dict[str, Any] = RIDGE, **more: Any) -> Any:
    return flows.retrain(rows(n), engine="plain", spec=SPEC | {"name": name}, model=model, **more)


def client(home: Home) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(home.tracking_uri)


def aliases(home: Home, name: str) -> dict[str, str]:
    """Return the version of each alias, and prove that no two are on one."""
    told = {alias: str(version) for alias, version in client(home).get_registered_model(name).aliases.items()}
    assert len(set(told.values())) == len(told), told
    return told


def test_each_alias_names_a_version_of_its_own(home: Home) -> None:
    """The champion leaves a previous one behind; what was not promoted is the challenger."""
    retrain("chain", 120)
    assert aliases(home, "chain") == {"champion": "1"}
    retrain("chain", 140)
    assert aliases(home, "chain") == {"champion": "2", "previous": "1"}
    retrain("chain", 160)
    assert aliases(home, "chain") == {"champion": "3", "previous": "2"}


def test_a_rollback_goes_back_one_champion_at_a_time(home: Home) -> None:
    """Who, when and why stand at the version that was withdrawn and at the model; the next step goes further back."""
    for n in (120, 140, 160):
        retrain("back", n)
    done = roll_back.fn("back", reason="the feed was in hours")
    assert (done.champion, done.withdrawn, done.by) == ("2", "3", "ada")
    assert aliases(home, "back") == {"champion": "2", "previous": "1"}
    told = json.loads(client(home).get_model_version("back", "3").tags["evenfold.withdrawn"])
    assert told | {"at": ""} == {"champion": "2", "withdrawn": "3", "by": "ada", "reason": "the feed was in hours",
                                 "name": "back", "at": ""}  # fmt: skip
    roll_back.fn("back", reason="that one was bad as well")
    assert aliases(home, "back") == {"champion": "1"}
    log = json.loads(client(home).get_registered_model("back").tags["evenfold.rollbacks"])
    assert [(each["withdrawn"], each["champion"]) for each in log] == [("3", "2"), ("2", "1")]
    with pytest.raises(SplitError, match=r"no champion before version 1 .*name one of the versions 2, 3"):
        roll_back.fn("back", reason="and this one too")


def test_a_version_is_named(home: Home) -> None:
    """Forward again as well; the champion itself and what is not there are sentences."""
    for n in (120, 140, 160):
        retrain("named", n)
    assert roll_back.fn("named", to="1", reason="as it was in spring").champion == "1"
    assert aliases(home, "named") == {"champion": "1", "previous": "3"}
    with pytest.raises(SplitError, match="version 1 of named is the champion already"):
        roll_back.fn("named", to="1", reason="once more please")
    with pytest.raises(SplitError, match="named has no version '9'; it has 1, 2, 3"):
        roll_back.fn("named", to="9", reason="once more please")
    with pytest.raises(SplitError, match="there is no model 'nobody' in the registry"):
        roll_back.fn("nobody", reason="once more please")
    with pytest.raises(SplitError, match="reason"):
        roll_back.fn("named", to="2", reason=" ")
    assert aliases(home, "named") == {"champion": "1", "previous": "3"}


def test_after_a_rollback_retraining_goes_on(home: Home) -> None:
    """The next table competes with the champion that was put back, which becomes the previous one."""
    retrain("on", 120)
    retrain("on", 140)
    roll_back.fn("on", reason="the feed was in hours")
    made = retrain("on", 160)
    assert made.champion.version == "1"
    assert aliases(home, "on") == {"champion": "3", "previous": "1"}


def test_the_command_says_what_it_did(home: Home) -> None:
    """One line for people, one object for machines; without a reason it does nothing."""
    retrain("asked", 120)
    retrain("asked", 140)
    runner = CliRunner()
    assert runner.invoke(app, ["rollback", "asked"]).exit_code == 2
    done = runner.invoke(app, ["rollback", "asked", "--reason", "the feed was in hours"])
    assert done.exit_code == 0, done.output
    assert done.output.strip() == "asked: version 1 is the champion again, version 2 was withdrawn by ada."
    done = runner.invoke(app, ["rollback", "asked", "--to", "2", "--reason", "it was right after all", "--json"])
    assert json.loads(done.output)["champion"] == "2"
