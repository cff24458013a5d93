"""What a run came to, as Markdown for the pages of Prefect and MLflow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenfold.estimates import Estimate
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.results import in_percent
from evenfold.manifests import BalanceReport

from .evaluations.words import headline, written
from .page import Page, Paragraph, Verdict

# Whatever begins a mark, a link, a reference, HTML or a block; and what hides letters or turns them round.
MARKS = re.compile(
    r"[\\`*~|]|(?<!\w)_|_(?!\w)|](?=[(\[:])|:(?=//)|(?<=www)\.|^[#>]|^[+-](?= |$)|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])"
)
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MOST_FOLDS = 50
MOST_NOTED_FOLDS, MOST_FINDINGS, MOST_CLASSES = 20, 8, 6


def page_note(page: Page, links: Mapping[str, str], *tables: str) -> str:
    """Return the top of a page as Markdown: verdict and lead, links by their text, figures, tables, words, findings.

    What stands in a run's description, which MLflow folds after some lines: the page itself is a file of the run.
    Whatever columns, classes and models are called stands there as text.
    """
    verdict = "" if page.verdict is Verdict.NONE else f"**{page.verdict.mark} {page.verdict.word}.** "
    figures = table(["figure", "", ""], ([tile.value, tile.label, tile.note] for tile in page.tiles))
    findings = [f"- {remark.severity}: {plain(remark.message)}" for remark in page.findings[:MOST_FINDINGS]]
    if len(page.findings) > MOST_FINDINGS:
        findings.append(f"- and {len(page.findings) - MOST_FINDINGS} more")
    blocks = [block for section in page.sections for block in section.blocks]
    words = [plain(block.words) for block in blocks if isinstance(block, Paragraph)]
    top = [f"{verdict}{plain(page.lead)}", linked(links), figures if page.tiles else ""]
    parts = [*top, *tables, *words, "\n".join(findings)]
    return "\n\n".join(part for part in parts if part)


def linked(links: Mapping[str, str]) -> str:
    """Return a line of links; one without an address is plain text."""
    return " · ".join(f"[{plain(text)}]({address})" if address else plain(text) for text, address in links.items())


def split_report(split: Mapping[str, Any], report: BalanceReport) -> str:
    """Return the split's identity, and how even it is."""
    head = f"# {split['name']} {split['version']}: {split['strategy']}, {report.n_rows:,} rows\n"
    names = f"`split_id {split['split_id']}`\n\n`plan_id {split['plan_id']}`\n\n{split['uri']}"
    return "\n\n".join([head, figures_table(report), balance_table(report, MOST_FOLDS), names])


def figures_table(report: BalanceReport) -> str:
    """Return each figure of a balance beside what no split of the same rows can be below, where that is known."""
    rows = [
        [figure.text(value), "-" if least is None else figure.text(least), figure.title]
        for figure, value, least in report.shown()
    ]
    # Prefect's page cuts a wide table at its right edge: what must be read stands first.
    return table(["value", "at best", "balance"], rows)


def balance_table(report: BalanceReport, most: int = MOST_NOTED_FOLDS) -> str:
    """Return each fold and part: rows, rows asked, shares of classes (or KS), groups; the first ``most`` folds."""
    rows = balance_rows(report)
    head = list(rows[0]) if rows else []
    text = table(head, (list(row.values()) for row in rows[: most + len(report.parts)]))
    left = len(rows) - most - len(report.parts)
    return text + (f"\n\nand {left:,} more" if left > 0 else "")


def balance_rows(report: BalanceReport) -> list[dict[str, Any]]:
    """Return a row for each part that no split tests, and for each fold, of columns that all have: ``-`` is none."""
    places = [(part.name, part) for part in report.parts]
    places += [(fold.name or f"split {fold.split}", fold) for fold in report.folds]
    classes = (report.classes or [])[:MOST_CLASSES]
    has_wanted, ranked = (any(getattr(place, name) is not None for _, place in places) for name in ("wanted", "ks"))
    rows = []
    for name, place in places:
        row: dict[str, Any] = {"": name, "rows": f"{place.rows:,}"}
        row |= {"asked": "-" if place.wanted is None else f"{place.wanted:,.1f}"} if has_wanted else {}
        row |= {"groups": place.groups} if place.groups is not None else {}
        shares = [f"{share:.2%}" for share in place.shares or ()] or ["-"] * len(classes)
        row |= {f"of {name}": share for name, share in zip(classes, shares, strict=False)}
        row |= {"KS": "-" if place.ks is None else f"{place.ks:.4f}"} if ranked else {}
        rows.append(row)
    return rows


def estimate_table(estimates: Iterable[Estimate]) -> str:
    """Return the scores as people read them: errors are positive, and the interval sets the digits."""
    return table(ESTIMATE_HEAD, (list(row.values()) for row in estimate_rows(estimates)))


ESTIMATE_HEAD = ("metric", "method", "value", "interval", "without a model", "sd of folds", "on training rows")


def estimate_rows(estimates: Iterable[Estimate]) -> list[dict[str, str]]:
    """Return each estimate as a row of text."""
    rows = []
    for estimate in estimates:
        title, value, interval = headline(estimate)
        level = in_percent(estimate.interval.level) if estimate.interval else "-"
        shown, beside = metric_of(estimate.metric).shown, estimate.baseline and estimate.baseline.value
        figures = [None if each is None else shown(each) for each in (beside, estimate.apparent)]
        without, seen, sd = (
            "-" if each is None else written(each, estimate.resolution) for each in (*figures, estimate.sd)
        )
        cells = (title, estimate.method, value, f"{level} {interval}".strip(), without, sd, seen)
        rows.append(dict(zip(ESTIMATE_HEAD, cells, strict=True)))
    return rows


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table; whatever a cell holds is text of one line."""
    lines = [map(plain, head), ["---"] * len(head), *(map(plain, row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def plain(value: Any) -> str:
    """Return what reads as ``value`` in Markdown: one line of text, and neither markup nor HTML."""
    line = HIDDEN.sub("\ufffd", " ".join(str(value).splitlines()))
    return MARKS.sub(lambda mark: {"<": "&lt;", "&": "&amp;"}.get(mark[0], f"\\{mark[0]}"), line)
