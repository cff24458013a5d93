"""What a Prefect task runs: a plain step, with a line in the log about what it was and what it took."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from evenfold.estimates import EvaluationError, ModelError
from evenfold.splitters import SplitError
from prefect import get_run_logger
from prefect.exceptions import MissingContextError

from ._bucket import bucket_of
from ._engine import performed
from ._home import Home

FETCHED = "fetched"


class Step:
    """A plain step as the function of a Prefect task: importable, so that processes on any machine can run it.

    Its name keeps two steps from sharing one task key. Where results lie travels along.
    """

    def __init__(self, step: Callable[..., Any], home: Home) -> None:
        self.step = step
        self.home = home
        self.settings = {name: os.environ[name] for name in ("EVENFOLD_HOME", "EVENFOLD_RESULTS") if name in os.environ}
        self.__name__ = self.__qualname__ = step.__name__
        self.__module__ = step.__module__
        self.__doc__ = step.__doc__

    def __call__(
        self,
        key: str | None,
        arguments: dict[str, Any],
        look: bool = True,
        limit: float | None = None,
        called: str = "",
    ) -> Any:
        """Return what the step returns, or what the shared bucket keeps of it where ``look`` allows that."""
        for name, value in self.settings.items():
            os.environ.setdefault(name, value)
        started = time.monotonic()
        bucket = bucket_of(self.home) if key else None
        known = bucket.result(key) if bucket and key and look else None
        value = performed(self.step, arguments, limit, called) if known is None else known | {FETCHED: True}
        if bucket and key and known is None:
            bucket.keep(key, value)
        seconds = round(time.monotonic() - started, 3)
        log(self.__name__, **_facts(arguments), seconds=seconds, fetched=known is not None, **_peak(value))
        return value


def _facts(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what names a step in the log: the split, and the fold or the draws."""
    split = arguments.get("split")
    facts = {"split_id": split["split_id"]} if isinstance(split, dict) else {}
    named = {"i": "fold", "first": "first", "last": "last"}
    return facts | {name: arguments[key] for key, name in named.items() if key in arguments}


def _peak(value: Any) -> dict[str, Any]:
    known = isinstance(value, dict) and "peak_memory_mb" in value
    return {"peak_memory_mb": value["peak_memory_mb"]} if known else {}


def log(message: str, **facts: Any) -> None:
    """Write a line of ``message name=value ...`` to the log of the run under way, where there is one."""
    told = " ".join(f"{name}={value}" for name, value in facts.items())
    with contextlib.suppress(MissingContextError):
        get_run_logger().info(f"{message} {told}".strip())


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Return whether a step may succeed next time: not where the data, the model or the request are to blame."""
    error = state.result(raise_on_failure=False)
    if isinstance(error, EvaluationError):
        error = error.__cause__
    return isinstance(error, Exception) and not isinstance(error, (SplitError, ModelError, ValueError, TypeError))
