"""The task of the audit: what is wrong with a split of its data, found once for a content."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from evenfold.manifests import Audit, audit
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.store.stored import StoredManifest, asked_again, in_memory
from evenfold.tasks.runtime.home import Settings

from .outcomes import SplitAudit, SplitRef
from .plans import audit_key, named_features, preimage_of_audit, stamp, table_of
from .results.store import remember
from .runtime.limits import unlogged
from .steps import finished_here, step


@step(key_of=audit_key, run_name=lambda split, **_: f"audit {split.name}", retries=0)
def audit_split(
    split: SplitRef,
    *,
    features: list[str] | None = None,
    exclude: tuple[str, ...] = (),
    gates: GateLimits | None = None,
    memory: str | None = None,
    build: str | None = None,
) -> SplitAudit:
    """Say what is wrong with a split of its data: leaks, rows that do not fit, uneven folds. Raises SplitError.

    The findings are kept until the manifest or a file of its data is written again; a check that could not run is
    tried again. ``build``, the import path of a function that makes features, is audited as well, and kept until
    its code changes.
    """
    columns, limit = named_features(split, features), Settings.memory_of(memory)
    with unlogged():
        split_audit = SplitAudit(**dict(_found(split, columns, exclude, gates, limit, build)))
    remember(preimage_of_audit(split, features, exclude, gates, build))
    if not split_audit.intact():
        _audit.cache_clear()
    return split_audit


def _found(
    split: SplitRef, columns: list[str] | None, exclude: tuple[str, ...], gates: GateLimits | None, limit: str | None,
    build: str | None,
) -> Audit:  # fmt: skip
    data = table_of(split)
    if exclude or gates or build or split.gates is not None:
        held = in_memory(split.stored(), limit)
        if split.gates is not None:
            held = asked_again(held, split.gates, split.ignore or {})
        return audit(held, data, features=columns, exclude=exclude, gates=gates, memory=limit, build=build)
    content = stamp(data), split.split_id
    return _audit(str(split.folder), data, content, None if columns is None else tuple(columns), limit)


def audit_of(
    split: SplitRef, features: Sequence[str] | None = None, memory: str | None = None, build: str | None = None
) -> Audit:
    """Return the audit of a split of its data, as ``audit_split`` does and keeps it, without a task run."""
    columns = None if features is None else list(features)
    return finished_here(audit_split, split, features=columns, memory=memory, build=build).value


@lru_cache(maxsize=4)
def _audit(uri: str, data: str, _content: Any, features: tuple[str, ...] | None, memory: str | None) -> Audit:
    # For the page that asks after the task: an audit of a bucket or a database is not kept for later.
    return audit(StoredManifest(uri), data, features=features, memory=memory)
