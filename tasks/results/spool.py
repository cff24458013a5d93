"""Records that MLflow's server could not take: kept below the home, and sent by the next run that reaches it."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec

from evenfold.tasks.runtime.files import write_aside
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.locks import locked
from evenfold.tasks.runtime.redaction import redacted
from pydantic import validate_call
from pydantic_core import to_jsonable_python

WAIT_SECONDS = (1.0, 3.0)
P = ParamSpec("P")
_RECORDERS: dict[str, Callable[..., str]] = {}


def survives_outage(record: Callable[P, str]) -> Callable[P, str]:
    """Return ``record`` such that a server that does not answer costs nothing but time.

    It is tried three times; then the record is kept in ``<home>/spool``, and what is returned says so instead of
    naming a run. The next record that gets through to the same server sends what is kept, oldest first. Every other
    error is raised.
    It must be idempotent, pydantic must be able to write and read its arguments as JSON, and it must stand in
    ``record/recorders``: whoever sends what is kept knows all that stand there.
    """

    @functools.wraps(record)
    def run(*args: P.args, **kwargs: P.kwargs) -> str:
        home = Home.here()
        try:
            run_id = _tried(partial(record, *args, **kwargs))
        except Exception as error:
            if not unreachable(error):
                raise
            arguments = inspect.signature(record).bind(*args, **kwargs).arguments
            return _keep(record.__name__, arguments, home)
        replay(home)
        return run_id

    _RECORDERS[record.__name__] = record
    return run


def _tried(record: Callable[[], str]) -> str:
    for seconds in WAIT_SECONDS:
        try:
            return record()
        except Exception as error:
            if not unreachable(error):
                raise
            time.sleep(seconds)
    return record()


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


def _keep(name: str, arguments: Mapping[str, object], home: Home) -> str:
    path = home.spool / f"{time.time_ns()}-{os.getpid()}-{name}.json"
    store = "" if home.tracks_here else home.tracking_uri
    record = {"step": name, "store": store, "arguments": arguments}
    text = json.dumps(to_jsonable_python(record, inf_nan_mode="constants"))
    home.make()
    home.spool.mkdir(mode=0o700, exist_ok=True)

    def write(aside: Path) -> None:
        aside.touch(mode=0o600)  # for its owner alone: a record holds what its caller was given
        aside.write_text(text, encoding="utf-8")

    write_aside(path, write)
    message = f"kept in {home.spool} until MLflow at {home.tracking_uri} answers; the next run sends it"
    logging.getLogger("evenfold").warning("the record is %s", message)
    return f"({message})"


def waiting(home: Home) -> list[Path]:
    """Return the records that wait to be sent, oldest first."""
    return sorted(home.spool.glob("[0-9]*.json"))


def stores_waited_for(home: Home) -> list[str]:
    """Return the addresses of MLflow that records wait for, as they are shown, each once."""
    return sorted({_meant_for(_read(path), home) for path in waiting(home)})


def _meant_for(kept: _Kept | None, home: Home) -> str:
    """Return the address of the store that a record waits for, as it is shown, without a slash at its end."""
    store = kept.store if kept else None
    return (home.tracking_uri if store is None else store or home.own_store).rstrip("/")


def put_aside(home: Home) -> list[Path]:
    """Return the records that were put aside: what is none, and what the server was there for and could not be sent."""
    return sorted(home.spool.glob("un*-[0-9]*.json"))


def replay(home: Home) -> int:
    """Send what waits for this home's MLflow, and return how many records were sent; what waits for another stays.

    It stops at the first that finds the server out of reach. One that fails for another reason would fail for ever:
    it is put aside as ``unsendable-…``, and what is behind it is sent.
    """
    if not waiting(home):
        return 0
    with locked(home.path / "locks", "spool"):
        return sum(1 for _ in _sent(home))


def _sent(home: Home) -> Iterator[Path]:
    for path in waiting(home):
        kept = _read(path)
        if kept is None or kept.step not in _RECORDERS:
            _put_aside(path, "unreadable", "could not be read", "it is no record of evenfold's.")
            continue
        if _meant_for(kept, home) != home.tracking_uri.rstrip("/"):
            continue
        try:
            validate_call(_RECORDERS[kept.step])(**kept.arguments)
        except Exception as error:
            reason = redacted(str(error) or type(error).__name__)
            if unreachable(error):
                logging.getLogger("evenfold").warning("%s could not be sent: %s", path, reason)
                return
            _put_aside(path, "unsendable", "could not be sent", reason)
            continue
        # After it was sent: a kill in between sends it again, and a recorder that was done already changes nothing.
        path.unlink()
        yield path


class _Kept(NamedTuple):
    """What a record waits for: the name of a recorder, what it is called with, and MLflow's store.

    The home's own store has no name, for it moves with the home. Records of earlier versions hold none (None), and go
    to whichever answers.
    """

    step: str
    store: str | None
    arguments: Mapping[str, object]


def _read(path: Path) -> _Kept | None:
    """Return what a file keeps; None where it is no record."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        store = record.get("store")
        return _Kept(str(record["step"]), store if store is None else str(store), _today(record["arguments"]))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _put_aside(path: Path, how: str, what: str, reason: str) -> None:
    aside = path.replace(path.with_name(f"{how}-{path.name}"))
    logging.getLogger("evenfold").warning("%s %s and was put aside as %s: %s", path, what, aside, reason)


def _today(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a record as they are called today; earlier ones named the table and the home apart."""
    if "home" not in arguments:
        return arguments
    renamed = {name: value for name, value in arguments.items() if name not in ("home", "data")}
    return renamed | {"split": arguments["split"] | {"data": arguments["data"]}}
