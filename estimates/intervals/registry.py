"""The interval methods by name, and the one that is chosen where nobody chooses."""

from __future__ import annotations

from dataclasses import replace

from evenfold.estimates.errors import ModelError
from evenfold.estimates.results import require_level

from . import bootstrap, nested, rows, splits
from .evidence import Declined, Evidence, IntervalMethod, Made, Need, Pair

METHODS: dict[str, IntervalMethod] = {
    method.name: method for module in (rows, splits, bootstrap, nested) for method in module.METHODS
}
INTERVALS = ("auto", "bootstrap", "corrected_t", "nested", "none")  # the others are chosen by auto alone
DEPENDENT = (
    "Rows that follow one another in time depend on one another, and this interval takes them for independent: of a "
    "series such intervals held the truth in .38 to .60 of the cases where they said .90; choose auto."
)


def interval_for(evidence: Evidence, method: str = "auto", level: float = 0.95) -> Made:
    """Return the interval of a metric's value by a method, or why there is none and what would give one.

    ``auto``: stretches of time where rows are ordered, else ``corrected_wald``, which costs no fit and holds for any
    metric that does not hang on single rows, weights, groups and stratified folds. Raises ModelError for an unknown
    name or a level outside of (0, 1).
    """
    if method not in INTERVALS and method not in METHODS:
        raise ModelError(f"interval {method!r} is unknown; choose {', '.join(INTERVALS)}.")
    require_level(level)
    if method == "none":
        return Declined("")
    by_time = "stretches" if evidence.ordered else "corrected_wald"
    default = "corrected_t" if evidence.predictions is None else by_time
    chosen = METHODS[default if method == "auto" else method]
    if reason := chosen.unfit(evidence):
        return Declined(reason)
    missing = sorted(chosen.needs - _there(evidence))
    if missing:
        return Declined(f"{chosen.name} needs {' and '.join(missing)}, which this evaluation does not have.")
    interval = chosen.make(evidence, level)
    if isinstance(interval, Declined):
        return interval
    notes = interval.notes if chosen.follows_time or not evidence.ordered else (*interval.notes, DEPENDENT)
    return replace(interval, of=chosen.of, notes=notes)


def further_splits(evidence: Evidence, method: str) -> list[Pair]:
    """Return the fits that a method asks for beyond the evaluation's own; their predictions are its ``refits``."""
    chosen = METHODS.get(method)
    return [] if chosen is None or chosen.splits is None or chosen.unfit(evidence) else chosen.splits(evidence)


def _there(evidence: Evidence) -> set[Need]:
    there: dict[Need, bool] = {
        "predictions": evidence.predictions is not None,
        "fold scores": bool(evidence.scores),
        "refits": bool(evidence.refits),
    }
    return {need for need, has in there.items() if has}
