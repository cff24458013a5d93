"""What runs steps: the same plain functions, with Prefect around them or without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._limited import within


@dataclass(frozen=True)
class Call:
    """One step to run: a plain function, its JSON arguments, what it is called, and the key of its result.

    ``key`` None means never cached. ``intact`` says whether what a cached result names still exists. ``size`` counts
    what the step does (a block of draws fits many models). ``retries`` is how often a failure is tried again that is
    not the fault of data, model or request. ``limit``: the seconds after which the step is killed.
    """

    step: Callable[..., Any]
    arguments: dict[str, Any]
    name: str
    key: str | None = None
    intact: Callable[[Any], bool] = field(default=lambda _: True)
    retries: int = 2
    size: int = 1
    limit: float | None = None

    def perform(self) -> Any:
        """Return what the step returns, within the limit where there is one."""
        return performed(self.step, self.arguments, self.limit, self.name)


def performed(step: Callable[..., Any], arguments: dict[str, Any], limit: float | None, name: str) -> Any:
    """Return what a step returns; with a limit in seconds it runs in a process that is killed when they are over."""
    return step(**arguments) if limit is None else within(limit, name, step, arguments)


@dataclass(frozen=True)
class Done:
    """What a call came to: its value or its error, and whether it came from the cache."""

    call: Call
    value: Any = None
    error: Exception | None = None
    cached: bool = False


class Engine(Protocol):
    """Runs calls; ``run`` raises what the step raised, ``map`` yields every outcome as it comes.

    ``threads`` is how many threads each call may use, so that all calls together use every core once.
    """

    name: str
    threads: int

    def run(self, call: Call) -> Done:
        """Return the outcome of one call."""

    def map(self, calls: Sequence[Call]) -> Iterator[Done]:
        """Yield the outcome of each call, in the order in which they finish."""

    def tags(self) -> dict[str, str]:
        """Return what a record says about the run that made it."""

    def note(self, key: str, markdown: str) -> None:
        """Show Markdown beside the run, where there is a page for it."""


class PlainEngine:
    """Calls the functions one after the other: no server, no cache, nothing to wait for."""

    name = "plain"

    def __init__(self) -> None:
        self.threads = os.cpu_count() or 1

    def run(self, call: Call) -> Done:
        """Return the outcome of one call; raises what it raises."""
        return Done(call, value=call.perform())

    def map(self, calls: Sequence[Call]) -> Iterator[Done]:
        """Yield the outcome of each call in order."""
        for call in calls:
            try:
                yield self.run(call)
            except Exception as error:
                yield Done(call, error=error)

    def tags(self) -> dict[str, str]:
        """Return nothing: there is no run to name."""
        return {}

    def note(self, key: str, markdown: str) -> None:
        """Show nothing: there is no page."""
