"""What a run came to, as Markdown for the pages of Prefect and MLflow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evenfold.manifests import BalanceReport
from evenfold.manifests.figures import RowsBalance

from .page import Page, Paragraph, Table, Verdict, text_of

# Whatever begins a mark, a link, a reference, HTML or a block; and what hides letters or turns them round.
MARKS = re.compile(
    r"[\\`*~|]|(?<!\w)_|_(?!\w)|](?=[(\[:])|:(?=//)|(?<=www)\.|^[#>]|^[+-](?= |$)|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])"
)
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MOST_NOTED_FOLDS, MOST_FINDINGS, MOST_CLASSES = 20, 8, 6


def page_note(page: Page, links: Mapping[str, str], *tables: Table) -> str:
    """Return the top of a page as Markdown: verdict and lead, links by their text, figures, tables, words, findings.

    A run's description holds it; names of columns, classes and models stand there as text.
    """
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


def linked(links: Mapping[str, str]) -> str:
    """Return a line of links; one without an address is plain text."""
    return " · ".join(f"[{plain(text)}]({address})" if address else plain(text) for text, address in links.items())


def figures_table(report: BalanceReport) -> Table:
    """Return each figure of a balance beside what no split of the same rows can be below, where that is known."""
    rows = [
        [figure.form(value), "-" if least is None else figure.form(least), figure.title]
        for figure, value, least in report.shown()
    ]
    # Prefect's page cuts a wide table at its right edge: what must be read stands first.
    return Table("Balance", rows, ["value", "at best", "balance"])


def places_table(report: BalanceReport, most: int = MOST_NOTED_FOLDS) -> Table:
    """Return a row for each part that no split tests, and for the first ``most`` folds, of columns that all have."""
    parts: list[tuple[str, RowsBalance]] = [(part.name, part) for part in report.parts]
    folds = [(fold.name or f"split {fold.split}", fold) for fold in report.folds[:most]]
    places = [*parts[:1], *folds, *parts[1:]]  # train, validation, test
    classes = (report.classes or [])[:MOST_CLASSES]
    has_wanted, ranked = (any(getattr(place, name) is not None for _, place in places) for name in ("wanted", "ks"))
    grouped = all(place.groups is not None for _, place in places)
    head = ["", "rows", *["asked"] * has_wanted, *["groups"] * grouped, *(f"of {name}" for name in classes)]
    rows = []
    for name, place in places:
        shares = [f"{share:.2%}" for share in (place.shares or ())[:MOST_CLASSES]] or ["-"] * len(classes)
        wanted = "-" if place.wanted is None else f"{place.wanted:,.1f}"
        row = [name, f"{place.rows:,}", *[wanted] * has_wanted, *[place.groups] * grouped, *shares]
        rows.append([*row, *["-" if place.ks is None else f"{place.ks:.4f}"] * ranked])
    left = len(report.folds) - most
    return Table("Folds and parts", rows, [*head, *["KS"] * ranked], f"and {left:,} more" if left > 0 else "")


def in_markdown(table: Table) -> str:
    """Return a table as Markdown; whatever a cell holds is text of one line."""
    lines = [table.head, ["---"] * len(table.head), *(map(text_of, row) for row in table.rows)]
    text = "\n".join("| " + " | ".join(map(plain, line)) + " |" for line in lines)
    return text + (f"\n\n{table.note}" if table.note else "")


def plain(value: Any) -> str:
    """Return what reads as ``value`` in Markdown: one line of text, and neither markup nor HTML."""
    line = HIDDEN.sub("\ufffd", " ".join(str(value).splitlines()))
    return MARKS.sub(lambda mark: {"<": "&lt;", "&": "&amp;"}.get(mark[0], f"\\{mark[0]}"), line)
