"""The commands of operations: servers and stores, what they hold, and what happens to models in the registry."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from evenfold.manifests.store.versions import recorded_splits
from evenfold.reports.terminal import Words, errors
from evenfold.splitters.errors import SplitError

from evenfold import flows, tasks

from .deploying import server_client
from .terminal import Output, option

ModelName = Annotated[str, option("Name of the model in the registry.", argument="NAME")]
SplitName = Annotated[str, option("name@1.1, a name, a split_id or a plan_id.", argument="SPLIT")]
Reason = Annotated[str, option("Why; it is kept in the registry with your name.")]


def up(stop: Annotated[bool, option("End it now.")] = False) -> Output:
    """Keep Prefect's server up for this home, so that commands need not start one each.

    Later commands with the same home find and use it; it listens on this machine alone.

    Example: evenfold up --stop
    """
    from evenfold.tasks.runtime.server import keep_server, kept_server, stop_server

    home = tasks.Home.here()
    if stop:
        ended = stop_server(home)
        return Output({"stopped": ended}, "ended" if ended else "none was up")
    if os.environ.get("PREFECT_API_URL"):
        raise SplitError("PREFECT_API_URL names a server already, which every command uses; unset it to keep one here.")
    earlier = kept_server(home)
    server = earlier or keep_server(home)
    until = "since before" if earlier else "until evenfold up --stop"
    about = {"address": server.address, "pid": server.pid, "started": earlier is None}
    return Output(about, f"Prefect's server is up at {server.address}, {until}")


def doctor() -> Output:
    """Look at servers, stores, versions and schedules; exit code 1 where something is wrong.

    Example: evenfold doctor
    """
    from evenfold.tasks.doctor import examine

    findings = examine(tasks.Home.here())

    def show(out: Words, _: object) -> None:
        for finding in findings:
            mark, style = ("ok  ", "") if finding.ok else ("BAD ", "red")
            out.say(f"{mark} {finding.check}: {finding.message}", style)
            if finding.fix:
                out.say(f"       {finding.fix}")

    failed = not all(finding.ok for finding in findings)
    return Output([asdict(finding) for finding in findings], show, failed=failed)


def clean(
    older_than: Annotated[str, option("What nobody wrote or read for so long: 30d, 12h or 4w.")] = "30d",
    dry_run: Annotated[
        bool, option("Say what would be removed, and remove nothing.", names=("--dry-run/--no-dry-run",))
    ] = False,
) -> Output:
    """Remove old cached results, scores and data, and the embedded Prefect's history; never manifests or records.

    Example: evenfold clean --older-than 30d --dry-run
    """
    from evenfold.splitters.times import age_of
    from evenfold.tasks.runtime.server import forget_runs
    from evenfold.tasks.store import clean as remove

    home, age = tasks.Home.here(), age_of(older_than)
    sizes = remove(home, age, dry_run)
    runs = forget_runs(home, age, dry_run)
    about = {"files": len(sizes), "bytes": sum(sizes), "flow_runs": runs, "dry_run": dry_run}
    amounts = f"{len(sizes):,} files, {sum(sizes) / 1e6:,.1f} MB, {runs:,} runs of Prefect's history"
    return Output(about, f"{'would remove' if dry_run else 'removed'} {amounts}")


def load(reference: SplitName) -> Output:
    """Find a split that another project recorded in MLflow, and download its manifest.

    Example: evenfold load flights@1.0
    """
    split = flows.load_split(reference)
    about = {"name": split.name, "version": split.version, "split_id": split.split_id, "uri": str(split.uri)}
    words = f"{split.name} {split.version}: split_id {split.split_id[:16]}\n  manifest {split.uri}"
    return Output(about, words)


def leaderboard(
    split: SplitName,
    metric: Annotated[str | None, option("The score to rank by; by default the first of the newest.")] = None,
    most: Annotated[int, option("How many models to list.", least=1)] = 20,
) -> Output:
    """Rank every model that was ever judged on a split, whichever project recorded it.

    Example: evenfold leaderboard flights@1.0 --metric r2
    """
    from evenfold.tasks.record.reading import leaderboard as ranked

    return Output(ranked(split, metric, most))


def rollback(
    name: ModelName, reason: Reason,
    to: Annotated[str | None, option("The version; the champion before this one if left out.")] = None,
) -> Output:  # fmt: skip
    """Make an earlier version of a model the champion again, and record who did it and why.

    Example: evenfold rollback flights --reason "the feed of May was in hours"
    """
    done = tasks.roll_back.fn(name, to=to, reason=reason)
    gone = f", version {done.withdrawn} was withdrawn" if done.withdrawn else ", put there"
    return Output(done, f"{done.name}: version {done.champion} is the champion again{gone} by {done.by}.")


def trust(
    reference: Annotated[str, option("A version in the registry.", argument="NAME@VERSION")],
    yes: Annotated[bool, option("Do not ask.")] = False,
) -> Output:
    """Sign a version of a model as made here, after a look at it: from then on its recipe and record are used.

    For versions that another home made, or that were made before versions were signed.

    Example: evenfold trust flights@3
    """
    from evenfold.tasks.record.models.versions import look_at
    from evenfold.tasks.record.tracker import Tracker

    name, _, version = reference.rpartition("@")
    sha256, recipe, sign = look_at(Tracker(tasks.Home.here().require_record()), name, version)
    model = f"the model with SHA-256 {sha256}" if sha256 else "no model, for it holds no skops file,"
    what = f"{ascii(name)[1:-1]} version {version}: {model} and the recipe {json.dumps(recipe)}"
    errors().print(f"{what} will be trusted as your own code is.")
    if not yes and not sys.stdin.isatty():
        raise SplitError("nobody is there to be asked; where you have looked at it, say --yes.")
    signed = yes or typer.confirm("Sign it?", err=True)
    if signed:
        sign()
    about = {"name": name, "version": version, "sha256": sha256, "recipe": recipe, "signed": signed}
    return Output(about, "signed" if signed else "not signed")


def withdraw(
    split: Annotated[str, option("The generation that was let in.", argument="NAME@VERSION")], reason: Reason
) -> Output:
    """Take back a generation of a split, what grew from it, and what was promoted on them.

    The former champion serves again, and new rows join the generation before.

    Example: evenfold withdraw flights@1.3 --reason "the feed of May was in hours"
    """
    done = tasks.withdraw.fn(split, reason=reason)
    left = f"new rows join {done.name}@{done.left}" if done.left else f"{done.name} is split anew"
    words = [f"{done.name}: {', '.join(done.versions)} withdrawn by {done.by}; {left} from now on."]
    for model in done.models:
        now = f"version {model.champion} is the champion again" if model.champion else "no version is champion"
        words.append(f"{model.name}: {now}, version {model.withdrawn} was withdrawn.")
    return Output(done, "\n".join(words))


def champion(
    name: ModelName,
    as_of: Annotated[str | None, option("At the end of this day (UTC); now if left out.", "DATE")] = None,
) -> Output:
    """Say which version of a model is the champion, or was on a day, since when and why.

    Example: evenfold champion flights --as-of 2026-05-31
    """
    served = tasks.champion_as_of(name, as_of or datetime.now(UTC))
    when = f"was the champion on {as_of}" if as_of else "is the champion"
    since = f", since {served.since}: {served.why}" if served.version else ""
    words = f"{name}: {f'version {served.version}' if served.version else 'no version'} {when}{since}."
    return Output(served, f"{words} {served.note}".strip())


def replay(
    name: ModelName, version: Annotated[str, option("The version that was promoted.", argument="VERSION")]
) -> Output:
    """Make the decision of a past promotion again from the record; exit code 1 where it is not the same.

    Example: evenfold replay flights 3
    """
    replayed = tasks.replay(name, version)
    return Output(replayed, replayed.words, failed=replayed.verdict != "same")


def answer(
    name: ModelName,
    approve: Annotated[
        bool | None, option("Yes or no; without it the question is shown.", names=("--approve/--refuse",))
    ] = None,
    reason: Reason = "",
    by: Annotated[str, option("Who says so.  [default: EVENFOLD_USER, or the account's]", names=("--name",))] = "",
) -> Output:
    """Say yes or no to what a retraining asks (--on-unclear ask), the newest of a name; it goes on where it waits.

    Where a deployed run is suspended it is resumed; elsewhere the same retrain command goes on.

    Example: evenfold answer flights --approve --reason "the airline merged in May"
    """
    from evenfold.tasks.record.models.committing import give_answer, resume, waiting_question

    question = waiting_question(name)
    if approve is None:
        return Output(question, question.pending)
    answered = give_answer(question, approve, reason, by)
    goes_on = False
    if question.flow_run:
        with suppress(SplitError), server_client():  # where there is none, nothing of it is suspended
            goes_on = resume(question, answered)
    where = "the suspended run goes on" if goes_on else "the same retrain command goes on"
    return Output(answered, f"{answered.words}; {where}.")


def list_(
    every: Annotated[bool, option("Every one, not the newest of each kind alone.", names=("--all",))] = False,
) -> Output:
    """List splits, evaluations, tunings, scores of later rows and models, with the short ids that commands accept.

    Example: evenfold list
    """
    from evenfold.tasks.record.reading import recorded_models, recorded_runs

    home = tasks.Home.here()
    looks = home.is_recorded  # looking makes no store
    kinds = {"evaluations": "evaluation", "tunings": "tuning", "later rows": "later rows"}
    runs = {title: recorded_runs(home, kind) if looks else [] for title, kind in kinds.items()}
    listed = {"splits": recorded_splits(home.splits), **runs, "models": recorded_models(home) if looks else []}

    def show(out: Words, _: object) -> None:
        out.show_records(listed, None if every else 20)
        if not any(listed.values()):
            out.say(f"nothing below {home.path} yet; begin with: evenfold split FILE")

    return Output(listed, show)
