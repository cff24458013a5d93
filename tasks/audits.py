"""The task of the audit: what is wrong with a split of its data, found once for a content."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sklearn
from evenfold.manifests import Audit, audit, digest_json
from evenfold.manifests.audits.features import are_all_columns
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.store.stored import StoredManifest, asked_again, in_memory
from evenfold.splitters.importing import installed
from evenfold.tasks.runtime.home import Settings

from .outcomes import SplitAudit, SplitRef
from .results.preimages import Preimage
from .results.store import remember
from .runtime.limits import unlogged
from .splits import stamp, table_of
from .steps.running import finished_here
from .steps.step import step


def audit_key(
    split: SplitRef, features: list[str] | None = None, exclude: tuple[str, ...] = (), gates: GateLimits | None = None,
    memory: str | None = None,
) -> str | None:  # fmt: skip
    """Return the key of an audit; None where nothing says when its table is written again."""
    content = stamp(split.data)
    if content == (split.data,):  # nothing says when it is written again
        return None
    return f"audit/{digest_json(preimage_of_audit(split, features, exclude, gates).parts)}"


def preimage_of_audit(
    split: SplitRef, features: list[str] | None, exclude: tuple[str, ...] = (), gates: GateLimits | None = None
) -> Preimage:
    """Return the preimage of the key of a split's audit."""
    limits = {"gates": gates, "gates_now": split.gates, "ignore_now": split.gates and split.ignore}
    how = {"features": _named_features(split, features), "exclude": sorted(exclude), **limits}
    versions = {"evenfold": installed("evenfold"), "scikit-learn": sklearn.__version__}
    of = {
        "manifest": digest_json(split.stored().header),
        "file": digest_json(str(stamp(split.data))),
        "versions": versions,
    }
    return Preimage(kind="audit", name=split.name, parts=how | of)


@step(key_of=audit_key, run_name=lambda split, **_: f"audit {split.name}", retries=0)
def audit_split(
    split: SplitRef,
    *,
    features: list[str] | None = None,
    exclude: tuple[str, ...] = (),
    gates: GateLimits | None = None,
    memory: str | None = None,
) -> SplitAudit:
    """Say what is wrong with a split of its data: leaks, rows that do not fit, uneven folds. Raises SplitError.

    The findings are kept until the manifest or a file of its data is written again; a check that could not run is
    tried again.
    """
    columns, limit = _named_features(split, features), Settings.memory_of(memory)
    with unlogged():
        split_audit = SplitAudit(**dict(_found(split, columns, exclude, gates, limit)))
    remember(preimage_of_audit(split, features, exclude, gates))
    if not split_audit.intact():
        _audit.cache_clear()
    return split_audit


def _found(
    split: SplitRef, columns: list[str] | None, exclude: tuple[str, ...], gates: GateLimits | None, limit: str | None
) -> Audit:
    data = table_of(split)
    if exclude or gates or split.gates is not None:
        held = in_memory(split.stored(), limit)
        if split.gates is not None:
            held = asked_again(held, split.gates, split.ignore or {})
        return audit(held, data, features=columns, exclude=exclude, gates=gates, memory=limit)
    content = stamp(data), split.split_id
    return _audit(str(split.folder), data, content, None if columns is None else tuple(columns), limit)


def audit_of(split: SplitRef, features: Sequence[str] | None = None, memory: str | None = None) -> Audit:
    """Return the audit of a split of its data, as ``audit_split`` does and keeps it, without a task run."""
    columns = None if features is None else list(features)
    return finished_here(audit_split, split, features=columns, memory=memory).value


@lru_cache(maxsize=4)
def _audit(uri: str, data: str, _content: Any, features: tuple[str, ...] | None, memory: str | None) -> Audit:
    # For the page that asks after the task: an audit of a bucket or a database is not kept for later.
    return audit(StoredManifest(uri), data, features=features, memory=memory)


def _named_features(split: SplitRef, features: Sequence[str] | None) -> list[str] | None:
    """Return the features to audit by name; None where they are all."""
    if features is None or are_all_columns(features, split.stored().spec, table_of(split)):
        return None
    return list(features)
