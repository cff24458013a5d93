"""Putting a champion back: who said so and why is in the registry, and no two aliases name one version."""

import json
from pathlib import Path

import pytest
from evenfold.flows import GateError
from evenfold.flows.cli import app
from evenfold.splitters import SplitError
from evenfold.tasks import Home, roll_back
from kept import kept_after, put_back
from small import GOOD, aliases, registry, retrain, rollbacks
from tables import rows
from typer.testing import CliRunner

Aliases = dict[str, str]


@pytest.fixture(scope="module")
def _three_months(_module_home: Home, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Aliases], Path]:
    def live() -> list[Aliases]:
        return [(retrain("monthly", rows(n), GOOD), aliases(_module_home, "monthly"))[1] for n in (60, 74, 90)]

    return kept_after(_module_home, tmp_path_factory.mktemp("kept"), live)


@pytest.fixture(autouse=True)
def chain(_three_months: tuple[list[Aliases], Path], home: Home, monkeypatch: pytest.MonkeyPatch) -> list[Aliases]:
    monkeypatch.setenv("EVENFOLD_USER", "ada")
    told, kept = _three_months
    put_back(home, kept)
    return told


def test_a_rollback_goes_back_one_champion_at_a_time(home: Home, chain: list[Aliases]) -> None:
    """Who, when and why stand at the version that was withdrawn and at the model; the next step goes further back."""
    assert chain == [{"champion": "1"}, {"champion": "2", "previous": "1"}, {"champion": "3", "previous": "2"}]
    done = roll_back.fn("monthly", reason="the feed was in hours")
    assert (done.champion, done.withdrawn, done.by) == ("2", "3", "ada")
    assert aliases(home, "monthly") == {"champion": "2", "previous": "1"}
    told = json.loads(registry(home).get_model_version("monthly", "3").tags["evenfold.withdrawn"])
    assert told | {"at": ""} == {"champion": "2", "withdrawn": "3", "by": "ada", "reason": "the feed was in hours",
                                 "name": "monthly", "at": ""}  # fmt: skip
    roll_back.fn("monthly", reason="that one was bad as well")
    assert aliases(home, "monthly") == {"champion": "1"}
    assert [(each["withdrawn"], each["champion"]) for each in rollbacks(home, "monthly")] == [("3", "2"), ("2", "1")]
    registry(home).delete_model_version("monthly", "3")
    with pytest.raises(
        SplitError, match=r"no champion before version 1 .*; name another of its versions 1, 2 \(--to\)\.$"
    ):
        roll_back.fn("monthly", reason="and this one too")


def test_a_broken_month_is_refused_after_a_rollback_as_before(chain: list[Aliases]) -> None:
    assert roll_back.fn("monthly", reason="a test of ours failed").champion == chain[1]["champion"]
    broken = rows(120)
    broken.loc[90:, "y"] = -broken["y"][90:]
    with pytest.raises(GateError, match=r"is refused: The slope of y on what the champion predicted is -"):
        retrain("monthly", broken, GOOD)


def test_an_alias_that_a_person_moved_is_followed(home: Home) -> None:
    """A version that we signed may be put back in MLflow too."""
    registry(home).set_registered_model_alias("monthly", "champion", "2")
    moved = retrain("monthly", rows(99), GOOD)
    assert moved.champion
    assert moved.champion.version == "2"
    assert aliases(home, "monthly") == {"champion": "4", "previous": "2"}


def test_a_version_is_named(home: Home) -> None:
    """Forward again as well; the champion itself and what is not there are sentences."""
    runner = CliRunner()
    assert runner.invoke(app, ["rollback", "monthly"]).exit_code == 2, "without a reason nothing is done"
    done = runner.invoke(app, ["rollback", "monthly", "--to", "1", "--reason", "as it was in spring", "--json"])
    assert json.loads(done.output)["champion"] == "1"
    assert aliases(home, "monthly") == {"champion": "1", "previous": "3"}
    for name, to, said in (("monthly", "1", "is the champion already"), ("monthly", "9", "it has 1, 2, 3"),
                           ("nobody", None, "there is no model 'nobody'")):  # fmt: skip
        with pytest.raises(SplitError, match=said):
            roll_back.fn(name, to=to, reason="once more please")
    assert aliases(home, "monthly") == {"champion": "1", "previous": "3"}
