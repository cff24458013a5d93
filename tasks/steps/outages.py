"""Outages: errors where what is asked may answer later and nobody's request is to blame; and waiting for the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from evenfold.estimates import EvaluationError
from evenfold.tasks.runtime.home import redacted
from evenfold.tasks.runtime.progress import log

R = TypeVar("R")
# Retries of a flow of Prefect's have one delay, and try a user's mistake as often.
AGAIN_SECONDS = (60.0, 300.0, 900.0)
SOON_SECONDS = (1.0, 3.0)


def unreachable(error: BaseException | None) -> bool:
    """Return whether an error comes from a server or store that could not be reached, is overloaded, or failed."""
    while error is not None:
        kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__}
        client = type(error).__module__.partition(".")[0] in _CLIENTS
        busy = "database is locked" in str(error)  # as SQLite says of a store that another process holds
        if client or busy or isinstance(error, ConnectionError) or kinds & _ERRORS:
            return True
        answer = getattr(error, "response", None)
        if ("httpx", "HTTPStatusError") in kinds and answer is not None and answer.status_code >= 500:
            return True  # as Prefect answers while its database is away
        error = error.__cause__ or error.__context__
    return False


_CLIENTS = ("requests", "urllib3", "http")
_ERRORS = {("httpx", "TransportError"), ("botocore", "HTTPClientError"), ("aiohttp", "ClientConnectionError")}


def through_outages(work: Callable[[], R]) -> R:
    """Return what ``work`` returns; it must be able to go on where it stopped.

    Where a server is out of reach, a deployed run waits 1, 5 and 15 minutes and does it again, and ``plain`` 1 and 3
    seconds; at a terminal, where Prefect tries tasks again, and in the end, the outage is an EvaluationError.
    """
    from prefect.context import FlowRunContext  # whoever only asks what an error is does without it

    context = FlowRunContext.get()
    run = context.flow_run if context else None
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
        f"a server or store that this needs is busy or out of reach ({_said(error)}); what is finished is kept: "
        "run it again."
    )


def _said(error: Exception) -> str:
    return redacted(str(error).strip().partition("\n")[0][:300]) or type(error).__name__
