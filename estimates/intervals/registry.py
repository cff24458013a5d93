"""The interval methods by name, and the one that is chosen where nobody chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from evenfold.estimates.errors import ModelError
from evenfold.estimates.results import require_level

from .bootstrap import by_resampling
from .evidence import Declined, Evidence, Made, Pair
from .nested import nested, nested_splits, not_nestable
from .rows import corrected_wald, stretches, wald
from .splits import of_splits

MODELS = "these fitted models on new rows like these"
RECIPE = "a model trained on these rows, on new rows like them"
PAST = "a model trained on this past, on a future like the stretches tested"
RECIPES = "the recipe, trained on other rows like these, on new rows"


@dataclass(frozen=True)
class IntervalMethod:
    """A way to make an interval: what its interval is of, as a phrase, and the function that makes it.

    ``make``: the interval at a level, or why there is none. ``splits``: the further fits that it asks for, each as
    rows to train on and rows to test; their predictions are ``Evidence.refits``. None where it asks for none.
    ``unfit``: why it is not for such evidence and what would be, before anything is fitted; "" where it is.
    ``follows_time``: whether rows that follow one another in time may depend on one another. As phrases for the docs:
    ``only``, what it is for where that is not all, and ``fits``, how many ``splits`` are.
    """

    of: str
    make: Callable[[Evidence, float], Made]
    splits: Callable[[Evidence], list[Pair]] | None = None
    unfit: Callable[[Evidence], str] = field(default=lambda _: "", repr=False)
    follows_time: bool = False
    only: str = ""
    fits: str = ""


METHODS: dict[str, IntervalMethod] = {
    "wald": IntervalMethod(MODELS, wald),
    "corrected_wald": IntervalMethod(RECIPE, corrected_wald),
    "stretches": IntervalMethod(PAST, stretches, follows_time=True),
    "bootstrap": IntervalMethod(MODELS, by_resampling),
    "corrected_t": IntervalMethod(RECIPES, of_splits, follows_time=True, only="folds that are not stratified"),
    "nested": IntervalMethod(
        RECIPE, nested, nested_splits, not_nestable, only="means over rows, without groups", fits="k(k - 1)/2 a repeat"
    ),
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
    by_default = "stretches" if evidence.ordered else "corrected_wald"
    chosen = METHODS[by_default if method == "auto" else method]
    if reason := chosen.unfit(evidence):
        return Declined(reason)
    interval = chosen.make(evidence, level)
    if isinstance(interval, Declined):
        return interval
    notes = interval.notes if chosen.follows_time or not evidence.ordered else (*interval.notes, DEPENDENT)
    return replace(interval, of=chosen.of, notes=notes)


def further_splits(evidence: Evidence, method: str) -> list[Pair]:
    """Return the fits that a method asks for beyond the evaluation's own; their predictions are its ``refits``."""
    chosen = METHODS.get(method)
    return [] if chosen is None or chosen.splits is None or chosen.unfit(evidence) else chosen.splits(evidence)
