"""The page of a split whose rows do not fit into memory: every figure, and no picture that needs single rows."""

from __future__ import annotations

from evenfold.manifests.audits.findings import Audit
from evenfold.manifests.engines.stored import StoredManifest
from evenfold.manifests.figures import BalanceReport
from evenfold.reports.page import Origin, Page, Section, Tile, counted

from .page import asked_of, audit_tile, checks_table, figures_of, folds_table, identity_of, remarks_of, verdict_of


def counts_page(
    manifest: StoredManifest, balance: BalanceReport, audit: Audit | None = None, origin: Origin | None = None
) -> Page:
    """Return what the page of a split says of which only counts are known: of ``measure`` and ``audit`` out of core."""
    rows, n = counted(manifest.n, "row"), counted(manifest.n_splits, "split")
    sizes = [fold.rows for fold in balance.folds]
    tile = Tile(f"{min(sizes):,} to {max(sizes):,}", "test rows of a split", "")
    names = [str(fold.split) for fold in balance.folds]
    details = [
        Section("folds", f"Every split ({manifest.n_splits:,})", [folds_table(balance, names)]),
        Section("balance", "How even, in figures", figures_of(balance)),
        *([Section("checks", f"Checks ({len(audit.passed)} passed)", [checks_table(audit)])] if audit else []),
        Section("asked", f"What was asked: {manifest.spec.strategy}", [asked_of(manifest)]),
        Section("identity", f"Identity {manifest.split_id[:12]}", [identity_of(manifest)]),
    ]
    return Page(
        title=f"Split {manifest.name} {manifest.version}",
        verdict=verdict_of(balance, audit),
        lead=f"{rows} in {n} ({manifest.algorithm['name']}), measured out of core, so without pictures of rows.",
        tiles=[tile, audit_tile(audit)],
        findings=remarks_of(audit),
        sections=[],
        details=details,
        footer=[rows, f"split {manifest.split_id[:12]}", *(origin or Origin()).words()],
    )
