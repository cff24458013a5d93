"""What nothing can decide is asked: a yes lets in what was asked about and nothing else, a no or silence refuses it."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from evenfold.estimates.intervals.months import Judgement
from evenfold.flows import GateError, Retraining
from evenfold.flows.cli import app
from evenfold.flows.outcomes import WaitingError
from evenfold.manifests.audits.findings import Finding
from evenfold.tasks import Home
from evenfold.tasks.record.models import committing
from evenfold.tasks.record.models.promoting import judge_month
from small import BAD, GOOD, STEPS, champion, killed_before, named, registry, retrain
from tables import rows
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("first")
ASK: dict[str, Any] = {"on_unclear": "ask"}
TOLD = "the champion is too weak."


@pytest.fixture(autouse=True)
def unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody be able to tell whether a month is sound."""
    monkeypatch.setattr(judge_month.fn, "fn", lambda *_, **__: Judgement(verdict="unclear", sentences=[TOLD]))


def month(n: int = 80, **how: Any) -> Retraining:
    return retrain("monthly", rows(n), GOOD, **ASK | how)


def asked(n: int = 80, **how: Any) -> str:
    with pytest.raises(WaitingError) as stopped:
        month(n, **how)
    return str(stopped.value)


def says(*words: str) -> str:
    came = CliRunner().invoke(app, ["answer", "monthly", *words])
    return came.stdout if came.exit_code == 0 else str(came.exception)


def text(home: Home, run_id: str, name: str) -> str:
    return Path(registry(home).download_artifacts(run_id, name)).read_text(encoding="utf-8")


def waiting(home: Home) -> list[Any]:
    return [run for run in named(home, "retrain/monthly") if run.info.status == "SCHEDULED"]


def test_a_yes_lets_in_what_was_asked_about(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is committed before; after it the same request goes on; who said so and why stands in four places."""
    words = asked()
    assert "monthly on monthly 1.1 asks before it makes the champion's recipe the champion" in words
    assert TOLD in words
    assert "evenfold answer monthly --approve" in words
    assert (champion(home, "monthly"), (home.splits / "monthly" / "1.1").exists()) == ("1", False)
    (run,) = waiting(home)
    assert "asks before it makes" in text(home, run.info.run_id, "report.html")
    assert TOLD in says()
    monkeypatch.setenv("EVENFOLD_USER", "ada")
    assert "Approved by ada on" in says("--approve", "--reason", "**it** is\n<b>right</b>" + "!" * 2_000)
    assert "A second answer does nothing" in says("--refuse", "--reason", "no", "--name", "eve")
    outcome = month()
    assert (champion(home, "monthly"), outcome.split.version, outcome.run_id) == ("2", "1.1", run.info.run_id)
    version = registry(home).get_model_version("monthly", "2")
    record = registry(home).get_run(run.info.run_id).data.tags
    assert outcome.decision.answer == version.tags["evenfold.answer"] == record["evenfold.answer"]
    assert outcome.decision.answer.endswith("!!")
    assert len(outcome.decision.answer) < 1_100
    page = text(home, run.info.run_id, "report.html")
    assert "&lt;b&gt;right&lt;/b&gt;" in page
    assert "<b>right" not in page + version.description + outcome.report
    assert "Approved by ada" in version.description
    assert month().reused


def test_a_month_that_was_killed_after_a_yes_is_told_as_it_was_asked(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then it is champion itself: nobody is asked about that, nor is it compared with itself."""
    retrain("weak", rows(60), BAD)
    month = partial(retrain, "weak", rows(80), GOOD, ask_above=0.1, **ASK)
    with pytest.raises(GateError):
        month(on_unclear="stop", ask_above=None)
    registry(home).set_tag(named(home, "retrain/weak")[0].info.run_id, "prefect.flow_run_id", "of this try alone")
    with pytest.raises(WaitingError):
        month()
    question = committing.waiting_question("weak")
    assert not question.flow_run
    committing.give_answer(question, True, "so", "ada")
    killed_before(*STEPS["promoted"][:2], month)
    monkeypatch.setattr(judge_month.fn, "fn", lambda *_, **__: Judgement())  # as nothing joins any more
    outcome = month()
    assert outcome.compared in question.words
    assert (outcome.growth.added, outcome.judged.sentences, outcome.champion.version) == (20, [TOLD], "1")


@pytest.mark.parametrize("how", ["refused", "late"])
def test_a_no_and_silence_refuse(home: Home, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """For good, and nothing is left but the record; a later yes does nothing; --no-gates asks nobody."""
    asked()
    if how == "late":
        monkeypatch.setattr(committing.Question, "seconds", property(lambda _: -1.0))
    else:
        assert "Refused by eve" in says("--refuse", "--reason", "in hours", "--name", "eve")
    late = says("--approve", "--reason", "yes", "--name", "eve")
    assert late.startswith("it was answered: Refused by eve" if how == "refused" else "nobody answered until"), late
    for _ in range(2):
        with pytest.raises(GateError, match="Refused by eve on .*in hours" if how == "refused" else "Nobody answered"):
            month()
    assert (champion(home, "monthly"), waiting(home)) == ("1", [])
    assert not (home.splits / "monthly" / "1.1").exists()
    assert month(gates=False).split.version == "1.1"


def _forged(home: Home, run_id: str) -> None:
    """Write as somebody who may edit MLflow, and knows the question, but has no key of ours."""
    question = json.loads(text(home, run_id, "question.json"))
    answer = {"approve": True, "reason": "so", "by": "eve", "at": "2026-05-31T00:00:00+00:00"}
    registry(home).log_dict(run_id, question | {"answer": answer}, "question.json")


def _of_another(home: Home, run_id: str) -> None:
    """Carry the signed yes to another month's question to this one's run."""
    asked(99)
    assert "Approved" in says("--approve", "--reason", "of the other")
    (theirs,) = [run.info.run_id for run in waiting(home) if run.info.run_id != run_id]
    registry(home).log_text(run_id, text(home, theirs, "question.json"), "question.json")


def _to_other_words(home: Home, run_id: str) -> None:
    """Have somebody say yes to other words than were asked."""
    words = text(home, run_id, "question.json").replace(TOLD, "all is well.")
    registry(home).log_text(run_id, words, "question.json")
    assert "was not signed by it, or was changed" in says("--approve", "--reason", "yes")


@pytest.mark.parametrize("spoil", [_forged, _of_another, _to_other_words])
def test_an_answer_that_is_not_ours_or_to_something_else_does_nothing(home: Home, spoil: Any) -> None:
    """It is asked still."""
    asked()
    spoil(home, waiting(home)[0].info.run_id)
    asked()
    assert champion(home, "monthly") == "1"


def test_a_yes_is_of_the_champion_that_it_was_given_against(home: Home) -> None:
    """Where another became champion since, the decision is made again, and asked again."""
    asked()
    assert "Approved" in says("--approve", "--reason", "against version 1")
    other = retrain("monthly", rows(80), GOOD, run_label="other", gates=False)
    assert (other.split.version, champion(home, "monthly")) == ("1.1", "2")
    asked(99)
    (run,) = [each for each in waiting(home) if "1.2" in each.data.tags["evenfold.spec"]]
    assert committing.waiting_question("monthly").run_id == run.info.run_id


def test_warnings_and_large_steps_are_doubts(first: Retraining) -> None:
    """Each by its name; errors stop by themselves, and notes are no doubts."""
    found = [Finding(check=each, severity=each, gate="passed", message=f"a {each}") for each in ("warning", "note")]
    step = replace(first.decision, winner="candidate", difference=0.2)
    outcome = first.model_copy(
        update={"audit": first.audit.model_copy(update={"findings": found}), "decision": step, "judged": Judgement()}
    )
    assert outcome.doubts(None, 0.2) == {"warning": "a warning"}
    assert set(outcome.doubts(outcome.audit, 0.1)) == {"warning", "ask_above"}
