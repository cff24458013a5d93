"""Two recorded evaluations, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from evenfold.estimates import Comparison, compare
from evenfold.splitters import SplitError
from evenfold.tasks import Home, prepare_environment


def compare_runs(
    run_a: str, run_b: str, metrics: Sequence[str] | None = None, *, level: float = 0.95, margin: float = 0.0
) -> list[Comparison]:
    """Return, per metric, how the model of run B does beside that of run A on the same rows.

    Both must rest on the same split. Versions of one split that grew are compared on the rows that both tested, and
    the comparison says so. It is recorded beside them, with its page. Raises SplitError for runs of different splits,
    or without predictions.
    """
    from evenfold.tasks.record.reading import metrics_of, read_evaluation
    from evenfold.tasks.record.studies import record_comparison

    home = Home.here()
    prepare_environment(home)
    home.require_record()
    a, b = (read_evaluation(run_id) for run_id in (run_a, run_b))
    note = _same_split(a.tags, b.tags)
    asked = metrics or [metric for metric in metrics_of(a) if metric in metrics_of(b)]
    if not asked:
        raise SplitError(f"{a.name} and {b.name} share no metric; name one with --metric.")
    groups = "group" if "group" in a.predictions and "group" in b.predictions else None
    names = (f"A ({a.name})", f"B ({b.name})")
    stratified = a.tags.get("evenfold.stratified") == "true"
    made = [
        compare(
            a.predictions,
            b.predictions,
            metric,
            on=a.key,
            groups=groups,
            level=level,
            margin=margin,
            stratified=stratified,
            names=names,
        )
        for metric in asked
    ]
    made = [_noted(each, note) for each in made] if note else made
    record_comparison(a, b, made)
    return made


def _same_split(a: dict[str, str], b: dict[str, str]) -> str | None:
    """Return what is to be said of two splits that are versions of one, None where they are the same."""
    if a.get("evenfold.split_id") == b.get("evenfold.split_id"):
        return None
    specs = a.get("evenfold.spec", "?"), b.get("evenfold.spec", "?")
    if specs[0].partition(".")[0] != specs[1].partition(".")[0] or "?" in specs:
        raise SplitError(
            f"the runs rest on different splits ({specs[0]} and {specs[1]}), so their rows were not tested alike; "
            "evaluate one of them on the other's manifest (--manifest)."
        )
    return f"{specs[0]} and {specs[1]} are versions of one split; compared on the rows that both tested."


def _noted(comparison: Comparison, note: str) -> Comparison:
    from dataclasses import replace

    return replace(comparison, notes=(note, *comparison.notes))
