"""A split on one page: what was asked, what came out, how even it is, and pictures."""

from __future__ import annotations

from html import escape
from typing import Any

from evenfold.manifests.balance import BalanceReport
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import Draws
from evenfold.manifests.store.write import counts

from .page import facts, number, page, table
from .split_charts import figures
from .split_data import Seen, see

MOST_ROWS = 100
_WORST = {
    "size": ("Largest deviation of a split's test rows from their mean", "{:.2%}"),
    "class_share": ("Largest deviation of a class share from its share of all rows", "{:.2%}"),
    "ks": ("Largest Kolmogorov-Smirnov distance of a split's target to that of all rows (0 to 1)", "{:.4f}"),
    "wasserstein": ("Largest Wasserstein distance of a split's target (in its unit)", "{:.4g}"),
    "mean_in_sd": ("Largest deviation of a split's mean target (in standard deviations)", "{:.4f}"),
}


def report_html(manifest: Manifest, balance: BalanceReport, data: Any = None, audit: Any = None) -> str:
    """Return one self-contained HTML page about a split: it opens from disk, needs no network and runs no script.

    ``data``: the rows that were split (a file or frame); without them the pictures of target and groups are left
    out. ``audit``: an Audit, or any mapping or object with ``findings`` that have severity and message. Every figure
    stands in a ``<data value>`` at full precision, equal to balance.json. At most 1 MB, whatever the split's size.
    O(rows x splits), of at most 200 splits. Raises SplitError where ``data`` are not the rows of the manifest.
    """
    seen = see(manifest, balance, data)
    pictures = list(figures(seen))
    sections = [
        ("asked", "What was asked", _asked(manifest)),
        ("identity", "Identity", _identity(manifest)),
        ("sizes", "Sizes", _sizes(manifest)),
        ("balance", "Balance", _balance(balance)),
        ("audit", "Audit", _audit(audit)),
        *pictures,
        ("folds", "Every split", _folds(seen)),
    ]
    title = f"Split {manifest.name} {manifest.version}"
    what = "draws" if isinstance(manifest.membership, Draws) else "splits"
    lead = f"{escape(str(manifest.algorithm['name']))}: {manifest.n:,} rows, {manifest.n_splits:,} {what}."
    return page(title, lead, sections)


def _asked(manifest: Manifest) -> str:
    spec = manifest.spec
    columns = {name: value for name, value in spec.columns.model_dump(exclude_defaults=True).items() if value}
    roles = [(f"{role} column", ", ".join(v) if isinstance(v, list) else v) for role, v in columns.items()]
    params = ", ".join(f"{name} = {value}" for name, value in spec.params.items())
    rows = [("strategy", spec.strategy), ("parameters", params or "defaults"), ("seed", spec.seed), *roles]
    if spec.holdout:
        rows.append(("locked holdout", f"{spec.holdout.fraction:.0%} of the rows, seed {spec.holdout.seed}"))
    rows += [(f"gate {name}", limit) for name, limit in spec.gates.items()]
    idea = (type(manifest.splitter).__doc__ or "").strip().splitlines()
    said = f"<p>{escape(idea[0])}</p>" if idea else ""
    return said + facts(rows)


def _identity(manifest: Manifest) -> str:
    portable = (
        "the same on every machine" if manifest.splitter.portable else "stored; another library may not repeat it"
    )
    rows = [
        ("split_id (who is where)", manifest.split_id),
        ("plan_id (what was asked of which data)", manifest.plan_id),
        ("fingerprint of the columns read", manifest.fingerprint),
        ("algorithm", f"{manifest.algorithm['name']} version {manifest.algorithm['version']}, {portable}"),
        (
            "key",
            ", ".join(manifest.keys.column_names) if manifest.keys is not None else "none: the position is the key",
        ),
        ("generation", manifest.generation),
    ]
    return facts([*rows, *([("grown from split_id", manifest.parent_split_id)] if manifest.parent_split_id else [])])


def _sizes(manifest: Manifest) -> str:
    held = counts(manifest)
    shown = list(held.items())[:MOST_ROWS]
    rows = [[escape(manifest.membership.code_name(int(code))), number(n)] for code, n in shown]
    left = f'<p class="soft">The first {len(shown):,} of {len(held):,}.</p>' if len(held) > len(shown) else ""
    return table(["fold or part", "rows"], rows) + left


def _balance(balance: BalanceReport) -> str:
    rows = [
        [escape(_WORST[name][0]), number(value, _WORST[name][1].format(value)), _least(balance, name)]
        for name, value in balance.worst.items()
    ]
    measured = balance.n_measured < balance.n_splits
    note = f"Of {balance.n_splits:,} splits the first {balance.n_measured:,} are measured." if measured else ""
    target = f"Measured on {balance.target}." if balance.target else "Sizes alone: no target was at hand."
    told = table(["figure", "came out", "no split can be below"], rows)
    return f'{told}<p class="soft">{escape(target)} {note}</p>{_reach(balance)}'


def _least(balance: BalanceReport, name: str) -> str:
    known = balance.reachable.get(name)
    return '<span class="soft">-</span>' if known is None else number(known, _WORST[name][1].format(known))


def _reach(balance: BalanceReport) -> str:
    """Return the cost of whole groups beside the least that is reachable, in figures and in a sentence."""
    reach = balance.reach
    if reach is None:
        return ""
    numbers = "ks" in balance.worst
    what = "the target's distribution" if numbers else "class shares"
    terms = [("sizes", reach.size_term), (what, reach.class_term), ("classes a fold lacks", reach.missing)]
    rows = [[f"cost of {name}", number(value, f"{value:.3g}")] for name, value in terms]
    rows += [
        ["<b>cost in all</b>", number(reach.cost, f"{reach.cost:.3g}")],
        ["no assignment of whole groups is below", number(reach.lower_bound, f"{reach.lower_bound:.3g}")],
        ["gap", number(reach.gap, f"{reach.gap:.3g}")],
    ]
    said = (
        "Proved: no assignment of these groups is more even."
        if reach.optimal
        else "Whether an assignment reaches the bound is not known: the truth lies in the gap."
    )
    counted = "ten quantiles" if numbers else "class shares"
    meaning = (
        f"The cost adds up squared deviations of sizes and of {counted}, fold by fold, as the strategy weighs them; "
        "0 is perfectly even."
    )
    head = "<h3>Whole groups: what came out beside the best reachable</h3>"
    return f'{head}{table(["", "value"], rows)}<p>{said}</p><p class="soft">{meaning}</p>'


def _audit(audit: Any) -> str:
    if audit is None:
        return '<p class="soft">No audit was run with this report.</p>'
    findings, passed = _get(audit, "findings") or [], _get(audit, "passed") or {}
    others = f'<p class="soft">Checks that passed: {escape(", ".join(passed))}.</p>' if passed else ""
    if not findings:
        return f"<p>No finding.</p>{others}"
    said = [(str(_get(each, "severity")), str(_get(each, "message"))) for each in findings]
    items = (
        f'<li class="{escape(severity, quote=True)}"><b>{escape(severity)}</b>: {escape(message)}</li>'
        for severity, message in said
    )
    return f'<ul class="findings">{"".join(items)}</ul>{others}'


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def _folds(seen: Seen) -> str:
    report = seen.balance
    folds = report.folds[:MOST_ROWS]
    figures_of = [
        name for name in ("groups", "mean", "sd", "ks", "wasserstein") if folds and getattr(folds[0], name) is not None
    ]
    classes = (report.classes or [])[:12]
    rows = [
        [
            str(fold.split),
            number(fold.rows),
            *(number(getattr(fold, name)) for name in figures_of),
            *(number(share, f"{share:.2%}") for share in (fold.shares or [])[: len(classes)]),
        ]
        for fold in folds
    ]
    left = f'<p class="soft">The first {len(folds):,} of {report.n_splits:,}; others are in balance.json.</p>'
    made = table(["split", "rows", *figures_of, *(f"{each}" for each in classes)], rows)
    return made + (left if len(folds) < report.n_splits else "")
