"""Putting a champion back: who said so and why is in the registry, and no two aliases name one version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evenfold.flows.cli import app
from evenfold.splitters import SplitError
from evenfold.tasks import Home, roll_back
from kept import kept_after, put_back
from small import GOOD, registry, retrain
from tables import rows
from typer.testing import CliRunner

Aliases = dict[str, str]


@pytest.fixture(scope="module")
def _three_months(_module_home: Home, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Aliases], Path]:
    def live() -> list[Aliases]:
        return [(retrain("monthly", rows(n), GOOD), aliases(_module_home))[1] for n in (120, 140, 160)]

    return kept_after(_module_home, tmp_path_factory.mktemp("kept"), live)


@pytest.fixture(autouse=True)
def chain(_three_months: tuple[list[Aliases], Path], home: Home, monkeypatch: pytest.MonkeyPatch) -> list[Aliases]:
    """Return the aliases after each of three months; the home is as it was after the third."""
    monkeypatch.setenv("EVENFOLD_USER", "ada")
    told, kept = _three_months
    put_back(home, kept)
    return told


def aliases(home: Home) -> Aliases:
    """Return the version of each alias, and prove that no two are on one."""
    told = {alias: str(version) for alias, version in registry(home).get_registered_model("monthly").aliases.items()}
    assert len(set(told.values())) == len(told), told
    return told


def test_each_alias_names_a_version_of_its_own(chain: list[Aliases]) -> None:
    """The champion leaves a previous one behind, which is the last one alone."""
    assert chain == [{"champion": "1"}, {"champion": "2", "previous": "1"}, {"champion": "3", "previous": "2"}]


def test_a_rollback_goes_back_one_champion_at_a_time(home: Home) -> None:
    """Who, when and why stand at the version that was withdrawn and at the model; the next step goes further back."""
    done = roll_back.fn("monthly", reason="the feed was in hours")
    assert (done.champion, done.withdrawn, done.by) == ("2", "3", "ada")
    assert aliases(home) == {"champion": "2", "previous": "1"}
    told = json.loads(registry(home).get_model_version("monthly", "3").tags["evenfold.withdrawn"])
    assert told | {"at": ""} == {"champion": "2", "withdrawn": "3", "by": "ada", "reason": "the feed was in hours",
                                 "name": "monthly", "at": ""}  # fmt: skip
    roll_back.fn("monthly", reason="that one was bad as well")
    assert aliases(home) == {"champion": "1"}
    log = json.loads(registry(home).get_registered_model("monthly").tags["evenfold.rollbacks"])
    assert [(each["withdrawn"], each["champion"]) for each in log] == [("3", "2"), ("2", "1")]
    with pytest.raises(SplitError, match=r"no champion before version 1 .*name one of the versions 2, 3"):
        roll_back.fn("monthly", reason="and this one too")
    registry(home).delete_model_version("monthly", "3")
    with pytest.raises(SplitError, match=r"no champion before version 1 .*; name version 2 \(--to\)\.$"):
        roll_back.fn("monthly", reason="and this one too")


def test_an_alias_that_a_person_moved_is_followed_and_said(home: Home) -> None:
    """A version that we signed may be put back in MLflow too; the retraining says that a later one was promoted."""
    registry(home).set_registered_model_alias("monthly", "champion", "2")
    moved = retrain("monthly", rows(180), GOOD)
    words = "Version 2 of monthly is the champion, though version 3 was promoted later: the alias was moved in MLflow"
    assert moved.champion
    assert (moved.champion.version, words in " ".join(moved.growth.notes)) == ("2", True)
    assert aliases(home) == {"champion": "4", "previous": "2"}
    roll_back.fn("monthly", reason="worse")
    assert not any("was moved" in note for note in retrain("monthly", rows(200), GOOD).growth.notes)


def test_the_first_champion_has_no_previous_one(home: Home) -> None:
    """Whichever version was called so, also by hand."""
    roll_back.fn("monthly", to="2", reason="worse")
    registry(home).set_registered_model_alias("monthly", "previous", "3")
    roll_back.fn("monthly", reason="worse")
    assert aliases(home) == {"champion": "1"}


def test_a_version_is_named(home: Home) -> None:
    """Forward again as well; the champion itself and what is not there are sentences."""
    assert roll_back.fn("monthly", to="1", reason="as it was in spring").champion == "1"
    assert aliases(home) == {"champion": "1", "previous": "3"}
    with pytest.raises(SplitError, match="version 1 of monthly is the champion already"):
        roll_back.fn("monthly", to="1", reason="once more please")
    with pytest.raises(SplitError, match="monthly has no version '9'; it has 1, 2, 3"):
        roll_back.fn("monthly", to="9", reason="once more please")
    with pytest.raises(SplitError, match="there is no model 'nobody' in the registry"):
        roll_back.fn("nobody", reason="once more please")
    with pytest.raises(SplitError, match="reason"):
        roll_back.fn("monthly", to="2", reason=" ")
    assert aliases(home) == {"champion": "1", "previous": "3"}


def test_after_a_rollback_retraining_goes_on(home: Home) -> None:
    """The next table competes with the champion that was put back, which becomes the previous one."""
    roll_back.fn("monthly", reason="the feed was in hours")
    made = retrain("monthly", rows(180), GOOD)
    assert made.champion.version == "2"
    assert aliases(home) == {"champion": "4", "previous": "2"}


def test_the_command_says_what_it_did() -> None:
    """One line for people, one object for machines; without a reason it does nothing."""
    runner = CliRunner()
    assert runner.invoke(app, ["rollback", "monthly"]).exit_code == 2
    done = runner.invoke(app, ["rollback", "monthly", "--reason", "the feed was in hours"])
    assert done.exit_code == 0, done.output
    assert done.output.strip() == "monthly: version 2 is the champion again, version 3 was withdrawn by ada."
    done = runner.invoke(app, ["rollback", "monthly", "--to", "3", "--reason", "it was right after all", "--json"])
    assert json.loads(done.output)["champion"] == "3"
