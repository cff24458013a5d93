"""What tags of models and runs say: read as a request is, for whoever may edit MLflow may have written them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from evenfold.estimates import ModelError, ModelSpec
from evenfold.estimates.promotion import YEARLY, Decision
from evenfold.splitters import SplitError
from evenfold.splitters.code import changed
from evenfold.tasks.outcomes import Champion
from evenfold.tasks.record.entries import code_in
from pydantic import TypeAdapter, ValidationError

MODEL, DECISION, SCORES = "evenfold.model", "evenfold.decision", "evenfold.scores"
EVALUATION = "evenfold.evaluation_run_id"  # at a version of the registry: the evaluation of its recipe
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


def recipe_in(tags: Mapping[str, str], where: str) -> ModelSpec | None:
    """Return the recipe that the tags name, None where they name none; nothing of it is imported.

    Raises SplitError that names the tag and ``where`` it stands for what is no recipe: a champion that cannot be
    compared would give way.
    """
    if MODEL not in tags:
        return None
    try:
        recipe = json.loads(tags[MODEL])
        if not isinstance(recipe, Mapping):
            raise ValueError(f"a {type(recipe).__name__}, not the fields of a model")
        return ModelSpec.of(recipe)
    except (ValueError, RecursionError, ModelError) as error:
        remedy = "put back what was there, or another version by evenfold rollback"
        raise _refused(MODEL, where, "recipe", error, remedy) from None


def decision_in(tags: Mapping[str, str], where: str) -> Decision | None:
    """Return the decision that the tags of a retraining's run hold, None where they hold none.

    Raises SplitError as ``recipe_in`` does, also for what no comparison can have spent: later ones go by it.
    """
    if DECISION not in tags:
        return None
    try:
        decision = _DECISION.validate_json(tags[DECISION], strict=True)
        _require_possible(decision)
    except (ValueError, RecursionError) as error:
        remedy = "put back what was there, or delete the tag and with it what is known of this comparison"
        raise _refused(DECISION, where, "decision", error, remedy) from None
    return decision


def _require_possible(decision: Decision) -> None:
    possible = {
        "spent": 0 <= decision.spent <= YEARLY,
        "margin": isfinite(decision.margin) and decision.margin >= 0,
        "level": decision.level is None or 0 <= decision.level <= 1,
        "information": decision.information is None or (isfinite(decision.information) and decision.information >= 0),
        "bound": decision.bound is None or isfinite(decision.bound),
    }
    wrong = [f"{name} is {getattr(decision, name)}" for name, fine in possible.items() if not fine]
    if wrong:
        raise ValueError(", ".join(wrong))


def scores_in(tags: Mapping[str, str], where: str) -> list[RecordedScore]:
    """Return what the tags of a version say of its recipe's scores; of those that were no numbers, nothing.

    Raises SplitError as ``recipe_in`` does: a new model that is compared with nothing would be taken.
    """
    if SCORES not in tags:
        return []
    try:
        scores = _SCORES.validate_json(tags[SCORES], strict=True)
        if any((score.low is None) != (score.high is None) for score in scores):
            raise ValueError("an interval with one end")
    except (ValueError, RecursionError) as error:
        remedy = "put back what was there, or delete the tag, and the new model is compared with no score"
        raise _refused(SCORES, where, "list of scores", error, remedy) from None
    ends = [[end for end in (score.value, score.sd, score.low, score.high) if end is not None] for score in scores]
    return [score for score, numbers in zip(scores, ends, strict=True) if all(map(isfinite, numbers))]


def _refused(tag: str, where: str, what: str, error: Exception, remedy: str) -> SplitError:
    return SplitError(f"the tag {tag} of {where} in MLflow is not a {what} ({_reason(error)}); {remedy}.")


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
