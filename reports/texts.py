"""Pages as Markdown, for Prefect, MLflow and comments; pages whose tops a notebook shows; steps of a plan in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Literal

from evenfold.estimates.comparison import Comparison
from evenfold.estimates.results import Estimate
from evenfold.manifests.audits.findings import Audit
from evenfold.manifests.balance import measure
from evenfold.manifests.figures import BalanceReport, RowsBalance, points
from evenfold.manifests.manifest import Manifest
from evenfold.splitters.errors import amount

from .evaluations.decisions import audit_page, comparison_page
from .evaluations.page import remarks_on, score_tiles
from .page import Page, Paragraph, Section, Table, Tile, Verdict, remarks
from .splits.data import split_data, target_gap
from .splits.page import balance_blocks, checks_table, places_table, split_page

# Whatever begins a mark, a link, a reference, HTML or a block; and what hides letters or turns them round.
MARKS = re.compile(
    r"[\\`*~|]|(?<!\w)_|_(?!\w)|](?=[(\[:])|:(?=//)|(?<=www)\.|^[#>]|^[+-](?= |$)|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])"
)
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MOST_NOTED_FOLDS, MOST_FINDINGS = 20, 8


def page_note(page: Page, links: Mapping[str, str], *tables: Table) -> str:
    """Return the top of a page as Markdown: verdict, lead, links, figures, tables, words, findings; names as text."""
    verdict = "" if page.verdict is Verdict.NONE else f"**{page.verdict.mark} {page.verdict.word}.** "
    tiles = Table("", [[tile.value, tile.label, tile.note] for tile in page.tiles], ["figure", "", ""])
    findings = [f"- {remark.severity}: {plain(remark.message)}" for remark in page.findings[:MOST_FINDINGS]]
    if len(page.findings) > MOST_FINDINGS:
        findings.append(f"- and {len(page.findings) - MOST_FINDINGS} more")
    blocks = [block for section in page.sections for block in section.blocks]
    words = [plain(block.words) for block in blocks if isinstance(block, Paragraph)]
    texts = [in_markdown(each) for each in (tiles, *tables) if each.rows]
    parts = [f"{verdict}{plain(page.lead)}", linked(links), *texts, *words, "\n".join(findings)]
    return "\n\n".join(part for part in parts if part)


def audit_in_markdown(audit: Audit) -> str:
    """Return an audit for a comment: what was found and what is ignored, by number, then what came of every check."""
    rows = [[each.severity, f"{each.code} {each.check}", each.message] for each in audit.findings]
    rows += [["ignored", f"{one.code} {one.check}", f"{one.message} Reason: {one.reason}"] for one in audit.ignored]
    page, checks = audit_page(audit), replace(checks_table(audit), head=["check", "what came of it"])
    note = page_note(replace(page, findings=[]), {}, Table("", rows, ["", "check", "finding"]), checks)
    return f"## {page.title}\n\n{note}\n"


# Where the fit of a fold comes from: the store, this run, nowhere for it failed; or it is still to be made.
FoldState = Literal["cached", "fitted", "failed", "waiting"]


@dataclass(frozen=True)
class Step:
    """A step that would be done ``n`` times: how many results lie in the store, and why the others do not, in words.

    ``seconds``: what those that are computed took before, in all; None where nothing like it was. ``states``: of the
    fits, that of each fold or draw.
    """

    name: Literal["split", "fits", "model", "audit", "record", "champion", "promotion"]
    n: int = 1
    n_cached: int = 0
    reasons: Sequence[str] = ()
    seconds: float | None = None
    states: Sequence[FoldState] = ()

    @property
    def words(self) -> str:
        """Say how many results come from the store, and how many are computed, in what time and why."""
        n, again = self.n - self.n_cached, f"{self.n_cached:,} from the store"
        took = "" if self.seconds is None else f", about {self.seconds:.2g} s"
        computed = f"{n:,} to compute{took}: {'; '.join(self.reasons)}"
        return ", ".join(([again] if self.n_cached else []) + ([computed] if n else []))


def linked(links: Mapping[str, str]) -> str:
    """Return a line of links; one without an address is plain text."""
    return " · ".join(f"[{plain(text)}]({address})" if address else plain(text) for text, address in links.items())


def noted_places(report: BalanceReport, most: int = MOST_NOTED_FOLDS) -> Table:
    """Return the table of the parts that no split tests, and of the first ``most`` folds."""
    parts: list[tuple[str, RowsBalance]] = [(part.name, part) for part in report.parts]
    folds = [(fold.name or f"split {fold.split}", fold) for fold in report.folds[:most]]
    left = len(report.folds) - most
    note = f"and {left:,} more" if left > 0 else ""
    return places_table("fold or part", report, [*parts[:1], *folds, *parts[1:]], note)  # train, validation, test


def in_markdown(table: Table) -> str:
    """Return a table as Markdown; whatever a cell holds is text of one line."""
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    text = "\n".join("| " + " | ".join(map(plain, line)) + " |" for line in lines)
    return text + (f"\n\n{table.note}" if table.note else "")


def plain(value: Any) -> str:
    """Return the Markdown that reads as ``value``: one line of text, and neither markup nor HTML."""
    line = HIDDEN.sub("\ufffd", " ".join(str(value).splitlines()))
    return MARKS.sub(lambda mark: {"<": "&lt;", "&": "&amp;"}.get(mark[0], f"\\{mark[0]}"), line)


def top_of_split(manifest: Manifest, balance: BalanceReport, audit: Audit | None = None) -> Page:
    """Return a split's page without its data; where no audit was asked for, nothing is said of one."""
    page = split_page(split_data(manifest, balance), audit)
    return page if audit else replace(page, verdict=Verdict.NONE, tiles=page.tiles[:-1])


@singledispatch
def page_of(result: object) -> Page | None:
    """Return the page whose top shows a result in a notebook; None where its one line will do."""
    page = getattr(result, "as_page", None)
    return page() if page else None


page_of.register(Audit, audit_page)
page_of.register(Comparison, lambda comparison: comparison_page([comparison]))
page_of.register(Manifest, lambda manifest: top_of_split(manifest, measure(manifest)))


@page_of.register
def _(balance: BalanceReport) -> Page:
    low, high = min(fold.rows for fold in balance.folds), max(fold.rows for fold in balance.folds)
    tiles = [Tile(f"{low:,}" if low == high else f"{low:,} to {high:,}", "rows in a test set")]
    if (gap := target_gap(balance)) is not None:
        tiles.append(Tile(points(gap.largest), f"largest gap of {balance.target}", f"random splits: {gap.bound}"))
    section = Section("balance", "How even, in figures", balance_blocks(balance))
    lead = f"{amount(balance.n_rows, 'row')} in {amount(balance.n_splits, 'split')}."
    return Page("Balance", Verdict.NONE, lead, tiles, sections=[section])


@page_of.register
def _(estimate: Estimate) -> Page:
    lead = f"{estimate.method}, {amount(estimate.n_splits, 'split')}."
    findings = [*remarks_on([estimate]), *remarks("note", estimate.notes)]
    return Page("Estimate", Verdict.NONE, lead, score_tiles([estimate]), findings)
