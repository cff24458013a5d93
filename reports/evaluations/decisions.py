"""Pages about decisions: two models, a retraining, a look at locked rows, an audit."""

from __future__ import annotations

from collections.abc import Sequence

from evenfold.estimates.comparison import Comparison
from evenfold.estimates.intervals.months import Judgement
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.promotion import Decision
from evenfold.estimates.results import Estimate, FoldScore
from evenfold.manifests.audits.findings import Audit
from evenfold.reports.charts import Picture
from evenfold.reports.page import Origin, Page, Section, Table, Tile, Verdict, facts, number, remarks, rendered, worded
from evenfold.reports.splits.page import checks_section, checks_table, remarks_of, verdict_of
from evenfold.splitters.errors import amount, listed, verb

from .page import estimates_table, judged, remarks_on, score_tiles, warnings_of
from .pictures import month_pictures, pictured, score_pictures
from .words import kept_promises, look_words, merged_sentences, score_text

SAME, UNTOLD = "no difference", "cannot be told"


def comparison_page(comparisons: Sequence[Comparison], names: tuple[str, str] = ("A", "B")) -> Page:
    """Return the page about two models on the same rows, a metric each; ``names`` are the models'."""
    a, b = names
    tiles, rows = [], []
    for comparison in comparisons:
        reading, better, half = metric_of(comparison.metric), _better(comparison, names), comparison.resolution
        scores = " and ".join(score_text(reading.shown(score), half) for score in (comparison.a, comparison.b))
        move = f"apart by {score_text(abs(comparison.difference), half)}"
        tiles.append(Tile(better, f"{reading.title}: {scores}", move))
        interval = comparison.interval
        apart = comparison.a, comparison.b, comparison.difference
        ends = (interval.low, interval.high) if interval else (None, None)
        rows.append([reading.title, *map(number, (*apart, *ends, comparison.p)), better])
    head = ["metric", a, b, f"{b} - {a}", "from", "to", "p", "better"]
    note = "As scikit-learn scores: higher is better, errors are negative."
    picture = _difference_picture(comparisons, names)
    words = dict.fromkeys(comparison.words for comparison in comparisons)  # alike where the rows score alike
    first = comparisons[0] if comparisons else None
    often = [amount(first.repeats, "repeat"), amount(first.n_fits, "fit")] if first and first.repeats > 1 else []
    notes = merged_sentences(note for comparison in comparisons for note in comparison.notes)
    return Page(
        f"{a} and {b}", Verdict.NONE, _winners(comparisons, names), tiles, remarks("note", [*words, *notes]),
        sections=[Section("differences", picture.title, [picture])] if picture else [],
        details=[Section("figures", "Every figure", [Table("Every figure", rows, head, note)])],
        footer=Origin().words(amount(first.n_rows, "row") if first else None, *often),
    )  # fmt: skip


def _winners(comparisons: Sequence[Comparison], names: tuple[str, str]) -> str:
    """Return which model is better on which metric, in a sentence."""
    winners: dict[str, list[str]] = {}
    for comparison in comparisons:
        winners.setdefault(_better(comparison, names), []).append(metric_of(comparison.metric).title)
    sayings = {name: (f"{name} is better on", "") for name in names}
    sayings |= {SAME: ("no difference that matters on", ""), UNTOLD: ("which is better on", " cannot be told")}
    words = "; ".join(f"{before} {listed(winners[name])}{after}"
                      for name, (before, after) in sayings.items() if name in winners)  # fmt: skip
    return words[:1].upper() + words[1:] + "." if words else "Nothing was compared."


def _better(comparison: Comparison, names: tuple[str, str]) -> str:
    """Return which model the verdict calls better, or that it calls neither."""
    return {"better": names[1], "worse": names[0], "equivalent": SAME}.get(comparison.verdict, UNTOLD)


def _difference_picture(comparisons: Sequence[Comparison], names: tuple[str, str]) -> Picture | None:
    """Draw each metric's difference in units of its interval's half width: left of zero A is better, right of it B."""
    places = [(each, [2 * value / (of.high - of.low) for value in (of.low, each.difference, of.high)])
              for each in comparisons if (of := each.interval) is not None and of.high > of.low]  # fmt: skip
    if not places:
        return None
    n, reach = len(places), 1.08 * max([1.2, *(abs(value) for _, values in places for value in values)])
    better = {_better(comparison, names) for comparison in comparisons}
    alone = better.pop() if len(better) == 1 else ""
    titles = {"": "Metric by metric", SAME: "No difference that matters", UNTOLD: "Which is better cannot be told"}
    title = titles.get(alone, f"{alone} is better on every metric")
    picture = Picture(
        title, "difference, in half widths of its interval", "",
        (-reach, reach), (-n + 0.4, 0.6), height=70 + 34 * n,
        caption=f"Left of the dashed line {names[0]} is better, right of it {names[1]}.",
        y_ticks=[(-i, metric_of(comparison.metric).title) for i, (comparison, _) in enumerate(places)],
    )  # fmt: skip
    picture.across("limit", x=0)
    for i, (comparison, (low, middle, high)) in enumerate(places):
        picture.bar(low, high, -i - 0.2, -i + 0.2, "band")
        picture.dots([(middle, -i, f"{score_text(comparison.difference)}")], 0, 5)
    return picture


def retraining_page(
    name: str, decision: Decision, estimates: Sequence[Estimate], audit: Audit | None, checked: Audit | None = None, *,
    version: str = "", growth: Sequence[str] = (), month: Judgement | None = None, split: str = "",
    titles: tuple[str, str] = ("", ""), origin: Origin | None = None,
) -> Page:  # fmt: skip
    """Return the page of a retraining: what serves and what it scores, what was decided and why, the split, the rule.

    ``checked``: the audit of the new model. ``version``: a promoted champion's. ``growth``: what joined the split, and
    ``month``: the champion's judgement of it. ``titles``: of the recipe that serves, which ``estimates`` are of, and of
    the other. ``split``: its name and version.
    """
    month = month or Judgement()
    unclear, newer = (month.sentences, []) if month.verdict == "unclear" else ([], [*month.sentences])
    if month.score is not None:
        metric = metric_of(decision.metric)
        value = f"{metric.title} {metric.shown(month.score):.4g}"
        newer.append(f"The champion of before has {value} on the {month.rows:,} new rows; it decides nothing.")
    what = f"{name} version {version} is the champion" if decision.promote and version else f"{name} stays as it is"
    scores = Section("estimates", f"The scores of {titles[0] or 'the winner'}", [estimates_table(estimates)])
    return Page(
        title=f"Retraining {name}" + (f" on {split}" if split else ""),
        verdict=judged(audit, unclear),
        lead=f"{', '.join(filter(None, [what, titles[0]]))}: {decision.why}. "
        f"{difference_words(decision, *titles)}".strip(),
        tiles=[*_tiles_of_decision(decision, titles[0]), *score_tiles(estimates)],
        findings=[*remarks("note", [decision.answer]), *remarks("warning", unclear), *remarks_of(audit),
                  *remarks_of(checked), *remarks_on(estimates), *remarks("note", newer)],
        sections=worded("split", "What joined the split", [words[:1].upper() + words[1:] for words in growth])
        + pictured("months", month_pictures(month.series)),
        details=[
            *([scores] if estimates else []), *worded("rule", "The rule", [decision.rule]), *checks_section(audit),
            *worded("model", "The new model", [*filter(None, checked.passed.values())] if checked else []),
        ],
        footer=(origin or Origin()).words(),
    )  # fmt: skip


def _tiles_of_decision(decision: Decision, serves: str) -> list[Tile]:
    """Return whether the candidate was promoted, and how far it is from the champion where they were compared."""
    recipe = f"the {decision.winner}'s recipe{f', {serves}' if serves else ''}"
    promoted = Tile("promoted" if decision.promote else "not promoted", recipe)
    if decision.difference is None:
        return [promoted]
    words = [f"{metric_of(decision.metric).title}, candidate - champion", _between(decision)]
    note = "" if decision.p is None else f"p = {decision.p:.2g}"
    return [promoted, Tile(f"{decision.difference:+.3g}", ", ".join(filter(None, words)), note)]


def difference_words(decision: Decision, serves: str = "", loser: str = "") -> str:
    """Return in a sentence how far the candidate is from the champion, at the level at which it was decided."""
    if decision.difference is None:
        return ""
    titles = (serves, loser) if decision.winner == "candidate" else (loser, serves)
    candidate, champion = (f"{title}, the {role}," if title else f"the {role}"
                           for title, role in zip(titles, ("candidate", "champion"), strict=True))  # fmt: skip
    apart = f"{metric_of(decision.metric).title} of {candidate} minus that of {champion}"
    between = _between(decision)
    words = f"{apart} is {score_text(decision.difference)} (higher is better)"
    return f"{words}, {between}." if between else f"{words}. {decision.words}".strip()


def _between(decision: Decision) -> str:
    """Return the interval of the difference; nothing where there is none."""
    if decision.low is None or decision.high is None:
        return ""
    level = "" if decision.level is None else f"{decision.level:.1%} interval "
    return f"{level}[{score_text(decision.low)}, {score_text(decision.high)}]"


def look_page(
    score: FoldScore, estimates: Sequence[Estimate], *, look: int, reason: str, split: str, model: str,
    budget: int | None = None, by: str = "", origin: Origin | None = None, promised: Sequence[Estimate] = (),
) -> Page:  # fmt: skip
    """Return the page of a look at the locked rows; scores stand beside what the folds ``promised`` of the recipe."""
    before = {2: "once", 3: "twice"}.get(look, amount(look - 1, "time"))
    since = "what was chosen since then was chosen with them in mind, and their score flatters it"
    again = [f"These rows were looked at {before} before: {since}."] if look > 1 else []
    warnings = [*remarks("warning", again), *warnings_of(estimates)]
    lead = f"{model.rpartition(':')[2]} on {amount(score.n_test, 'locked row')} that no fold has seen."
    promises = kept_promises(estimates, promised) if promised else []
    return Page(
        title=f"Look {look} at the locked rows of {split}",
        verdict=Verdict.LOOK if warnings or any("worse" in words for words in promises) else Verdict.GOOD,
        lead=" ".join([lead, *promises]),
        tiles=score_tiles(estimates, promised),
        findings=[*warnings, *remarks("note", [look_words(estimates)])],
        sections=pictured("metric", score_pictures([score], estimates).values()),
        details=[Section("look", "This look", [facts("This look", [
            ("number", f"{look} of {budget}" if budget else f"{look}"), ("reason", reason or "not told"),
            ("by", by or "not told"), ("model", model), ("training rows", f"{score.n_train:,}")])])],
        footer=(origin or Origin()).words(f"split {split}"),
    )  # fmt: skip


def audit_advice(audit: Audit) -> list[str]:
    """Return how what is no fault is ignored, and what there was nothing to check about, in a sentence each."""
    silent = next((each.code for each in audit.findings if each.code and each.severity != "note"), "")
    how = f"No fault here? Ignore it and say why, in three words or more: --ignore {silent}='...'"
    nothing = f"nothing to check: {'; '.join(dict.fromkeys(audit.not_asked.values()))}."
    return ([how] if silent else []) + ([nothing] if audit.not_asked else [])


def audit_page(audit: Audit) -> Page:
    """Return the page of an audit: its findings, errors first, every check in a sentence, and how much audits find."""
    kinds = {"passed": audit.passed, "failed": audit.failed, "had nothing to check": audit.not_asked}
    return Page(
        title=f"Audit of {audit.name} {audit.version}",
        verdict=verdict_of(None, audit),
        lead=f"{amount(len(audit.findings), 'finding') if audit.findings else 'Nothing was found'} in "
        f"{amount(audit.n_rows, 'row')} and {amount(len(audit.features), 'feature')}.",
        tiles=[
            Tile(f"{len(checks):,}", f"{verb(len(checks), 'check', 'checks')} {words}")
            for words, checks in kinds.items()
        ],
        findings=remarks_of(audit),
        details=[
            Section("checks", "Every check", [checks_table(audit)]),
            *worded("features", f"Features ({len(audit.features)})", [", ".join(audit.features) or "none"]),
        ],
        footer=Origin().words(rendered("recall.j2"), f"split {audit.split_id[:12]}"),
    )
