"""Results in a notebook: the top of their page, with its first picture."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from evenfold.estimates.comparison import Comparison
from evenfold.estimates.results import Estimate
from evenfold.manifests.audits.findings import Audit
from evenfold.manifests.balance import measure
from evenfold.manifests.figures import BalanceReport, points
from evenfold.manifests.manifest import Manifest
from evenfold.reports.splits.data import target_gap

from .evaluations.decisions import audit_page, comparison_page
from .evaluations.page import remarks_on, score_tiles
from .page import Page, Section, Table, Tile, Verdict, counted, number, remarks
from .splits.data import see
from .splits.page import split_page


def split_band(manifest: Manifest, balance: BalanceReport, audit: Audit | None) -> str:
    """Return the top of a split's page; where no audit was asked for, nothing is said of one."""
    page = split_page(see(manifest, balance), audit)
    return (page if audit else replace(page, verdict=Verdict.NONE, tiles=page.tiles[:-1])).band()


@singledispatch
def drawn(result: object) -> str | None:
    """Return a result as HTML that stands in a notebook: the top of its page; None where its one line will do."""
    page = getattr(result, "as_page", None)
    return page().band() if page else None


@drawn.register
def _(manifest: Manifest) -> str:
    return split_band(manifest, measure(manifest), None)


@drawn.register
def _(balance: BalanceReport) -> str:
    low, high = min(fold.rows for fold in balance.folds), max(fold.rows for fold in balance.folds)
    tiles = [Tile(f"{low:,}" if low == high else f"{low:,} to {high:,}", "rows in a test set")]
    gap = target_gap(balance)
    if gap is not None:
        tiles.append(Tile(points(gap.largest), f"largest gap of {balance.target}", f"random splits: {gap.bound}"))
    figures = [[figure.title, number(value, figure.form(value))] for figure, value, _ in balance.shown()]
    section = Section("balance", "The worst of each figure", [Table("The worst of each figure", figures)])
    lead = f"{counted(balance.n_rows, 'row')} in {counted(balance.n_splits, 'split')}."
    return Page("Balance", Verdict.NONE, lead, tiles, sections=[section]).band()


@drawn.register
def _(audit: Audit) -> str:
    return audit_page(audit).band()


@drawn.register
def _(comparison: Comparison) -> str:
    return comparison_page([comparison]).band()


@drawn.register
def _(estimate: Estimate) -> str:
    lead = f"{estimate.method}, {counted(estimate.n_splits, 'split')}."
    findings = [*remarks_on([estimate]), *remarks("note", estimate.notes)]
    return Page("Estimate", Verdict.NONE, lead, score_tiles([estimate]), findings).band()
