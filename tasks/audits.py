"""The task of the audit: what is wrong with a split of its data, found once for a content."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from evenfold.manifests import Audit, Finding, audit, read_table
from evenfold.manifests.audits.judging import SEVERITIES
from evenfold.manifests.audits.pipelines import audit_pipeline
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.store.stored import StoredManifest, asked_again, in_memory
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.splitters.importing import FEATURES, resolve
from evenfold.tasks.runtime.home import Settings

from .outcomes import SplitAudit, SplitRef
from .plans import audit_key, named_features, preimage_of_audit, stamp, table_of
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
    tried again. ``build``, the import path of a function that makes features, is audited as well: see
    ``audit_pipeline``. What its features know that they must not is a finding each, and an error fails the audit; kept
    until its code changes.
    """
    columns, limit = named_features(split, features), Settings.memory_of(memory)
    with unlogged():
        split_audit = SplitAudit(**dict(_with_build(_found(split, columns, exclude, gates, limit), split, build)))
    remember(preimage_of_audit(split, features, exclude, gates, build))
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


def _with_build(audited: Audit, split: SplitRef, build: str | None) -> Audit:
    if build is None:
        return audited
    spec, passed = split.stored().spec, {}
    columns = spec.columns
    try:
        if columns.target is None:
            raise SplitError("the split names no target, which is what features must not know; name it (--target).")
        data = read_table(table_of(split), types=spec.types).to_pandas()
        leaks = audit_pipeline(
            resolve(build, FEATURES), data.dropna(subset=[columns.target]), key=columns.key, target=columns.target,
            group=columns.grouped, time=columns.time,
        )  # fmt: skip
        of_build = [
            Finding(
                check=f"build_{leak.question}", severity=leak.severity, message=f"{build}: {leak.message}",
                gate="failed" if leak.severity == "error" else "passed", figure=leak.points,
                figures={"columns": leak.columns, "rows": leak.rows},
            ) for leak in leaks
        ]  # fmt: skip
        passed = {} if of_build else {"build": f"{build}: no feature moves that must not"}
    except UntrustedNameError:
        raise
    except SplitError as error:
        words = f"{build} could not be audited: {error}"
        of_build = [Finding(check="build", severity="error", gate="failed", message=words, ran=False)]
    failed = dict.fromkeys(finding.check for finding in of_build if finding.gate == "failed")
    findings = sorted([*audited.findings, *of_build], key=lambda each: SEVERITIES.index(each.severity))
    update = {"findings": findings, "failed": [*audited.failed, *failed], "passed": audited.passed | passed}
    return audited.model_copy(update=update)


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
