"""Whether what is asked of this process was asked by somebody else, and what such a request may see."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .errors import SplitError

LOCAL = ("file://", "local://")  # as fsspec calls what lies on this machine


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
    roots = os.environ.get("EVENFOLD_DATA_ROOTS") or "."
    ours = [os.environ.get("EVENFOLD_HOME") or ".evenfold", os.environ.get("EVENFOLD_RESULTS") or ""]
    return [root.strip() for root in [*roots.split(","), *ours] if root.strip()]


def require_readable(paths: Iterable[str | Path]) -> None:
    """Raise SplitError where a deployed run is asked for a file or address that does not lie below a data root.

    Links are followed first, in the paths and in the roots; ``file://`` is a path. To be called with what was named,
    a folder or glob as well, before anything is told of it; and then with every file that was found there.
    """
    if not is_deployed():
        return
    roots = data_roots()
    for name in map(str, paths):
        if not any(_is_below(name, root) for root in roots):
            raise SplitError(
                f"{name!r} is not below a folder that a deployed run may read; put the data there, or add its folder "
                "to EVENFOLD_DATA_ROOTS where the worker runs."
            )


def _is_below(name: str, root: str) -> bool:
    """Return whether a place is the root or below it: both of this machine, or both of one store behind one chain."""
    (chain, place, here), (before, top, folder) = _placed(name), _placed(root)
    if here and folder:
        return chain == before and here.is_relative_to(folder)
    away = here is folder and ".." not in unquote(place).split("/")  # a store may read %2e as a dot
    return away and chain == before and f"{place}/".startswith(top.rstrip("/") + "/")


def _placed(name: str) -> tuple[str, str, Path | None]:
    """Return what stands before a place (as in ``simplecache::``), the place, and its real path on this machine."""
    chain, _, place = name.rpartition("::") if "://" in name else ("", "", name)
    for scheme in LOCAL:
        place = place.removeprefix(scheme)
    return chain, place, None if "://" in place else Path(place).resolve()


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
