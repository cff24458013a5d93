"""What a deployed run does that nobody watches: it leaves its work to a newer one, and it waits through outages."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from evenfold.estimates import EvaluationError
from evenfold.splitters import EvenfoldError
from evenfold.tasks.runtime.progress import log
from evenfold.tasks.runtime.redaction import redacted
from evenfold.tasks.steps.outages import unreachable
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.context import FlowRunContext
from prefect.states import Cancelled, Failed

R = TypeVar("R")
AGAIN_SECONDS = (60.0, 300.0, 900.0)
SOON_SECONDS = (1.0, 3.0)


def run_under_way() -> Any:
    """Return the flow run under way in this process, or None."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


def has_tries_left() -> bool:
    """Return whether Prefect will try the run under way again, which it does of what is raised, not of a state."""
    run = run_under_way()
    return run is not None and run.run_count <= (run.empirical_policy.retries or 0)


def left_to_another() -> Any:
    """Return the state in which the run under way ends at once, or None where it is its turn.

    A newer run of the same deployment and request that waits does the work.
    """
    run = run_under_way()
    if run is None or run.deployment_id is None:
        return None
    asked = {
        "deployment_id": {"any_": [run.deployment_id]},
        "state": {"type": {"any_": ["SCHEDULED"]}},
        "expected_start_time": {"before_": datetime.now(UTC)},
    }
    waiting = get_client(sync_client=True).read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(asked))
    due = run.expected_start_time
    newer = [other for other in waiting if due and other.expected_start_time and other.expected_start_time > due]
    if any(other.parameters == run.parameters and other.id != run.id for other in newer):
        return Cancelled(message="A newer run of the same request waits, and does the work.")
    return None


def refuse_unknown(flow: Any, flow_run: Any, state: Any) -> None:
    """End a run that names a parameter which the flow does not have as failed, with a sentence; a hook of Prefect's.

    Prefect's engine ends before it begins such a run, and calls that a crash.
    """
    if not flow_run.parameters.keys() - flow.asked.model_fields.keys():
        return
    try:
        flow.asked.read(flow_run.parameters)
    except EvenfoldError as error:
        state = Failed(message=str(error))
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, state)
        for hook in flow.on_failure_hooks:
            hook(flow, flow_run, state)


def through_outages(work: Callable[[], R]) -> R:
    """Return what ``work`` returns; it must be able to go on where it stopped.

    Where a server is out of reach, a deployed run waits 1, 5 and 15 minutes and does it again, and ``plain`` 1 and 3
    seconds; at a terminal, where Prefect tries tasks again, and in the end, the outage is an EvaluationError.
    """
    run = run_under_way()
    for seconds in SOON_SECONDS if run is None else AGAIN_SECONDS if run.deployment_id is not None else ():
        try:
            return work()
        except Exception as error:
            if not unreachable(error):
                raise
            log("a server is out of reach", again_in_seconds=seconds, error=_said(error))
            time.sleep(seconds)
    try:
        return work()
    except Exception as error:
        raise outage_of(error) from error


def outage_of(error: Exception) -> EvaluationError:
    """Return what is said of an outage; raises an error that is none."""
    if isinstance(error, EvaluationError) or not unreachable(error):
        raise error
    return EvaluationError(
        f"a server that this needs is out of reach ({_said(error)}); what is finished is kept: run it again."
    )


def _said(error: Exception) -> str:
    return redacted(str(error).strip().partition("\n")[0][:300]) or type(error).__name__
