"""The task of the audit: what is wrong with a split of its data, found once for a content."""

from __future__ import annotations

from collections.abc import Sequence

from evenfold.manifests import Audit, audit
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.store.stored import asked_again, in_memory
from evenfold.tasks.runtime.home import Settings

from .outcomes import SplitAudit, SplitRef
from .plans import audit_key, named_features, preimage_of_audit, table_of
from .results.store import remember
from .runtime.limits import unlogged
from .steps.running import finished_here
from .steps.step import step


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
    manifest, limit = split.stored(), Settings.memory_of(memory)
    held = manifest if split.gates is None else asked_again(in_memory(manifest, limit), split.gates, split.ignore or {})
    columns, data = named_features(split, features), table_of(split)
    with unlogged():
        findings = audit(held, data, features=columns, exclude=exclude, gates=gates, memory=limit, build=build)
    remember(preimage_of_audit(split, features, exclude, gates, build))
    return SplitAudit(**dict(findings))


def audit_of(
    split: SplitRef, features: Sequence[str] | None = None, memory: str | None = None, build: str | None = None
) -> Audit:
    """Return the audit of a split of its data, as ``audit_split`` does and keeps it, without a task run."""
    columns = None if features is None else list(features)
    return finished_here(audit_split, split, features=columns, memory=memory, build=build).value
