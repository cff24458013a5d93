"""What tags of models and runs say: read as a request is, for whoever may edit MLflow may have written them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

from evenfold.estimates import ModelError, ModelSpec
from evenfold.estimates.promotion import YEARLY, Decision
from evenfold.splitters import SplitError
from evenfold.splitters.code import changed
from evenfold.tasks.outcomes import Champion
from evenfold.tasks.record.entries import code_in
from pydantic import TypeAdapter, ValidationError

MODEL, DECISION, SCORES = "evenfold.model", "evenfold.decision", "evenfold.scores"
MOST = sys.float_info.max
EVALUATION = "evenfold.evaluation_run_id"  # at a version of the registry: the evaluation of its recipe
ANSWERED = "evenfold.answer"  # at the run of a retraining, and at its version: who said yes or no, and why
OPENED = "evenfold.opened"  # at the run of a retraining: by which attempt it was begun


@dataclass(frozen=True)
class RecordedScore:
    """What a version remembers of a score of its recipe: a metric by a method, and its interval where it had one."""

    metric: str
    method: str
    value: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None


def moved_code(champion: Champion) -> list[str]:
    """Return the modules of the user's own that have changed since a version was registered, as it says itself."""
    before, now = code_in(champion.tags), champion.model.code if champion.model else {}
    of_libraries = {name for code in (before, now) for name, value in code.items() if "==" in value}
    return [name for name in changed(before, now) if before and name not in of_libraries]


_DECISION, _SCORES = TypeAdapter(Decision), TypeAdapter(list[RecordedScore])
T = TypeVar("T")


def recipe_in(tags: Mapping[str, str], where: str) -> ModelSpec | None:
    """Return the recipe that the tags name, None where they name none; nothing of it is imported.

    Raises SplitError that names the tag and ``where`` it stands for what is no recipe: a champion that cannot be
    compared would give way.
    """
    return _read(_recipe, MODEL, tags, where, "recipe", "or another version by evenfold rollback")


def _recipe(text: str) -> ModelSpec:
    recipe = json.loads(text)
    if not isinstance(recipe, Mapping):
        raise ValueError(f"a {type(recipe).__name__}, not the fields of a model")
    return ModelSpec.of(recipe)


def decision_in(tags: Mapping[str, str], where: str) -> Decision | None:
    """Return the decision that the tags of a retraining's run hold, None where they hold none.

    Raises SplitError as ``recipe_in`` does, also for what no comparison can have spent: later ones go by it.
    """
    remedy = "or delete the tag and with it what is known of this comparison"
    return _read(_decision, DECISION, tags, where, "decision", remedy)


def _decision(text: str) -> Decision:
    decision = _DECISION.validate_json(text, strict=True)
    possible = {"spent": (0, YEARLY), "margin": (0, MOST), "level": (0, 1), "information": (0, MOST)}
    values = {name: getattr(decision, name) for name in (*possible, "bound")}
    ends = {name: possible.get(name, (-MOST, MOST)) for name, value in values.items() if value is not None}
    if wrong := [f"{name} is {values[name]}" for name, (low, high) in ends.items() if not low <= values[name] <= high]:
        raise ValueError(", ".join(wrong))
    return decision


def scores_in(tags: Mapping[str, str], where: str) -> list[RecordedScore]:
    """Return what the tags of a version say of its recipe's scores; of those that were no numbers, nothing.

    Raises SplitError as ``recipe_in`` does: a new model that is compared with nothing would be taken.
    """
    remedy = "or delete the tag, and the new model is compared with no score"
    return _read(_scores, SCORES, tags, where, "list of scores", remedy) or []


def _scores(text: str) -> list[RecordedScore]:
    scores = _SCORES.validate_json(text, strict=True)
    if any((score.low is None) != (score.high is None) for score in scores):
        raise ValueError("an interval with one end")
    numbers = [[score.value, score.sd or 0.0, score.low or 0.0, score.high or 0.0] for score in scores]
    return [score for score, each in zip(scores, numbers, strict=True) if all(map(isfinite, each))]


def _read(read: Callable[[str], T], tag: str, tags: Mapping[str, str], where: str, what: str, remedy: str) -> T | None:
    """Return what a tag says, None where there is none; SplitError for what it cannot say."""
    try:
        return read(tags[tag]) if tag in tags else None
    except (ValueError, RecursionError, ModelError) as error:
        reason = f"the tag {tag} of {where} in MLflow is not a {what} ({_reason(error)})"
        raise SplitError(f"{reason}; put back what was there, {remedy}.") from None


def _reason(error: Exception) -> str:
    """Return what is wrong in a few words of one line; what stood there is quoted as Python would write it."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, ValidationError):
        first: Any = error.errors()[0]
        place = ".".join(map(str, first["loc"]))[:60]
        problem = f"{place!r}: {first['msg']}" if place else str(first["msg"])
    else:
        problem = str(error)
    line = "".join(letter if letter.isprintable() else " " for letter in problem)
    return " ".join(line.split())[:200].rstrip(".;")
