"""What a kept result looks like, in a folder and in a bucket: its kind and digest in a line, then the result as JSON.

Whoever may write to shared results may write anything: a kind is looked up here, and nothing is imported by its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from evenfold.tasks.outcomes import FinalModel, FitResult, Outcome, SplitAudit, SplitRef

KINDS: dict[str, type[Outcome]] = {kind.__name__: kind for kind in (SplitRef, SplitAudit, FitResult, FinalModel)}


def _unchanged(text: bytes) -> bytes:
    return text


def written(value: Outcome, change: Callable[[bytes], bytes] = _unchanged) -> bytes:
    """Return a result as it is kept, its JSON as ``change`` returns it."""
    text = change(value.model_dump_json().encode())
    return f"{type(value).__name__} {hashlib.sha256(text).hexdigest()}\n".encode() + text


def read(content: bytes, change: Callable[[bytes], bytes] = _unchanged) -> Outcome | None:
    """Return the result that is kept as ``content``, made of its JSON as ``change`` returns it.

    None where it is none of ours, of another version or damaged, or names what is not there.
    """
    head, _, text = content.partition(b"\n")
    kind, _, digest = head.decode(errors="replace").partition(" ")
    if kind not in KINDS or hashlib.sha256(text).hexdigest() != digest:
        return None
    try:
        value = KINDS[kind].model_validate_json(change(text))
    except (ValueError, LookupError, RecursionError):
        return None
    return value if value.intact() else None
