"""What was champion on a day, and a past decision made again, from what stands in MLflow alone."""

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from evenfold.flows.cli import app
from evenfold.splitters import SplitError
from evenfold.tasks import Home, champion_as_of, replay, roll_back
from evenfold.tasks.record.models.registered import RolledBack
from kept import kept_after, put_back
from small import BAD, GOOD, registry, retrain, rollbacks
from tables import rows
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def _months(_module_home: Home, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[datetime], Path]:
    def live() -> list[datetime]:
        """A bad first champion; a better recipe; a worse one, so that the better is refitted; a rollback to it."""
        done = []
        for n, model in ((60, BAD), (80, GOOD), (99, BAD)):
            retrain("monthly", rows(n), model)
            done.append(datetime.now(UTC))
        roll_back.fn("monthly", reason="the feed was in hours")
        roll_back.fn("monthly", to="3", reason="it was right")
        return done

    return kept_after(_module_home, tmp_path_factory.mktemp("kept"), live)


@pytest.fixture(autouse=True)
def after(_months: tuple[list[datetime], Path], home: Home, tmp_path: Path) -> list[datetime]:
    """Return when each month was done; the tables, the store of results and the splits are gone since."""
    times, kept = _months
    put_back(home, kept)
    for name in ("splits", "results", "scores", "models", "frames"):
        shutil.rmtree(home.path / name, ignore_errors=True)
    return times


def test_what_was_champion_at_a_time_is_what_was_written_last_before_it(home: Home, after: list[datetime]) -> None:
    """Promotions and rollbacks in their order; a day is over at its end; before the first there was none."""
    served = [champion_as_of("monthly", time) for time in after]
    assert [each.version for each in served] == ["1", "2", "3"]
    assert served[1].why == "the candidate is better"
    back = datetime.fromisoformat(rollbacks(home, "monthly")[0]["at"])
    assert [champion_as_of("monthly", back + timedelta(milliseconds=each)).version for each in (-1, 0)] == ["3", "2"]
    assert "the feed was in hours" in champion_as_of("monthly", back).why
    today = champion_as_of("monthly", date.today().isoformat())
    assert (today.version, today.note) == ("3", "")
    assert champion_as_of("monthly", "2020-01-31").version is None
    registry(home).set_registered_model_alias("monthly", "champion", "1")
    assert "is on version 1 by now" in champion_as_of("monthly", date.today()).note
    for name, day, words in (("monthly", "May", "is no date"), ("nobody", "2026-05-01", "no model 'nobody'")):
        with pytest.raises(SplitError, match=words):
            champion_as_of(name, day)


def test_every_promotion_is_decided_again_as_it_was(home: Home) -> None:
    """The first, one that was compared, and a refit after a comparison: to the last digit, without table or store."""
    for version, why in (("1", "first version"), ("2", "the candidate is better"), ("3", "the candidate is worse")):
        replayed = replay("monthly", version)
        assert (replayed.verdict, why in replayed.words) == ("same", True), replayed
    assert replayed.again.low == pytest.approx(replayed.decision.low, rel=1e-9)  # type: ignore[union-attr]


def _edited(home: Home, run_id: str) -> None:
    decided = json.loads(registry(home).get_run(run_id).data.tags["evenfold.decision"])
    registry(home).set_tag(run_id, "evenfold.decision", json.dumps(decided | {"promote": False}))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda home, own, of: _edited(home, own), "holds no decision that was signed"),
        (
            lambda home, own, of: registry(home).delete_tag(own, "evenfold.decision"),
            "holds no decision that was signed",
        ),
        (
            lambda home, own, of: shutil.rmtree(next(home.path.rglob(f"mlartifacts/*/{of}"))),
            "kept no predictions.parquet",
        ),
    ],
)
def test_what_is_gone_is_said(home: Home, spoil: Any, words: str) -> None:
    """Nothing is made again of a decision that was edited or deleted, or of predictions that are no more."""
    version = registry(home).get_model_version("monthly", "2")
    spoil(home, version.run_id, version.tags["evenfold.evaluation_run_id"])
    replayed = replay("monthly", "2")
    assert (replayed.verdict, words in replayed.words) == ("gone", True), replayed


def test_a_comparison_that_was_deleted_is_named_where_a_later_one_is_other_for_it(home: Home) -> None:
    """What is spent is part of the rule; of the deleted one itself all is left that decides it again."""
    run_id = registry(home).get_model_version("monthly", "2").run_id
    registry(home).delete_run(run_id)
    replayed = replay("monthly", "3")
    assert (replayed.verdict, f"run {run_id[:8]} of version 2 was deleted" in replayed.words) == ("gone", True), (
        replayed
    )
    assert replay("monthly", "2").verdict == "same"


def test_a_deleted_version_is_told_by_the_decision_that_took_its_place(home: Home, after: list[datetime]) -> None:
    """No date of it is left, so the one before is named with a note, and never alone."""
    registry(home).delete_model_version("monthly", "2")
    theirs = RolledBack(name="monthly", champion="1", withdrawn="3", reason="so", by="eve", at="2020-01-01T00:00:00")
    registry(home).set_registered_model_tag("monthly", "evenfold.rollback.x", theirs.model_dump_json())
    served = champion_as_of("monthly", after[1])
    assert (served.version, "took the place of version 2 on" in served.note) == ("1", True), served
    assert champion_as_of("monthly", after[1].replace(tzinfo=None)) == served  # UTC where no zone is named


def test_the_commands_say_it(home: Home) -> None:
    """A line for people, an object for machines; exit code 1 where the verdict is not made again."""
    runner = CliRunner()
    told = runner.invoke(app, ["champion", "monthly", "--as-of", "2020-01-31"])
    assert (told.exit_code, told.output.strip()) == (0, "monthly: no version was the champion on 2020-01-31.")
    assert "monthly: version 3 is the champion, since" in runner.invoke(app, ["champion", "monthly"]).output
    told = runner.invoke(app, ["replay", "monthly", "2", "--json"])
    assert (told.exit_code, json.loads(told.stdout)["verdict"]) == (0, "same")
    registry(home).delete_tag(registry(home).get_model_version("monthly", "2").run_id, "evenfold.decision")
    told = runner.invoke(app, ["replay", "monthly", "2"])
    assert (told.exit_code, "cannot be decided again" in told.output) == (1, True)
