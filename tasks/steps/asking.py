"""Asking a person by Prefect: the flow run is suspended until its form is filled in, and goes on anywhere."""

from __future__ import annotations

from math import ceil
from typing import Literal
from uuid import UUID

from prefect.context import FlowRunContext
from prefect.exceptions import NotPausedError, ObjectNotFound
from prefect.flow_runs import resume_flow_run, suspend_flow_run
from prefect.input import RunInput
from pydantic import Field


class Reply(RunInput):
    """The form."""

    answer: Literal["approve", "refuse"]
    reason: str = Field(min_length=1, max_length=1_000, description="Why; it is kept with the model.")
    name: str = Field(min_length=1, max_length=100, description="Who says so.")


def ask_in_prefect(key: str, words: str, seconds: float) -> Reply | None:
    """Return what a person filled in; until then the flow run under way is suspended, which ends this process's part.

    Prefect fails the run after ``seconds``. ``key`` names the question: the same one is asked once. Returns None where
    no run of a deployment is under way, which alone can be suspended.
    """
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    if flow_run is None or flow_run.deployment_id is None or flow_run.parent_task_run_id is not None:
        return None
    form = Reply.with_initial_data(description=words)
    return suspend_flow_run(wait_for_input=form, timeout=ceil(seconds), key=key)


def resume(flow_run: str, reply: Reply) -> bool:
    """Let a suspended flow run go on; returns False where it is not suspended, or no server knows it."""
    try:
        resume_flow_run(UUID(flow_run), run_input=reply.model_dump())
    except (NotPausedError, ObjectNotFound):
        return False
    return True
