"""Whether what is asked of this process was asked by somebody else, and what such a request may see."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .errors import SplitError


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


def data_roots() -> list[str]:
    """Return the folders, and the buckets (``s3://name/folder``), below which a deployed run may read.

    ``EVENFOLD_DATA_ROOTS``, comma-separated; by default the working directory. The home and the shared results are
    among them, for manifests and frames lie there.
    """
    given = os.environ.get("EVENFOLD_DATA_ROOTS") or "."
    ours = [os.environ.get("EVENFOLD_HOME") or ".evenfold", os.environ.get("EVENFOLD_RESULTS") or ""]
    return [root.strip() for root in [*given.split(","), *ours] if root.strip()]


def require_readable(paths: Iterable[str | Path]) -> None:
    """Raise SplitError where a deployed run is asked for a file that does not lie below a data root.

    Links are followed first, in the paths and in the roots. To be called with every file that is about to be read,
    after a glob or a folder was looked into: not with the glob.
    """
    if not is_deployed():
        return
    roots = data_roots()
    folders = [Path(root).resolve() for root in roots if "://" not in root]
    buckets = [root.rstrip("/") + "/" for root in roots if "://" in root]
    for path in paths:
        name = str(path)
        if "://" in name:
            below = ".." not in name.split("/") and any(f"{name}/".startswith(bucket) for bucket in buckets)
        else:
            whole = Path(name).resolve()
            below = any(whole == folder or folder in whole.parents for folder in folders)
        if not below:
            raise SplitError(
                f"{name!r} is not below a folder that a deployed run may read; put the data there, or add its folder "
                "to EVENFOLD_DATA_ROOTS where the worker runs."
            )


WITHHELD = "(withheld)"
MOST_SHOWN = 100


def shown(value: Any) -> str:
    """Return a cell's value, or its beginning, for a sentence; in a deployed run what stands for it.

    For others read its errors.
    """
    text = WITHHELD if is_deployed() else str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def reason_of(error: BaseException) -> str:
    """Return what another library says went wrong, in one line; in a deployed run its kind alone.

    Such texts quote cells: could not convert string to float: 'what stood there'.
    """
    if is_deployed():
        return f"{type(error).__name__}, its text withheld"
    several = len(error.args) > 1 and all(isinstance(part, str) for part in error.args)
    parts = error.args if several else [str(error)]
    return " ".join(" ".join(parts).split())


def cause_of(error: BaseException) -> BaseException | None:
    """Return what to ``raise ... from``: the error, or in a deployed run None, whose log would quote the error."""
    return None if is_deployed() else error
