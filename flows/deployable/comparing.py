"""The flow that compares."""

from __future__ import annotations

from typing import Any

from evenfold.flows import definitions
from evenfold.flows.flow import published
from evenfold.tasks.runtime.home import Home


def _any_runs(run_a: str, run_b: str, **_: Any) -> str:
    Home.here().require_record()
    return f"{run_a} {run_b}"


compare = published(_any_runs)(definitions.compare)
