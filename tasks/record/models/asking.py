"""A question to a person before a retraining commits, and the answer: each signed for its run, and kept in its record.

Whoever answers names a question and says yes or no; what is committed then is what the question was about, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Literal
from uuid import UUID

from evenfold.manifests import digest_json
from evenfold.reports.texts import plain
from evenfold.splitters import SplitError
from evenfold.splitters.errors import shown
from evenfold.tasks.outcomes import Outcome
from evenfold.tasks.record.models.retraining import Retraining
from evenfold.tasks.record.tracker import NOTE, Tracker, tracker_of
from evenfold.tasks.runtime.home import Home, locked
from evenfold.tasks.steps import happened
from prefect.context import FlowRunContext
from prefect.exceptions import NotPausedError, ObjectNotFound
from prefect.flow_runs import resume_flow_run, suspend_flow_run
from prefect.input import RunInput
from pydantic import Field

from .registered import RegisteredModel
from .versions import ANSWERED, one_line

QUESTION, ANSWER = "question.json", "answer.json"
MOST_REASON, MOST_NAME = 1_000, 100  # characters


class Reply(RunInput):
    """The form that a person fills in at Prefect's page of a suspended run."""

    answer: Literal["approve", "refuse"]
    reason: str = Field(pattern=r"\S", max_length=MOST_REASON, description="Why; it is kept with the model.")
    name: str = Field(pattern=r"\S", max_length=MOST_NAME, description="Who says so.")


class Question(Outcome):
    """The question of a retraining before it commits; ``key`` names its run, its decision and its doubts.

    ``until``: when it is refused without an answer. ``flow_run``: Prefect's, empty where none was under way.
    """

    key: str
    name: str
    words: str
    until: str
    run_id: str
    flow_run: str = ""

    @property
    def seconds(self) -> float:
        """Return the time for which an answer still counts; not positive where it is too late."""
        return (datetime.fromisoformat(self.until) - datetime.now(UTC)).total_seconds()

    @property
    def pending(self) -> str:
        """Return the question, until when it is open, and how to answer at a terminal."""
        how = f"evenfold answer {self.name} --approve (or --refuse) --reason WHY"
        return f"{self.words} Until {self.until[:16]} UTC somebody may say: {how}."

    def refused(self, answer: Answer | None) -> str:
        """Return who said no, or that nobody answered, and to what."""
        no = answer.words.rstrip(".") if answer else f"Nobody answered until {self.until[:16]} UTC"
        return f"{no}. {self.words}"


class Answer(Outcome):
    """Who said yes or no to the question of a ``key``, when and why."""

    key: str
    approve: bool
    reason: str
    by: str
    at: str

    @property
    def words(self) -> str:
        """The answer in a sentence."""
        return f"{'Approved' if self.approve else 'Refused'} by {self.by} on {self.at[:10]}: {self.reason}"


def ask(outcome: Retraining, name: str, doubts: Mapping[str, str], hours: float) -> tuple[Question, Answer | None]:
    """Ask about what is doubtful before a retraining commits; return the question, and the answer where there is one.

    A flow run of a deployment is suspended until then. The question's words are the first of the page in the run,
    which waits as SCHEDULED; the same question is asked once, and Prefect told so once.
    """
    split, decision, tracker = outcome.split, outcome.decision, tracker_of(outcome.split)
    key = digest_json([outcome.run_id, decision.champion, decision.winner, decision.promote, sorted(doubts)])
    question = tracker.read_ours(outcome.run_id, QUESTION, Question)
    if question is None or question.key != key:
        what = f"makes the {decision.winner}'s recipe the champion" if decision.promote else "lets rows join"
        why = " ".join(filter(None, [f"{decision.why}.", outcome.compared, *doubts.values()]))
        question = Question(
            key=key, name=name, run_id=outcome.run_id,
            words=f"{name} on {split.name} {split.version} asks before it {what}: {why}",
            until=(datetime.now(UTC) + timedelta(hours=hours)).isoformat(timespec="milliseconds"),
            flow_run=tracker.client.get_run(outcome.run_id).data.tags.get("prefect.flow_run_id", ""),
        )  # fmt: skip
        tracker.keep_signed(outcome.run_id, QUESTION, question.model_dump(mode="json"))
        tracker.keep(outcome.run_id, {"report.html": replace(outcome.as_page(), lead=question.words).html()})
    answer = _answer(tracker, question)
    if answer is None and question.seconds > 0:
        tracker.tell(outcome.run_id, {NOTE: f"**Waits for an answer.** {plain(question.pending)}"})
        tracker.client.update_run(outcome.run_id, status="SCHEDULED")
        happened("retrain.asked", split.name, question.pending, UUID(key[:32]), model=name, until=question.until)
        context = FlowRunContext.get()
        flow_run = context.flow_run if context else None
        if flow_run is not None and flow_run.deployment_id is not None and flow_run.parent_task_run_id is None:
            form = Reply.with_initial_data(description=plain(question.words))
            # This ends the process's part: the run goes on anywhere, and Prefect fails it when the time is over. By
            # its key the same question is asked once.
            reply = suspend_flow_run(wait_for_input=form, timeout=ceil(question.seconds), key=question.key)
            answer = give_answer(question, reply.answer == "approve", reply.reason, reply.name)
    return question, answer


def resume(question: Question, answer: Answer) -> bool:
    """Let the flow run that asked go on; returns False where it is not suspended, or no server knows it."""
    reply = Reply(answer="approve" if answer.approve else "refuse", reason=answer.reason, name=answer.by)
    try:
        resume_flow_run(UUID(question.flow_run), run_input=reply.model_dump())
    except (NotPausedError, ObjectNotFound):
        return False
    return True


def waiting_question(name: str) -> Question:
    """Return the newest question of a name; SplitError where none waits that this home or its team has asked."""
    home = Home.here()
    home.require_record()
    tracker = Tracker(home)
    run = next(RegisteredModel(tracker, name).retrainings(" AND attributes.status = 'SCHEDULED'"), None)
    question = None if run is None else tracker.read_ours(str(run.info.run_id), QUESTION, Question)
    if question is None:
        unsigned = "" if run is None else f"; that of run {run.info.run_id[:8]} was not signed by it, or was changed"
        raise SplitError(f"no retraining of {shown(repr(name))} waits for an answer of this home{unsigned}.")
    return question


def give_answer(question: Question, approve: bool, reason: str, by: str) -> Answer:
    """Answer a question; SplitError where it was answered already, the time is over, or there is no reason."""
    tracker, at = Tracker(Home.here()), datetime.now(UTC).isoformat(timespec="seconds")
    reason, by = one_line(reason, MOST_REASON), one_line(by, MOST_NAME)
    with locked(tracker.home.locks, f"answer/{question.run_id}"):
        if earlier := _answer(tracker, question):
            raise SplitError(f"it was answered: {earlier.words}. A second answer does nothing.")
        if question.seconds <= 0:
            tracker.fail(question.run_id, question.refused(None))
            raise SplitError(f"nobody answered until {question.until[:16]} UTC, and it is refused.")
        if not (reason and by):
            raise SplitError("an answer needs a reason and a name, which are kept; pass both (--reason, --name).")
        answer = Answer(key=question.key, approve=approve, reason=reason, by=by, at=at)
        tracker.keep_signed(question.run_id, ANSWER, answer.model_dump(mode="json"))
        tracker.tell(question.run_id, {ANSWERED: answer.words})
    return answer


def _answer(tracker: Tracker, question: Question) -> Answer | None:
    answer = tracker.read_ours(question.run_id, ANSWER, Answer)
    return answer if answer is not None and answer.key == question.key else None
