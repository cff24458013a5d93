"""Errors and results as people meet them, the words of their sentences, and what others are not told nor may read."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote


class EvenfoldError(Exception):
    """Every error that evenfold raises on purpose: its message is a sentence, fit to be shown to who asked.

    Each is also a ValueError (what was given is at fault) or a RuntimeError (it was fine, and something failed). Bad
    fields of a SplitSpec or ModelSpec are pydantic's ValidationError, a conformance check's fault an AssertionError.
    """


class SplitError(EvenfoldError, ValueError):
    """Rows cannot be split as asked: what is wrong, in numbers, then what would work."""


class ModelError(EvenfoldError, ValueError):
    """Bad input, found before any model is fitted: what is wrong, in numbers, then what would work."""


class EvaluationError(EvenfoldError, RuntimeError):
    """A model, a metric or a store that failed: where, why, then what would work."""


def meant(
    name: str, choices: Iterable[str], *, most: int = 2, cutoff: float = 0.4, show: Callable[[str], str] = str
) -> str:
    """Return ``did you mean a or b?`` of the known names that are like ``name``; nothing where none is."""
    close = get_close_matches(name, choices, n=most, cutoff=cutoff)
    return f"did you mean {' or '.join(map(show, close))}?" if close else ""


def amount(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 row``, ``1,204 rows``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def verb(n: int, one: str, several: str) -> str:
    """Return the form of a verb that goes with ``n`` things."""
    return one if n == 1 else several


def listed(things: Iterable[Any], most: int = 5) -> str:
    """Return ``a, b and c``; where there are more than ``most``, the first of them and how many follow."""
    names = [str(thing) for thing in things]
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def named_apart(labels: Iterable[str]) -> dict[str, str]:
    """Return each class, level or column in the letters that a metric's name may have: those of any alphabet.

    What would coincide is numbered in the order given (``C__``, ``C__ 2``), so that none overwrites another. O(n).
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for label in dict.fromkeys(labels):
        plain = re.sub(r"[^\w .-]", "_", label)[:60]
        plain = "_" if plain in ("", ".", "..") else plain  # which a path cannot end in
        numbered = (f"{plain} {number}" for number in itertools.count(2))
        names[label] = next(name for name in itertools.chain([plain], numbered) if name not in taken)
        taken.add(names[label])
    return names


def is_deployed() -> bool:
    """Return whether this code runs for a Prefect deployment, or as if it did: then names and paths are not trusted.

    Prefect names the run in its process's environment, which pools inherit; on a cluster's worker it travels with the
    task. ``EVENFOLD_CLOSED=1`` closes a process besides; no setting opens one.
    """
    if os.environ.get("PREFECT__FLOW_RUN_ID") or os.environ.get("EVENFOLD_CLOSED", "") not in ("", "0"):
        return True
    # Looked up, not imported: where nobody has imported Prefect, no run of it is under way.
    context = sys.modules.get("prefect.context")
    running = None if context is None else context.FlowRunContext.get()
    return getattr(getattr(running, "flow_run", None), "deployment_id", None) is not None


WITHHELD = "(withheld)"
MOST_SHOWN = 100


def shown(value: Any) -> str:
    """Return a cell's value, or its beginning, for a sentence; what stands for it in a deployed run, as others read."""
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


# Names of parameters, by what they hold anywhere (X-Amz-Signature, aws_secret_access_key), or whole (Azure's sig). That
# a name is one is asked first: a long text without any is gone through once.
_PARTS = "password|passwd|pwd|token|secret|signature|credential|api[_-]?key|access[_-]?key"
_NAME = rf"(?<![\w.-])(?=[\w.-]+=)(?:[\w.-]*(?:{_PARTS})[\w.-]*|sig)"
_NAMED = re.compile(rf"(?i)({_NAME}=)([^\s'\"&<>]+)")
_IN_QUERY = re.compile(rf"(?i)[?&;#]({_NAME})=[^&;#]")
SHOWN = "***"
# github://owner:repository@branch is no login, nor abfs://container@account; https://token@host is one.
_LOGIN = re.compile(r"(?i)([\w+.-]*)(?<!\bgithub)://(?:[^/@]*:[^/]*|(?<=\bhttp://)[^/?#]+|(?<=\bhttps://)[^/?#]+)@")
# Up to the last @ of the word, for passwords that hold one unquoted.
_USERINFO = re.compile(r"(?<!\bgithub)(://)([^\s'\"<>]*)@")


def redacted(text: str) -> str:
    """Return ``text`` with ``***`` in place of every password in it: of URIs, and of parameters named like one.

    All that is shown, logged, recorded or kept in a file goes through it. Before the ``@`` of a URI all is hidden that
    has no colon: it may be a token. Redacting twice changes nothing. O(n).
    """

    def without_password(userinfo: re.Match[str]) -> str:
        user, colon, _ = userinfo[2].partition(":")
        return f"{userinfo[1]}{user}:{SHOWN}@" if colon else f"{userinfo[1]}{SHOWN}@"

    return _NAMED.sub(rf"\1{SHOWN}", _USERINFO.sub(without_password, text))


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


LOCAL = ("file://", "local://")  # as fsspec calls what lies on this machine


def is_address(source: Any) -> bool:
    """Return whether a source is an address, such as s3://bucket/rows.parquet, and no path."""
    return isinstance(source, str) and "://" in source


def require_readable(paths: Iterable[str | Path]) -> None:
    """Raise SplitError where a deployed run is asked for a file or address that does not lie below a data root.

    Roots are the folders and buckets (``s3://name/folder``) of ``EVENFOLD_DATA_ROOTS``, comma-separated, by default the
    working directory; and the home and the shared results. Links are followed first; ``file://`` is a path. To be
    called with what was named, before anything is told of it, and then with every file that was found there.
    """
    if not is_deployed():
        return
    roots = (os.environ.get("EVENFOLD_DATA_ROOTS") or ".").split(",")
    roots += [os.environ.get("EVENFOLD_HOME") or ".evenfold", os.environ.get("EVENFOLD_RESULTS", "")]
    for name in map(str, paths):
        if not any(_is_below(name, root.strip()) for root in roots if root.strip()):
            cure = "put the data there, or add its folder to EVENFOLD_DATA_ROOTS where the worker runs"
            raise SplitError(f"{name!r} is not below a folder that a deployed run may read; {cure}.")


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


_above: dict[str, Callable[[Any], Any]] = {}


class Displayed:
    """A result that people meet at a prompt or in a notebook; ``summary`` is its line, drawn by what is bound above."""

    __slots__ = ()

    @property
    def summary(self) -> str:
        """Return one line that says what it is."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.summary

    __str__ = __repr__  # pydantic's own would print every field

    def _repr_html_(self) -> Any:  # None where nothing draws it: then a notebook shows the line
        return above("draw", self)


def bind(**what: Callable[[Any], Any]) -> None:
    """Let rooms above do for those below: ``draw``, ``hear``, ``find``."""
    _above.update(what)


def above(what: Literal["draw", "hear", "find"], of: Any) -> Any:
    """Return what a room above makes of something; None where nobody does this."""
    return _above[what](of) if what in _above else None
