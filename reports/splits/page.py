"""A split on one page: whether it is good, why, and pictures; what was asked and its identity folded at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import nan
from typing import Any

import numpy as np
from evenfold.estimates.results import in_percent, rounded
from evenfold.manifests.audits.findings import GATES, Audit
from evenfold.manifests.figures import NUMBERS, BalanceReport, points
from evenfold.manifests.joined import compared_with_all
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED, LOCKED, Labels
from evenfold.manifests.store.write import counts
from evenfold.manifests.tables.canonical import amount, verb
from evenfold.reports.charts import cut
from evenfold.reports.page import (
    Block,
    Number,
    Origin,
    Page,
    Paragraph,
    Remark,
    Section,
    Table,
    Tile,
    Verdict,
    facts,
    listed,
    number,
)
from evenfold.reports.splits.data import target_gap
from evenfold.splitters import PackReport

from .data import MOST_LINES, SplitData, group_sizes, see
from .pictures import largest_group, split_pictures

MOST_ROWS = 100


def report_html(
    manifest: Manifest,
    balance: BalanceReport,
    data: Any = None,
    audit: Audit | None = None,
    origin: Origin | None = None,
) -> str:
    """Return one self-contained HTML page about a split: it opens from disk, needs no network and runs no script.

    ``data``: the rows that were split (a file or frame), for pictures of target and groups. ``audit``: decides the
    verdict. ``origin``: data, run and day for the footer. Every figure stands in a ``<data value>`` at full
    precision, equal to balance.json. At most 1 MB; O(rows x splits), of at most 200 splits. Raises SplitError where
    ``data`` are not the rows of the manifest.
    """
    return split_page(see(manifest, balance, data), audit, origin).html()


def split_page(seen: SplitData, audit: Audit | None = None, origin: Origin | None = None) -> Page:
    """Return the page of a split."""
    manifest = seen.manifest
    sections = [
        Section(name, picture.title, [picture, *_beside(seen, name)]) for name, picture in split_pictures(seen).items()
    ]
    if seen.parts:
        total = sum(part.size for part in seen.parts.values())
        shares = [f"{100 * part.size / total:.1f} % {name}" for name, part in seen.parts.items()]
        sections.insert(0, Section("parts", listed(shares), [_parts(seen)]))
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
        return f"{rows} in {amount(len(shares), 'part')}: {listed(shares)}.{_apart(manifest)}"
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


def _parts(seen: SplitData) -> Table:
    """Return the parts: rows, their share of all, and mean, sd and KS of the target or the share of each class."""
    target, parts = seen.target, list(seen.parts.values())
    total = sum(part.size for part in parts)
    head = ["part", "rows", "of all"]
    rows = [[name, number(part.size), _percent(part.size / total)] for name, part in seen.parts.items()]
    if target is not None and target.numeric:
        head += [f"mean {target.name}", "sd", "KS"]
        ranks = [np.searchsorted(seen.rows, part) for part in parts]
        for row, fold in zip(rows, compared_with_all(target.values[seen.rows], ranks), strict=True):
            row += map(number, (fold.get("mean"), fold.get("sd"), fold.get("ks")))  # none of a part that lost its rows
    elif target is not None:
        head += target.names[:MOST_LINES]
        for row, part in zip(rows, parts, strict=True):
            held = np.bincount(target.codes[part], minlength=len(target.names)) / max(part.size, 1)
            row += [_percent(share) for share in held.tolist()[:MOST_LINES]]
    return Table("The parts", rows, head)


def _percent(share: float) -> Number:
    return number(share, f"{share:.1%}")


def _attributes(balance: BalanceReport) -> Iterator[Table]:
    for name, attribute in balance.attributes.items():
        places = [place for place in attribute.places if any(place)]
        rows = [
            [level, *map(_percent, (share, min(held), max(held)))]
            for level, share, held in zip(attribute.levels, attribute.shares, zip(*places, strict=True), strict=True)
        ]
        yield Table(f"Shares of {name}", rows, [name, "all rows", "least of a fold", "most of a fold"])


def _details(seen: SplitData, audit: Audit | None) -> list[Section]:
    manifest = seen.manifest
    rows = sorted(fold.rows for fold in seen.balance.folds)
    spread = f"{rows[0]:,} to {amount(rows[-1], 'row')}, median {rows[len(rows) // 2]:,}"
    spread = f"{amount(rows[0], 'row')} each" if rows[0] == rows[-1] else spread
    title = f"Every {seen.unit} ({seen.manifest.n_splits:,}: {spread})"
    return [
        *([] if seen.parts else [Section("folds", title, [_folds_table(seen.balance, seen.names)])]),
        Section("balance", "How even, in figures", _figures_of(seen.balance)),
        Section("codes", "Rows of each fold or part", [_sizes(manifest)]),
        *checks_section(audit),
        Section("asked", f"What was asked: {manifest.spec.strategy}", [_asked_of(manifest)]),
        Section("identity", f"Identity {manifest.split_id[:12]}", [_identity_of(manifest)]),
    ]


def _folds_table(report: BalanceReport, names: list[str]) -> Table:
    folds = report.folds[:MOST_ROWS]
    figures = [name for name in NUMBERS if any(getattr(fold, name) is not None for fold in folds)]
    classes, rows = (report.classes or [])[:12], []
    for fold in folds:
        shares = (fold.shares or [nan] * len(classes))[: len(classes)]
        row = [number(getattr(fold, name)) for name in ("rows", *figures)]
        rows.append([names[fold.split], *row, *(number(share, f"{share:.2%}") for share in shares)])
    note = f"The first {len(folds):,} of {report.n_splits:,}; others are in balance.json."
    note = note if len(folds) < report.n_splits else ""
    return Table("Every split", rows, ["split", "rows", *figures, *classes], note)


def _figures_of(balance: BalanceReport) -> list[Block]:
    rows = [
        [figure.title, *(number(n, None if n is None else figure.form(n)) for n in (value, least))]
        for figure, value, least in balance.shown()
    ]
    measured = f" Of {balance.n_splits:,} splits the first {balance.n_measured:,} are measured."
    note = f"Measured on {balance.target}." if balance.target else "Sizes alone: no target was at hand."
    note += measured if balance.n_measured < balance.n_splits else ""
    table = Table("How even", rows, ["measure", "value", "lower bound"], note)
    return [table, *([] if balance.reach is None else _reach(balance.reach, "ks" in balance.worst))]


def _reach(reach: PackReport, numeric: bool) -> list[Block]:
    """Return the cost of whole groups beside the least that is reachable, in a sentence and in figures."""
    more = "No: that is proved" if reach.optimal else f"By a cost of at most {reach.gap:.3g} of {reach.cost:.3g}"
    words = Paragraph(f"Could whole groups be more even? {more}.")
    what = "the target's distribution" if numeric else "class shares"
    costs = {
        "cost of sizes": reach.size_term, f"cost of {what}": reach.class_term,
        "cost of classes that a fold lacks": reach.missing, "cost in all": reach.cost,
        "no assignment of whole groups is below": reach.lower_bound, "gap": reach.gap,
    }  # fmt: skip
    rows = [[name, number(value, f"{value:.3g}")] for name, value in costs.items()]
    counted_by = "ranges of the target" if numeric else "class shares"
    note = (
        f"The cost adds up squared deviations of sizes and of {counted_by}, fold by fold, as the strategy weighs them; "
        "0 is perfectly even."
    )
    return [words, Table("Cost of whole groups", rows, ["figure", "value"], note)]


def _sizes(manifest: Manifest) -> Table:
    held = counts(manifest)
    drawn = list(held.items())[:MOST_ROWS]
    rows = [[manifest.membership.code_name(int(code)), number(n)] for code, n in drawn]
    return Table("Rows of each fold or part", rows, ["fold or part", "rows"], cut(len(drawn), len(held)))


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
    parent = [("grown from split_id", manifest.parent_split_id)] if manifest.parent_split_id else []
    rows = [
        ("split_id (who is where)", manifest.split_id),
        ("plan_id (what was asked of which data)", manifest.plan_id),
        ("fingerprint of the columns read", manifest.fingerprint),
        ("algorithm", f"{manifest.algorithm['name']} version {manifest.algorithm['version']}, {where}"),
        ("key", ", ".join(manifest.spec.key_names) or "none: the position is the key"),
        ("generation", manifest.generation),
    ]
    return facts("Identity", [*rows, *parent])
