"""The names that somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, among: Iterable[str]) -> str:
    """Return ``; did you mean 'a' or 'b'?`` with the closest of ``among``, or their list where none is close."""
    names = [str(each) for each in among]
    by_lower = {each.lower(): each for each in reversed(names)}
    close = [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    if close:
        return f"; did you mean {' or '.join(repr(each) for each in close)}?"
    shown = ", ".join(names[:12])
    return f"; choose one of {shown}{' …' if len(names) > 12 else ''}." if names else "."
