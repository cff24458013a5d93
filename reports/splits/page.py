"""A split on one page: whether it is good, why, and pictures; what was asked and its identity folded at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import nan
from typing import Any

import numpy as np
from evenfold.estimates.results import in_percent, rounded
from evenfold.manifests.audits.findings import GATES, Audit
from evenfold.manifests.figures import NUMBERS, BalanceReport, RowsBalance, points
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED, LOCKED, Labels
from evenfold.manifests.store.stored import counts
from evenfold.reports.charts import cut
from evenfold.reports.page import Block, Origin, Page, Paragraph, Remark, Section, Table, Tile, Verdict, facts, number
from evenfold.reports.splits.data import target_gap
from evenfold.splitters.errors import amount, listed, verb

from .data import MOST_LINES, SplitData, group_sizes, split_data
from .pictures import largest_group, split_pictures

MOST_ROWS = 100


def report_html(
    manifest: Manifest, balance: BalanceReport, data: Any = None, audit: Audit | None = None,
    origin: Origin | None = None,
) -> str:  # fmt: skip
    """Return one self-contained HTML page about a split: it opens from disk, needs no network and runs no script.

    ``data``: the rows that were split (a file or frame), for pictures of target and groups; SplitError for others.
    ``audit``: decides the verdict. Every figure stands in a ``<data value>`` at full precision, equal to balance.json.
    At most 1 MB; O(rows x splits), of at most 200 splits.
    """
    return split_page(split_data(manifest, balance, data), audit, origin).html()


def split_page(seen: SplitData, audit: Audit | None = None, origin: Origin | None = None) -> Page:
    """Return the page of a split."""
    manifest = seen.manifest
    sections = [Section(name, picture.title, [picture, *_beside(seen, name)])
                for name, picture in split_pictures(seen).items()]  # fmt: skip
    if seen.parts:
        total = sum(part.size for part in seen.parts.values())
        shares = [f"{100 * part.size / total:.1f} % {name}" for name, part in seen.parts.items()]
        places = dict(zip(seen.places, seen.balance.measured, strict=True))
        table = places_table("part", seen.balance, [(name, places[name]) for name in seen.parts])
        sections.insert(0, Section("parts", listed(shares, len(shares)), [table]))
    if seen.balance.attributes:
        attribute, measured = max(seen.balance.attributes.items(), key=lambda each: each[1].worst)
        title = f"Every fold has its share of {attribute} within {100 * measured.worst:.1f} points"
        sections.append(Section("attributes", title, list(_attributes(seen.balance))))
    return Page(
        title=f"Split {manifest.name} {manifest.version}",
        # Draws are random, and what comes later differs: only dealt folds are held against random ones.
        verdict=verdict_of(seen.balance if isinstance(manifest.membership, Labels) else None, audit),
        lead=_lead(seen),
        tiles=[*_tiles(seen), _audit_tile(audit)],
        findings=remarks_of(audit),
        sections=sections,
        details=_details(seen, audit),
        footer=(origin or Origin()).words(amount(seen.balance.n_rows, "row"), f"split {manifest.split_id[:12]}"),
    )


def verdict_of(balance: BalanceReport | None, audit: Audit | None) -> Verdict:
    """Return the verdict: a failed gate stops; a warning, or folds less even than random ones, deserve a look.

    A page without an audit says that nobody looked for leaks; notes change nothing.
    """
    if audit is None:
        return Verdict.UNCHECKED
    severities = {finding.severity for finding in audit.findings}
    if audit.failed or "error" in severities:
        return Verdict.STOP
    gap = target_gap(balance) if balance is not None else None
    return Verdict.LOOK if "warning" in severities or (gap is not None and not gap.within) else Verdict.GOOD


def remarks_of(audit: Audit | None) -> list[Remark]:
    """Return the findings of an audit, errors first, those whose gate failed as such, and what was ignored."""
    if audit is None:
        return []
    findings = [("failed" if each.gate == "failed" else each.severity, each.message, each) for each in audit.findings]
    findings += [("note", f"Ignored, for {each.reason}: {each.message}", each) for each in audit.ignored]
    return [Remark(severity, words, f"{each.code} {each.check}".strip()) for severity, words, each in findings]


def _lead(seen: SplitData) -> str:
    manifest = seen.manifest
    rows = amount(seen.balance.n_rows, "row")
    if seen.parts:
        shares = [f"{name} {part.size:,}" for name, part in seen.parts.items()]
        return f"{rows} in {amount(len(shares), 'part')}: {listed(shares, len(shares))}.{_apart(manifest)}"
    repeats = manifest.membership.n_repeats
    often = f", {amount(repeats, 'time')}" if repeats > 1 else ""
    group = " and no ".join(manifest.spec.columns.grouped)
    apart = {"groups_whole", "entities_apart"} & manifest.splitter.promises
    whole = f", no {group} on both sides" if group and apart else ""
    in_time = ", tested on what comes later" if "past_before_future" in manifest.splitter.promises else ""
    n = manifest.n_splits // repeats
    sentence = f"{rows} in {amount(n, seen.unit)}{often}{whole}{in_time} ({manifest.algorithm['name']})."
    return sentence + _apart(manifest)


def _apart(manifest: Manifest) -> str:
    """Return a sentence each on rows that are locked, that no fold has for their groups, or that wait for a target."""
    codes = manifest.membership.column()[manifest.status == 0]
    locked = 0 if manifest.membership.parts else int(np.count_nonzero(codes == LOCKED))
    left = int(np.count_nonzero(codes == EXCLUDED)) if manifest.spec.group_mode == "cross" else 0
    waiting = 0 if manifest.waiting is None else manifest.waiting.num_rows
    names, their = listed(manifest.spec.columns.entities), verb(left, "its", "their")
    sentences = {
        f"{amount(locked, 'row')} {verb(locked, 'is', 'are')} locked away": locked,
        f"{amount(left, 'row')} {verb(left, 'is', 'are')} left out: {their} {names} are in different folds": left,
        f"{amount(waiting, 'more row')} {verb(waiting, 'waits', 'wait')} for a target": waiting,
    }
    return "".join(f" {words}." for words, n in sentences.items() if n)


def _tiles(seen: SplitData) -> Iterator[Tile]:
    """Yield the tiles of sizes, the target and groups, each where there is something to tell."""
    rows, balance, table = [fold.rows for fold in seen.balance.folds], seen.balance, seen.manifest.group_table
    low, high, where = min(rows), max(rows), "fold" if seen.unit == "fold" else "test set"
    if not seen.parts and low == high:
        yield Tile(f"{low:,}", f"{'row' if low == 1 else 'rows'} in every {where}", "as even as can be")
    elif not seen.parts:
        even = balance.worst["size"] <= balance.reachable.get("size", -1.0) + 1e-12
        off = f"up to {rounded(100 * balance.worst['size'], 2)} % from what was asked"
        yield Tile(f"{low:,} to {high:,}", f"rows in a {where}", "as even as can be" if even else off)
    if (gap := target_gap(balance)) is not None:
        label = f"largest gap of {balance.target}" + ("" if seen.is_measured else f" in {seen.each}")
        yield Tile(points(gap.largest), label, f"95 % of random splits: {gap.bound}")
    name = seen.manifest.spec.columns.group
    if name is None or table is None or seen.manifest.spec.columns.entities:
        return
    n, notes = table.num_rows, list[str]()
    if sizes := group_sizes(seen):
        n, (largest, share) = sum(map(len, sizes.values())), largest_group(seen, sizes)
        locked = 0 if seen.parts else int(np.count_nonzero(table.column("fold").to_numpy() == LOCKED))
        notes = [f"the largest: {share or amount(largest, 'row')}", *([f"{locked:,} more locked"] if locked else [])]
    yield Tile(f"{n:,}", f"values of {name}, each in one {seen.unit}", "; ".join(notes))


def _audit_tile(audit: Audit | None) -> Tile:
    if audit is None:
        return Tile("no audit", "leaks were not looked for", "evenfold audit")
    of = Counter(finding.severity for finding in audit.findings)
    notes = [f"{len(audit.failed)} failed"] if audit.failed else []
    notes += [amount(of[severity], severity) for severity in ("warning", "note") if of[severity]]
    return Tile(f"{len(audit.passed):,}", "checks passed", ", ".join(notes) or "nothing was found")


def _beside(seen: SplitData, name: str) -> list[Block]:
    """Return the blocks under a picture: the counts of a rare class, which shares of a few rows would hide."""
    report = seen.balance
    if name != "classes" or report.shares is None or report.classes is None:
        return []
    rare = min(range(len(report.shares)), key=lambda c: report.shares[c] if report.shares else 0.0)
    rows = [fold.rows_of(rare) for fold in report.folds]
    if report.shares[rare] > 0.1 or len(rows) > 20:
        return []
    return [Paragraph(f"Rows of {report.classes[rare]} in each {seen.unit}: {', '.join(f'{n:,}' for n in rows)}.")]


def _attributes(balance: BalanceReport) -> Iterator[Table]:
    for name, attribute in balance.attributes.items():
        places = [place for place in attribute.places if any(place)]
        levels = zip(attribute.levels, attribute.shares, zip(*places, strict=True), strict=True)
        rows = [[level, *(number(each, f"{each:.1%}") for each in (share, min(held), max(held)))]
                for level, share, held in levels]  # fmt: skip
        yield Table(f"Shares of {name}", rows, [name, "all rows", "least of a fold", "most of a fold"])


def _details(seen: SplitData, audit: Audit | None) -> list[Section]:
    manifest = seen.manifest
    rows = sorted(fold.rows for fold in seen.balance.folds)
    spread = f"{rows[0]:,} to {amount(rows[-1], 'row')}, median {rows[len(rows) // 2]:,}"
    spread = f"{amount(rows[0], 'row')} each" if rows[0] == rows[-1] else spread
    title = f"Every {seen.unit} ({manifest.n_splits:,}: {spread})"
    drawn = [(seen.names[fold.split], fold) for fold in seen.balance.folds[:MOST_ROWS]]
    note = f"The first {len(drawn):,} of {manifest.n_splits:,}; others are in balance.json."
    table = places_table("split", seen.balance, drawn, note if len(drawn) < manifest.n_splits else "")
    held = [[manifest.membership.code_name(int(code)), number(n)] for code, n in counts(manifest).items()]
    sizes, head = held[:MOST_ROWS], ["fold or part", "rows"]
    codes = Table("Rows of each fold or part", sizes, head, cut(len(sizes), len(held)))
    return [
        *([] if seen.parts else [Section("folds", title, [table])]),
        Section("balance", "How even, in figures", balance_blocks(seen.balance)),
        Section("codes", "Rows of each fold or part", [codes]),
        *checks_section(audit),
        Section("asked", f"What was asked: {manifest.spec.strategy}", [_asked_of(manifest)]),
        Section("identity", f"Identity {manifest.split_id[:12]}", [_identity_of(manifest)]),
    ]


def places_table(kind: str, report: BalanceReport, places: Sequence[tuple[str, RowsBalance]], note: str = "") -> Table:
    """Return a row for each fold or part: its rows, what was asked, each figure that any has, and its class shares."""
    figures = [name for name in NUMBERS if any(getattr(place, name) is not None for _, place in places)]
    classes, rows = (report.classes or [])[:MOST_LINES], []
    has_quota = any(place.wanted is not None for _, place in places)
    for name, place in places:
        quota = number(place.wanted, "-" if place.wanted is None else f"{place.wanted:,.1f}")
        shares = (place.shares or [nan] * len(classes))[: len(classes)]
        row = [number(place.rows), *[quota] * has_quota, *(number(getattr(place, figure)) for figure in figures)]
        rows.append([name, *row, *(number(share, f"{share:.2%}") for share in shares)])
    return Table(f"Every {kind}", rows, [kind, "rows", *["asked"] * has_quota, *figures, *classes], note)


def balance_blocks(balance: BalanceReport) -> list[Block]:
    """Return the table of the worst of each figure, and of whole groups a sentence on how even they could be."""
    rows = [[figure.title, *(number(n, None if n is None else figure.form(n)) for n in (value, least))]
            for figure, value, least in balance.shown()]  # fmt: skip
    measured = f" Of {balance.n_splits:,} splits the first {balance.n_measured:,} are measured."
    note = f"Measured on {balance.target}." if balance.target else "Sizes alone: no target was at hand."
    note += measured if balance.n_measured < balance.n_splits else ""
    table = Table("How even", rows, ["measure", "value", "lower bound"], note)
    if (reach := balance.reach) is None:
        return [table]
    more = "No: that is proved" if reach.optimal else f"By a cost of at most {reach.gap:.3g} of {reach.cost:.3g}"
    return [table, Paragraph(f"Could whole groups be more even? {more}.")]


def checks_section(audit: Audit | None) -> list[Section]:
    """Return the section of every check; nothing without an audit."""
    return [Section("checks", f"Checks ({len(audit.passed)} passed)", [checks_table(audit)])] if audit else []


def checks_table(audit: Audit) -> Table:
    """Return the outcome of every check."""
    figures = {name: gate.figure for name, gate in GATES.items()}  # what is asked of a build of features has none
    severities = {finding.check: finding.severity for finding in audit.findings}
    rows = [[figures.get(name, name), severity] for name, severity in severities.items()]
    rows += [[figures.get(name, name), words or "none"] for name, words in audit.passed.items()]
    rows += [[GATES[name].figure, f"not asked: {reason}"] for name, reason in audit.not_asked.items()]
    rows += [[GATES[name].figure, "switched off"] for name in audit.off]
    return Table("Checks", rows, css="facts")


def _asked_of(manifest: Manifest) -> Table:
    spec = manifest.spec
    columns = {name: value for name, value in spec.columns.model_dump(exclude_defaults=True).items() if value}
    roles = [(f"{role} column", ", ".join(v) if isinstance(v, list) else v) for role, v in columns.items()]
    params = ", ".join(f"{name} = {value}" for name, value in spec.params.items())
    rows: list[tuple[str, Any]] = [
        ("strategy", spec.strategy), ("parameters", params or "defaults"), ("seed", spec.seed), *roles,
    ]  # fmt: skip
    if spec.group_mode == "cross":
        rows.append(("groups in different folds", "their rows are left out (group_mode: cross)"))
    if spec.holdout:
        rows.append(("locked holdout", f"{in_percent(spec.holdout.fraction)} of the rows, seed {spec.holdout.seed}"))
    rows += [(f"gate {name}", limit) for name, limit in spec.gates.items()]
    idea = (type(manifest.splitter).__doc__ or "").strip().splitlines()
    return facts("What was asked", [*rows, *([("what it makes", idea[0])] if idea else [])])


def _identity_of(manifest: Manifest) -> Table:
    where = "the same on every machine" if manifest.splitter.portable else "stored; another library may not repeat it"
    rows = [
        ("split_id (who is where)", manifest.split_id),
        ("plan_id (what was asked of which data)", manifest.plan_id),
        ("fingerprint of the columns read", manifest.fingerprint),
        ("algorithm", f"{manifest.algorithm['name']} version {manifest.algorithm['version']}, {where}"),
        ("key", ", ".join(manifest.spec.key_names) or "none: the position is the key"),
        ("generation", manifest.generation),
        *([("grown from split_id", manifest.parent_split_id)] if manifest.parent_split_id else []),
    ]
    return facts("Identity", rows)
