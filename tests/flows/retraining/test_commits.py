"""What a retraining commits: a generation and what was promoted on it together, or neither, month after month."""

import json
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.estimates.intervals.months import Judgement
from evenfold.flows import GateError
from evenfold.flows.cli import app
from evenfold.manifests import verify
from evenfold.splitters import SplitError
from evenfold.tasks import Home, champion_as_of, roll_back, withdraw
from evenfold.tasks.record.models.committing import settle_commits
from evenfold.tasks.record.models.promoting import judge_month
from mlflow.tracking import MlflowClient
from small import GOOD, STEPS, aliases, champion, killed_before, registry, retrain
from tables import rows
from typer.testing import CliRunner
from year import RIDGE, SPEC, flights, live_through

from evenfold import flows

pytestmark = pytest.mark.usefixtures("first")


def lying(home: Home) -> set[Path]:
    return {path for folder in (home.splits, home.shared / "snapshots") for path in folder.rglob("*")}


AGAIN = ["logged", "promoted", "kept"]  # at these the same month is killed, at the others one before the next


def test_a_kill_after_any_step_is_finished_or_undone_by_the_next_run(home: Home) -> None:
    """Each version that serves has its generation, and the next month finds neither too many rows nor too few.

    Every month but the last is killed, each after another step of the commit; in this order no step is one that
    finishing the month before takes as well.
    """
    n, joined, versions = 60, 60, 1
    order = ["registered", "staged", "replacing", "intended", "unsigned", "renamed", "offered"]
    assert {*order, *AGAIN} == set(STEPS)
    for module, name, committed in map(STEPS.__getitem__, order):
        n += 10
        killed_before(module, name, partial(retrain, "monthly", rows(n), GOOD))
        if name != "put_aliases":  # by then it is said whose place it takes
            assert champion_as_of("monthly", datetime.now(UTC)).version == champion(home, "monthly")
        if committed:
            joined, versions = n, versions + 1
    outcome = retrain("monthly", rows(n + 10), GOOD)
    assert (outcome.growth.added, outcome.split.version) == (n + 10 - joined, f"1.{versions}")
    assert champion(home, "monthly") == f"{versions + 2}"  # one was never signed, and is gone
    found = registry(home).search_model_versions("name = 'monthly'")
    folders = [folder.name for folder in (home.splits / "monthly").iterdir()]
    assert sorted(each.tags["evenfold.spec"] for each in found) == sorted(f"monthly@{name}" for name in folders)
    assert len(folders) == versions + 1
    assert all(verify(str(folder)).intact for folder in (home.splits / "monthly").iterdir())
    assert not list(home.splits.rglob("commit.json"))


def test_the_same_month_goes_on_after_a_kill(home: Home) -> None:
    """It logs one model and registers one version, whichever steps it was killed at."""
    for step in AGAIN:
        killed_before(*STEPS[step][:2], lambda: retrain("monthly", rows(80), GOOD))
    outcome = retrain("monthly", rows(80), GOOD)
    assert (outcome.split.version, champion(home, "monthly")) == ("1.1", "2")
    assert len(registry(home).search_model_versions("name = 'monthly'")) == 2
    assert registry(home).get_run(outcome.run_id).info.status == "FINISHED"
    experiment = registry(home).get_experiment_by_name("monthly").experiment_id
    assert [each.name for each in registry(home).search_logged_models([experiment])].count("model") == 2


def test_a_month_is_committed_when_it_was_judged_sound(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused one leaves nothing but its record, and the right one after it joins what was there before it."""
    before, wrong = lying(home), rows(80).assign(y=lambda table: table["y"].where(table["id"] < 60, -table["y"]))

    def judged(verdict: Any, table: pd.DataFrame, **how: Any) -> Any:
        told = Judgement(verdict=verdict, sentences=["the new targets are turned round."])
        with monkeypatch.context() as patched:
            patched.setattr(judge_month.fn, "fn", lambda *_, **__: told)
            return retrain("monthly", table, GOOD, **how)

    for verdict, how in (("refused", {}), ("unclear", {"on_unclear": "stop"})):
        with pytest.raises(GateError, match=r"what joins monthly 1\.1 .*turned round.*--no-gates"):
            judged(verdict, wrong, **how)
        assert lying(home) == before
    for n, verdict, how in ((79, "unclear", {}), (98, "refused", {"gates": False})):
        outcome = judged(verdict, rows(n), **how)
        assert (outcome.growth.added, outcome.judged.sentences) == (19, ["the new targets are turned round."])
    assert champion(home, "monthly") == "3"


def test_a_commit_that_nobody_of_ours_began_promotes_nothing(home: Home) -> None:
    """Whoever may write among shared splits names a version of ours, and what it says by its signature counts."""
    retrain("monthly", rows(80), GOOD)
    roll_back.fn("monthly", reason="in hours")
    place = home.splits / "monthly" / ".committing-9.9"
    shutil.copytree(home.splits / "monthly" / "1.1", place)
    (place / "commit.json").write_text("[" * 100_000)
    with pytest.raises(SplitError, match=r"commit\.json cannot be read; remove .*\.committing-9"):
        retrain("monthly", rows(99), GOOD)
    theirs = {"name": "monthly", "run_id": "0" * 32, "store": home.tracking_uri}
    (place / "commit.json").write_text(json.dumps(theirs))
    with pytest.raises(SplitError, match=r"run 00000000 of .*commit\.json is no more in .*; remove .*\.committing-9"):
        settle_commits(home, "monthly")
    for version, kept in (("1", False), ("2", True)):
        run_id = registry(home).get_model_version("monthly", version).run_id
        (place / "commit.json").write_text(json.dumps(theirs | {"run_id": run_id}))
        settle_commits(home, "monthly")
        assert (champion(home, "monthly"), place.with_name("9.9").exists()) == ("1", kept)
        shutil.copytree(home.splits / "monthly" / "1.1", place, dirs_exist_ok=True)


def test_a_month_that_was_let_in_is_withdrawn_with_its_champion(home: Home) -> None:
    """The former champion serves, what grew from the month goes with it, and the right month joins from before."""
    wrong = rows(80).assign(y=lambda table: table["y"].where(table["id"] < 60, -table["y"]))
    for month in (wrong, pd.concat([wrong, rows(95).tail(15)])):
        retrain("monthly", month, GOOD, gates=False)
    assert aliases(home, "monthly") == {"champion": "3", "previous": "2"}
    with pytest.raises(GateError, match="another y than before"):
        retrain("monthly", rows(80), GOOD)
    done = CliRunner().invoke(app, ["withdraw", "monthly@1.1", "--reason", "turned round" + ", and long" * 600])
    assert done.exit_code == 0, done.output
    assert "monthly: 1.1, 1.2 withdrawn by" in done.output
    assert "new rows join monthly@1.0 from now on" in done.output
    assert "monthly: version 1 is the champion again, version 3 was withdrawn." in done.output
    assert aliases(home, "monthly") == {"champion": "1"}
    told = [json.loads(registry(home).get_model_version("monthly", each).tags["evenfold.withdrawn"]) for each in "23"]
    assert {each["reason"][:22] for each in told} == {"turned round, and long"}
    with pytest.raises(SplitError, match=r"let in as monthly 1\.1 and withdrawn by .* \(turned round, and long"):
        retrain("monthly", wrong, GOOD, gates=False)
    assert champion(home, "monthly") == "1"
    outcome = retrain("monthly", rows(80), GOOD)
    assert (outcome.split.version, outcome.growth.added, champion(home, "monthly")) == ("1.1", 20, "4")
    with pytest.raises(SplitError, match=r"there is no split 'monthly@1\.7'; monthly has 1\.0, 1\.1\."):
        withdraw.fn("monthly@1.7", reason="none")


def test_what_was_taken_back_before_its_run_had_ended_does_not_serve_again(home: Home) -> None:
    killed_before(*STEPS["promoted"][:2], lambda: retrain("monthly", rows(80), GOOD))
    roll_back.fn("monthly", reason="in hours")
    outcome = retrain("monthly", rows(80), GOOD)
    assert (outcome.registered.version, outcome.registered.champion, champion(home, "monthly")) == ("2", False, "1")
    killed_before(*STEPS["kept"][:2], lambda: retrain("monthly", rows(90), GOOD))
    withdraw.fn("monthly@1.2", reason="in days")
    with pytest.raises(SplitError, match=r"let in as monthly 1\.2 and withdrawn by .* \(in days\)"):
        retrain("monthly", rows(90), GOOD)
    assert champion(home, "monthly") == "1"


def test_the_first_month_is_withdrawn_with_the_only_champion(home: Home) -> None:
    done = withdraw.fn("monthly@1.0", reason="of another customer")
    assert (done.left, done.models[0].champion) == (None, None)
    assert aliases(home, "monthly") == {}
    outcome = retrain("monthly", rows(45), GOOD)
    assert (outcome.split.version, champion(home, "monthly")) == ("1.0", "2")


def test_five_months_with_broken_files_in_between(home: Home, tmp_path: Path) -> None:
    """Nothing that is empty, doubled, cut short, rescaled, shuffled or renamed becomes champion; late rows join.

    A month that the champion refuses leaves its record alone; the figures of those it let in are in MLflow.
    """
    months = flights(150)
    faults = [
        [],
        ["cut short", "in seconds", "empty"],
        ["duplicated", "target renamed", "feature as text"],
        ["shuffled", "feature renamed", "in seconds from now on", "the month alone"],
    ]
    done = live_through(home, tmp_path, months[:4], faults)
    assert [each["champion"][0] for each in done if not each["fault"]] == ["1", "2", "3", "4"]
    assert sum(bool(each["fault"]) for each in done) == 10

    def retrained(month: pd.DataFrame) -> Any:
        pd.concat([*months[:4], month]).to_parquet(tmp_path / "months.parquet")
        return flows.retrain(str(tmp_path / "months.parquet"), SPEC, RIDGE, engine="plain")

    shuffled = months[4].assign(arr_delay=months[4]["arr_delay"].sample(frac=1, random_state=1).to_numpy())
    with pytest.raises(GateError, match=r"year 1\.4 is refused: The slope of arr_delay .* looks like shuffled"):
        retrained(shuffled)
    assert not (home.splits / "year" / "1.4").exists()
    last = retrained(months[4])
    assert (last.split.version, last.registered.version, last.judged.verdict) == ("1.4", "5", "sound")
    client = MlflowClient(home.tracking_uri)
    points = {point.step: point.value for point in client.get_metric_history(last.run_id, "month/slope")}
    assert points == last.judged.series["month/slope"]
    assert sorted(points) == [1, 2, 3, 4]
    failed = client.search_runs([client.get_run(last.run_id).info.experiment_id], "attributes.status = 'FAILED'")
    assert min(run.data.metrics.get("month/slope", 1.0) for run in failed) < 0.3
