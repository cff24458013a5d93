"""Committing a generation of a split together with what was promoted on it: both, or neither, whoever is killed.

Files and a registry share no transaction. A generation lies staged until its data were found sound; the intent to
commit it is written into its folder, which is renamed; then its model is registered and promoted; then the folder gets
its final name. Whoever comes next finishes what has a signed version of this very split_id, and removes what has none.

A person may be asked first: the question, with its answer, is signed for its run and kept in its record. What is
committed then is what the question was about, or nothing.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Literal
from uuid import UUID

from evenfold.manifests import Snapshot, StoredManifest, digest_json, read_header
from evenfold.manifests.store.header import other_identity
from evenfold.manifests.store.stored import STAGED, settle
from evenfold.manifests.store.versions import version_in, versions_of
from evenfold.reports.texts import plain
from evenfold.splitters.errors import SplitError, shown
from evenfold.tasks.outcomes import UNDER_WAY, Outcome, SplitRef, committing_place
from evenfold.tasks.record.entries import split_key
from evenfold.tasks.record.models.retraining import Retraining
from evenfold.tasks.record.tracker import CONTENT, NOTE, RUN_KEY, Tracker, tracker_of
from evenfold.tasks.runtime.home import Home, locked
from evenfold.tasks.runtime.progress import unreachable
from evenfold.tasks.steps import happened, step
from evenfold.tasks.store import bucket_of
from prefect.context import FlowRunContext
from prefect.exceptions import NotPausedError, ObjectNotFound
from prefect.flow_runs import resume_flow_run, suspend_flow_run
from prefect.input import RunInput
from pydantic import Field

from .registered import ChampionChangedError, RegisteredModel, RolledBack
from .versions import ANSWERED, SIGNATURE, require_signed_version, signed_decision, who_and_why

INTENT, QUESTION = "commit.json", "question.json"


class Intent(Outcome):
    """The intent to commit a generation: which run registers its model, and where. Others may have written it."""

    name: str
    run_id: str
    store: str


@contextmanager
def committing(split: SplitRef, name: str, run_id: str) -> Iterator[None]:
    """Commit a staged split when the block ends well, in which a version of the model ``name`` may be registered.

    Where the block fails, the split is staged as before unless the version was registered by then. Raises SplitError
    where another generation was committed meanwhile.
    """
    if not split.staged:
        yield
        return
    home, final = Home.here(), Path(split.uri)
    with locked(home.locks, f"commit/{split.name}"):
        _settle_each(home, split.name)
        if final.exists():
            if other_identity(read_header(final), split.stored().header):
                raise _made_meanwhile(final)
            yield
            return
        intent = Intent(name=name, run_id=run_id, store=home.tracking_uri)
        Path(split.staged, INTENT).write_text(intent.model_dump_json(), encoding="utf-8")
        place = committing_place(final)
        settle(Path(split.staged), place)
        try:
            yield
        except Exception:
            with suppress(Exception):  # of a registry out of reach; the next that retrains does it
                _settle(home, place, Path(split.staged))
            raise
        _finish(home, place)


def settle_commits(home: Home, split: str) -> None:
    """Finish or undo what a run that was killed has begun to commit of a split."""
    if (home.splits / split).exists():
        with locked(home.locks, f"commit/{split}"):
            _settle_each(home, split)


def _settle_each(home: Home, split: str) -> None:
    for intent in sorted((home.splits / split).glob(f"*/{INTENT}")):
        place = intent.parent
        if place.name.startswith(UNDER_WAY):
            _settle(home, place)
        elif not place.name.startswith(STAGED):
            _finish(home, place)


def _settle(home: Home, place: Path, aside: Path | None = None) -> None:
    """Finish a commit whose version is registered and signed, or undo it: remove the split or put it ``aside``."""
    try:
        intent = Intent.model_validate_json((place / INTENT).read_bytes())
    except (OSError, ValueError):
        raise SplitError(f"{place / INTENT} cannot be read; remove {place}, and retrain.") from None
    if intent.store != home.tracking_uri:
        raise SplitError(
            f"{place} is being committed with the registry {intent.store}, and this one is {home.tracking_uri}; "
            "retrain there once (MLFLOW_TRACKING_URI), which finishes or undoes it."
        )
    model = RegisteredModel(Tracker(home), intent.name)
    try:
        run = model.client.get_run(intent.run_id)
    except Exception as error:  # MLflow has a kind of error of its own per store
        if unreachable(error):
            raise
        gone = f"run {intent.run_id[:8]} of {place / INTENT} is no more in MLflow"
        raise SplitError(f"{gone}; remove {place}, and retrain.") from None
    tags = {RUN_KEY: run.data.tags.get(RUN_KEY, intent.run_id), "evenfold.split_id": read_header(place)["split_id"]}
    registered = [each for each in model.versions.values() if tags.items() <= each.tags.items()]
    signed = [each for each in registered if any(tag.startswith(SIGNATURE) for tag in each.tags)]
    if not signed:  # undone, with a version that was killed before its signature: it has not served
        for each in registered:
            model.client.delete_model_version(model.name, str(each.version))
        place.rename(aside) if aside else shutil.rmtree(place)
        return
    require_signed_version(signed[0])  # one that is not ours is neither finished nor undone
    decision = signed_decision(run)
    # A run that is FINISHED has promoted already, and so may others: whoever serves instead was put there since.
    if decision and decision.promote and run.info.status != "FINISHED":
        with model.alone(), suppress(ChampionChangedError):  # then it stays beside the other, as what was not promoted
            model.make_champion(signed[0], decision)
    _finish(home, place)


def _finish(home: Home, place: Path) -> None:
    """Let a generation have its final name, and offer it to whoever shares splits."""
    final = place.with_name(place.name.removeprefix(UNDER_WAY))
    with locked(home.locks, f"name/{final.parent.name}"):
        if place != final:
            settle(place, final)
        if (bucket := bucket_of(home)) and not bucket.offer_split(final):
            shutil.rmtree(final)
            raise _made_meanwhile(final)
        (final / INTENT).unlink(missing_ok=True)


def _made_meanwhile(final: Path) -> SplitError:
    return SplitError(f"{final.parent.name} {final.name} was made by another run meanwhile; run it again.")


class Reply(RunInput):
    """The form that a person fills in at Prefect's page of a suspended run."""

    answer: Literal["approve", "refuse"]
    reason: str = Field(pattern=r"\S", max_length=1_000, description="Why; it is kept with the model.")
    name: str = Field(pattern=r"\S", max_length=100, description="Who says so.")


class Answer(Outcome):
    """Who said yes or no to a question, when and why."""

    approve: bool
    reason: str
    by: str
    at: str

    @property
    def words(self) -> str:
        """The answer in a sentence."""
        return f"{'Approved' if self.approve else 'Refused'} by {self.by} on {self.at[:10]}: {self.reason}"


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
    answer: Answer | None = None

    @property
    def seconds(self) -> float:
        """Return the time for which an answer still counts; not positive where it is too late."""
        return (datetime.fromisoformat(self.until) - datetime.now(UTC)).total_seconds()

    @property
    def pending(self) -> str:
        """Return the question, until when it is open, and how to answer at a terminal."""
        how = f"evenfold answer {self.name} --approve (or --refuse) --reason WHY"
        return f"{self.words} Until {self.until[:16]} UTC somebody may say: {how}."

    @property
    def refusal(self) -> str:
        """Return who said no, or that nobody answered, and to what."""
        no = self.answer.words.rstrip(".") if self.answer else f"Nobody answered until {self.until[:16]} UTC"
        return f"{no}. {self.words}"


def ask(outcome: Retraining, name: str, doubts: Mapping[str, str], hours: float) -> Question:
    """Ask about what is doubtful before a retraining commits; return the question, with its answer where there is one.

    A flow run of a deployment is suspended until then. The question's words are the first of the page in the run,
    which waits as SCHEDULED; the same question is asked once, and Prefect told so once.
    """
    split, decision, tracker = outcome.split, outcome.decision, tracker_of(outcome.split)
    key = digest_json([outcome.run_id, decision.champion, decision.winner, decision.promote, sorted(doubts)])
    flow_run = context.flow_run if (context := FlowRunContext.get()) else None
    question = tracker.read_ours(outcome.run_id, QUESTION, Question)
    if question is None or question.key != key:
        what = f"makes the {decision.winner}'s recipe the champion" if decision.promote else "lets rows join"
        why = " ".join(filter(None, [f"{decision.why}.", outcome.compared, *doubts.values()]))
        question = Question(
            key=key, name=name, run_id=outcome.run_id,
            words=f"{name} on {split.name} {split.version} asks before it {what}: {why}",
            until=(datetime.now(UTC) + timedelta(hours=hours)).isoformat(timespec="milliseconds"),
            flow_run=str(flow_run.id) if flow_run else "",  # the tag of the record's run may be of an earlier try
        )  # fmt: skip
        tracker.keep_signed(outcome.run_id, QUESTION, question.model_dump(mode="json"))
        tracker.keep(outcome.run_id, {"report.html": replace(outcome.as_page(), lead=question.words).html()})
    if question.answer is None and question.seconds > 0:
        tracker.tell(outcome.run_id, {NOTE: f"**Waits for an answer.** {plain(question.pending)}"})
        tracker.client.update_run(outcome.run_id, status="SCHEDULED")
        happened("retrain.asked", split.name, question.pending, UUID(key[:32]), model=name, until=question.until)
        if flow_run is not None and flow_run.deployment_id is not None and flow_run.parent_task_run_id is None:
            form = Reply.with_initial_data(description=plain(question.words))
            # This ends the process's part: the run goes on anywhere, and Prefect fails it when the time is over. By
            # its key the same question is asked once.
            reply = suspend_flow_run(wait_for_input=form, timeout=ceil(question.seconds), key=question.key)
            answer = give_answer(question, reply.answer == "approve", reply.reason, reply.name)
            return question.model_copy(update={"answer": answer})
    return question


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
    tracker = Tracker(Home.here().require_record())
    run = next(RegisteredModel(tracker, name).retrainings(" AND attributes.status = 'SCHEDULED'"), None)
    question = None if run is None else tracker.read_ours(str(run.info.run_id), QUESTION, Question)
    if question is None:
        unsigned = "" if run is None else f"; that of run {run.info.run_id[:8]} was not signed by it, or was changed"
        raise SplitError(f"no retraining of {shown(repr(name))} waits for an answer of this home{unsigned}.")
    return question


def give_answer(question: Question, approve: bool, reason: str, by: str) -> Answer:
    """Answer a question; SplitError where it was answered already, the time is over, or there is no reason."""
    tracker, about = Tracker(Home.here()), who_and_why("an answer", reason, by)
    with locked(tracker.home.locks, f"answer/{question.run_id}"):
        held = tracker.read_ours(question.run_id, QUESTION, Question)
        if held and held.answer:
            raise SplitError(f"it was answered: {held.answer.words}. A second answer does nothing.")
        if question.seconds <= 0:
            tracker.fail(question.run_id, question.refusal)
            raise SplitError(f"nobody answered until {question.until[:16]} UTC, and it is refused.")
        answer = Answer(approve=approve, **about)
        answered = question.model_copy(update={"answer": answer})
        tracker.keep_signed(question.run_id, QUESTION, answered.model_dump(mode="json"))
        tracker.tell(question.run_id, {ANSWERED: answer.words})
    return answer


class Withdrawn(Outcome):
    """Generations of a split that were taken back; the one that rows join now; and the champions that stepped down."""

    name: str
    versions: list[str]
    left: str | None
    models: list[RolledBack]
    reason: str
    by: str
    at: str


@step(run_name=lambda reference, **_: f"withdraw {reference}", retries=0)
def withdraw(reference: str, *, reason: str) -> Withdrawn:
    """Take back a generation such as ``visits@1.3`` and what grew from it: new rows join the one before from now on.

    A champion that was trained on one of them gives way to the last one that was not, or to none; who did it and why
    stands at the versions (``evenfold.withdrawn``) and the model. The generations lie aside (``.withdrawn-1.3``); a
    second try goes on. Raises SplitError without such a generation, or a reason.
    """
    about = who_and_why("a withdrawal", reason)
    home, (name, _, version) = Home.here(), reference.partition("@")
    settle_commits(home, name)
    if bucket := bucket_of(home):
        bucket.fetch_splits(name)
    folders = versions_of(home.splits, name)
    if version not in folders:
        raise SplitError(f"there is no split {reference!r}; {name} has {', '.join(sorted(folders)) or 'no version'}.")
    line = sorted((each for each in folders if version_in(each)[0] == version_in(version)[0]), key=version_in)
    older, gone = line[: line.index(version)], line[line.index(version) :]
    splits = [SplitRef.of(StoredManifest(folders[each])) for each in reversed(gone)]
    models = _models_withdrawn(home, splits, about)
    with locked(home.locks, f"commit/{name}"), locked(home.locks, f"name/{name}"):
        for split in splits:  # the newest first: what is left is a line
            folder = folders[split.version]
            Snapshot.path_of(split.plan_id, home.snapshots).unlink(missing_ok=True)
            if bucket:
                bucket.take_back(folder)
            place = folder.with_name(f".withdrawn-{folder.name}")
            shutil.rmtree(place, ignore_errors=True)  # what was withdrawn as this version before
            folder.rename(place)
    return Withdrawn(name=name, versions=gone, left=older[-1] if older else None, models=models, **about)


def _models_withdrawn(home: Home, splits: list[SplitRef], about: dict[str, str]) -> list[RolledBack]:
    """Let no version that was trained on one of these splits be champion, and mark the splits' own records."""
    if not home.is_recorded:
        return []
    tracker, models = Tracker(home), defaultdict[str, set[str]](set)
    for split in splits:
        for each in tracker.client.search_model_versions(f"tags.`evenfold.spec` = '{split.name}@{split.version}'"):
            if each.tags.get("evenfold.split_id") == split.split_id:
                models[each.name].add(str(each.version))
        for run in tracker.runs(f"tags.`{RUN_KEY}` = '{split_key(split)}'"):  # in whatever experiment
            tags = {"evenfold.record": "withdrawn split", CONTENT: ""}  # without content it is recorded anew, if made
            tracker.tell(run.info.run_id, tags)
    done = []
    for name, versions in models.items():
        model = RegisteredModel(tracker, name)
        with model.alone():
            done.append(model.take_back(versions, model.champion_before(versions), about, previous=None))
            for alias in [alias for alias, version in model.aliases.items() if version in versions]:
                model.client.delete_registered_model_alias(name, alias)
    return [each for each in done if each.withdrawn in models[each.name]]
