"""What a kept result looks like, in a folder and in a bucket: kind, digest and signature in a line, then it as JSON.

Whoever may write to shared results may write anything: a kind is looked up here, nothing is imported by its name, and
what no key of this home or its team has signed for its place is no result.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache

from evenfold.tasks.outcomes import FinalModel, FitResult, Outcome, SplitAudit, SplitRef
from evenfold.tasks.runtime.signing import NEW_KEY, is_signed, sign

from .marks import Marks
from .preimages import Preimage

KINDS: dict[str, type[Outcome]] = {
    kind.__name__: kind for kind in (SplitRef, SplitAudit, FitResult, FinalModel, Preimage, Marks)
}


def _unchanged(text: bytes) -> bytes:
    return text


def written(key: str, value: Outcome, change: Callable[[bytes], bytes] = _unchanged) -> bytes:
    """Return a result as it is kept under ``key``, its JSON as ``change`` returns it."""
    text = change(value.model_dump_json().encode())
    claim = {"key": key, "kind": type(value).__name__, "sha256": hashlib.sha256(text).hexdigest()}
    return f"{claim['kind']} {claim['sha256']} {sign('result', claim)}\n".encode() + text


def read(key: str, content: bytes, change: Callable[[bytes], bytes] = _unchanged) -> Outcome | None:
    """Return the result that is kept as ``content`` under ``key``, made of its JSON as ``change`` returns it.

    None where it is none of ours, of another version or damaged, or names what is not there. That one is whole and not
    signed by this home or its team is said, once in a process.
    """
    head, _, text = content.partition(b"\n")
    kind, digest, signature, *_ = [*head.decode(errors="replace").split(" "), "", ""]
    if kind not in KINDS or hashlib.sha256(text).hexdigest() != digest:
        return None
    if not is_signed("result", {"key": key, "kind": kind, "sha256": digest}, [signature]):
        _warn_unsigned()
        return None
    try:
        value = KINDS[kind].model_validate_json(change(text))
    except (ValueError, LookupError, RecursionError):
        return None
    return value if value.intact() else None


@cache
def _warn_unsigned() -> None:
    logging.getLogger("evenfold").warning(
        "Kept results that neither this home nor its team has signed are computed again. What machines share needs "
        "one EVENFOLD_SIGNING_KEY, such as %s prints.",
        NEW_KEY,
    )
