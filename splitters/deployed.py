"""Whether what is asked of this process was asked by somebody else."""

from __future__ import annotations

import os
import sys


def is_deployed() -> bool:
    """Return whether this code runs for a Prefect deployment, or in a process that is to behave as if it did.

    Whoever may start such a run may ask for anything that its form takes, so names and paths in it are not trusted.
    Nobody has to set that: Prefect's workers and ``serve`` start each run in a process whose environment names the
    run, pools inherit it, and on a cluster's worker the run travels with the task. ``EVENFOLD_CLOSED=1`` closes a
    process besides, such as a cluster's worker; no setting opens one.
    """
    if os.environ.get("PREFECT__FLOW_RUN_ID") or os.environ.get("EVENFOLD_CLOSED", "") not in ("", "0"):
        return True
    # Looked up, not imported: where nobody has imported Prefect, no run of it is under way.
    context = sys.modules.get("prefect.context")
    running = None if context is None else context.FlowRunContext.get()
    return getattr(getattr(running, "flow_run", None), "deployment_id", None) is not None
