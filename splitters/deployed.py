"""Requests of somebody else to this process: what they may see, how large a document of theirs is, and no secrets."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from evenfold.splitters.errors import SplitError

LOCAL = ("file://", "local://")  # as fsspec calls what lies on this machine


def is_address(source: Any) -> bool:
    """Return whether a source is an address, such as s3://bucket/rows.parquet, and no path."""
    return isinstance(source, str) and "://" in source


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
    chain, _, place = name.rpartition("::") if is_address(name) else ("", "", name)
    for scheme in LOCAL:
        place = place.removeprefix(scheme)
    return chain, place, None if is_address(place) else Path(place).resolve()


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


DEEPEST = 50
MOST_VALUES = 1_000_000
PLAIN = {str, int, float, bool, type(None)}  # most values: whether another is a mapping takes ten times as long to ask
TOO_DEEP = f"values are nested more than {DEEPEST} deep; write them flatter"
TOO_MANY = f"there are more than {MOST_VALUES:,} values; keep long lists in a table"


def read_document(text: str) -> Any:
    """Return the plain values in a YAML or JSON text.

    Raises ValueError for what is neither, for values that YAML cannot make, for those that are nested more than 50
    deep, and for more than two million of them with their names, however short the text that stands for them.
    """
    import yaml

    _require_bounded_text(text)
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # !!int, !!timestamp and their like fail with whatever they meet
        raise ValueError(f"a value cannot be read ({type(error).__name__}: {str(error)[:100]})") from None
    require_bounded(document)  # what stands for others may be nested in them
    return document


def _require_bounded_text(text: str) -> None:
    """Raise ValueError for a text that opens more than 50 lists and mappings in one another, or stands for too many.

    Read to its first such place alone: what makes the values calls itself for each level, takes minutes for a line of
    brackets, and writes out what is merged (``<<``) as often as it is named. What is no YAML is left to it.
    """
    import yaml

    opened, count, held = list[tuple[str | None, int]](), 0, dict[str | None, int]()
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.NodeEvent):
                count += held.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor, count - 1))
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = opened.pop()
                held[anchor] = count - before
            if len(opened) > DEEPEST:
                raise ValueError(TOO_DEEP)
            if count > 2 * MOST_VALUES + 1:  # keys are counted here as well
                raise ValueError(TOO_MANY)
    except (yaml.YAMLError, UnicodeError):
        pass


def require_bounded(values: Any) -> None:
    """Raise ValueError for values that are nested more than 50 deep, or within themselves.

    What walks through values calls itself for each level. What stands in several places is looked through once.
    """
    level = [values]
    for _ in range(DEEPEST):
        parts = [value.values() if isinstance(value, Mapping) else value for value in level if _holds(value)]
        level = list({id(each): each for part in parts for each in part if type(each) not in PLAIN}.values())
        if not level:
            return
    if any(map(_holds, level)):
        raise ValueError(TOO_DEEP)


def _holds(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple))


# Names of parameters, by what they hold anywhere (X-Amz-Signature, aws_secret_access_key), or whole (Azure's sig). That
# a name is one is asked first: a long text without any is gone through once.
_PARTS = "password|passwd|pwd|token|secret|signature|credential|api[_-]?key|access[_-]?key"
_NAME = rf"(?<![\w.-])(?=[\w.-]+=)(?:[\w.-]*(?:{_PARTS})[\w.-]*|sig)"
_NAMED = re.compile(rf"(?i)({_NAME}=)([^\s'\"&<>]+)")
_IN_QUERY = re.compile(rf"(?i)[?&;#]({_NAME})=[^&;#]")
SHOWN = "***"
# github://owner:repository@branch is no login, nor abfs://container@account; https://token@host is one.
_LOGIN = re.compile(r"(?i)([\w+.-]*)(?<!\bgithub)://(?:[^/@]*:[^/]*|(?<=\bhttp://)[^/?#]+|(?<=\bhttps://)[^/?#]+)@")


def without_secrets(text: str) -> str:
    """Return ``text`` with ``***`` in place of what every parameter holds that is called like a secret. O(n)."""
    return _NAMED.sub(rf"\1{SHOWN}", text)


def require_no_password(address: str) -> None:
    """Raise SplitError for an address with a password, or with a secret among its parameters."""
    without = _LOGIN.sub(r"\1://", address)  # first: a password may hold a question mark
    plain = re.split("[?#]", without, maxsplit=1)[0]
    if login := _LOGIN.search(address):
        kind, what, protocol, written = "password", "login", login[1], "JSON"
    elif secret := _IN_QUERY.search(unquote(address[len(plain) :])):
        kind, what = "secret", secret[1]
        protocol = re.findall(r"([\w+.-]*)://", plain if "://" in plain else address)[-1]
        written = f'JSON ({{"params": {{"{what}": "..."}}}})' if protocol in ("http", "https") else "JSON"
    else:
        return
    raise SplitError(
        f"{plain} is given with a {kind}, which every result and record would keep; leave "
        f"the {what} out of the address, and give it as fsspec's file system takes it: as {written} in the "
        f"environment's FSSPEC_{protocol.upper()}, or in a file in ~/.config/fsspec."
    )
