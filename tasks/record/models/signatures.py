"""Content of MLflow, which others may edit: tags, read as a request is; and signed versions, recipes and decisions.

Signed by whoever made them, or by a person's word for a version that this home did not sign, as one of an earlier
release.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from evenfold.estimates import Estimate, ModelError, ModelSpec
from evenfold.estimates.promotion import YEARLY, Decision
from evenfold.manifests.store.header import sha256
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.splitters.deployed import is_deployed
from evenfold.splitters.naming import changed
from evenfold.tasks.outcomes import Champion, FinalModel
from evenfold.tasks.record.entries import CODE, RECIPE, code_in
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.runtime.signing import is_signed, sign
from pydantic import TypeAdapter, ValidationError

from .stored_models import fetched

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

MODEL, DECISION, SCORES = "evenfold.model", "evenfold.decision", "evenfold.scores"
MOST = sys.float_info.max
MOST_SCORES = 30
EVALUATION = "evenfold.evaluation_run_id"  # at a version of the registry: the evaluation of its recipe
ANSWERED = "evenfold.answer"  # at the run of a retraining, and at its version: who said yes or no, and why
OPENED = "evenfold.opened"  # at the run of a retraining: by which attempt it was begun


@dataclass(frozen=True)
class RecordedScore:
    """The score of a version's recipe: a metric by a method, and its interval where it had one."""

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


def model_tags(
    recipe: ModelSpec, final: FinalModel, fingerprint: str, evaluation_run_id: str, estimates: Sequence[Estimate]
) -> dict[str, str]:
    """Return what the tags of a version say of its model: recipe, code, rows, digest, and what its recipe scores."""
    tags = {MODEL: json.dumps(recipe.model_dump(mode="json", exclude_defaults=True))}
    tags |= {CODE: json.dumps(recipe.code)} if recipe.code else {}
    tags |= {"evenfold.values": fingerprint, "evenfold.n_train": str(final.n_train), DIGEST: final.file.sha256}
    scores = []
    for each in estimates[:MOST_SCORES]:
        low, high = (getattr(each.interval, end, None) for end in ("low", "high"))
        scores.append(asdict(RecordedScore(each.metric, each.method, each.value, each.sd, low, high)))
    return tags | ({EVALUATION: evaluation_run_id, SCORES: json.dumps(scores)} if evaluation_run_id else {})


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
    """Return what a tag says, None where there is none; SplitError in one line for what it cannot say."""
    try:
        return read(tags[tag]) if tag in tags else None
    except RecursionError:
        why = "nested too deeply"
    except ValidationError as error:  # which quotes what stood there as Python would write it
        first: Any = error.errors()[0]
        place = ".".join(map(str, first["loc"]))[:60]
        why = f"{place!r}: {first['msg']}" if place else str(first["msg"])
    except (ValueError, ModelError) as error:
        why = str(error)
    reason = f"the tag {tag} of {where} in MLflow is not a {what} ({one_line(why, 200).rstrip('.;')})"
    raise SplitError(f"{reason}; put back what was there, {remedy}.")


def one_line(text: str, most: int) -> str:
    """Return what somebody wrote as one line of at most so many characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:most]


# At a version: the digest of its model's file; its signatures, each by a tag of its own, for several homes may sign;
# whose place it took as champion; who withdrew it, and why. The last three come later, and are not signed.
DIGEST, SIGNATURE, REPLACES, WITHDRAWN = (
    f"evenfold.{name}" for name in ("model_sha256", "signature", "replaces", "withdrawn")
)


def claim_of(version: ModelVersion, tags: Mapping[str, str]) -> dict[str, object]:
    """Return what the signature of a version covers: its name and number, where its files lie, and every tag of ours.

    Among these are its recipe, split, scores, run key, evaluation and the digest of its model.
    """
    later = (SIGNATURE, REPLACES, WITHDRAWN)
    ours = {tag: value for tag, value in tags.items() if tag.startswith("evenfold.") and not tag.startswith(later)}
    return {"name": version.name, "version": str(version.version), "source": version.source, "tags": ours}


def sign_version(client: MlflowClient, version: ModelVersion, tags: Mapping[str, str]) -> None:
    """Sign a version of the registry as one that has these ``tags``, whatever it says by itself."""
    signature = sign("version", claim_of(version, tags))
    client.set_model_version_tag(version.name, str(version.version), f"{SIGNATURE}.{signature[:8]}", signature)


def is_signed_version(version: ModelVersion) -> bool:
    """Return whether this home or its team signed a version of the registry, as it is now."""
    claim = claim_of(version, version.tags)
    return is_signed("version", claim, [value for tag, value in version.tags.items() if tag.startswith(SIGNATURE)])


def require_signed_version(version: ModelVersion) -> None:
    """Raise UntrustedNameError unless this home or its team signed a version of the registry, as it is now."""
    if not is_signed_version(version):
        raise UntrustedNameError(
            f"version {version.version} of {version.name} in MLflow was not signed by this home, or was changed since, "
            f"and is not used; look at it and say evenfold trust {version.name}@{version.version} at a terminal, put "
            "another version back (evenfold rollback), or set EVENFOLD_SIGNING_KEY to the key of whoever signed it."
        )


def is_signed_decision(run: Run) -> bool:
    """Return whether this home or its team made the decision that the tags of a retraining's run hold, for that run."""
    claim = {"run": run.info.run_id, "decision": run.data.tags.get(DECISION)}
    return is_signed("decision", claim, [run.data.tags.get(SIGNATURE)])


@dataclass(frozen=True)
class Untrusted:
    """A version as it was looked at: ``sha256`` of its one skops file ("": none is ever loaded), and its recipe."""

    version: ModelVersion
    sha256: str
    recipe: dict[str, object] | None
    evaluated: Mapping[str, object] | None


def look_at(tracker: Tracker, name: str, version: str) -> Untrusted:
    """Return what would be trusted; nothing of it is loaded or imported.

    Raises SplitError in a deployed run, for a version that is not there, and for one whose evaluation names another
    recipe than it does itself.
    """
    if is_deployed():
        raise SplitError("evenfold trust is a person's word at a terminal, and a deployed run has none to give.")
    try:
        registered = tracker.client.get_model_version(name, version)
    except Exception:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no version {version!a} of a model {name!a} in {tracker.home.tracking_uri}; write "
            "NAME@VERSION, such as flights@3, as evenfold list shows them."
        ) from None
    digest, recipe = "", recipe_in(registered.tags, f"version {version} of {name}")
    with suppress(Exception):  # its files are gone
        # MLflow looks a models:/ URI up in the store of the process, which is the user's.
        where = str(tracker.client.get_model_version_download_uri(name, version))
        with fetched(where, tracker.client.tracking_uri) as files:
            digest = sha256(files[0]) if len(files) == 1 else ""
    evaluated = _evaluated(tracker, registered.tags.get(EVALUATION, ""))
    if evaluated is not None and not _alike(evaluated.get("model"), recipe):
        raise SplitError(f"the evaluation of version {version} of {name} names another recipe; retrain, or roll back.")
    return Untrusted(registered, digest, None if recipe is None else recipe.canonical(), evaluated)


def trust(tracker: Tracker, looked_at: Untrusted) -> None:
    """Sign a version, and the recipe and predictions of its evaluation, as they were when they were looked at."""
    version, digest = looked_at.version, {DIGEST: looked_at.sha256}
    if looked_at.evaluated is not None:
        tracker.keep_signed(version.tags[EVALUATION], RECIPE, looked_at.evaluated)
    tracker.client.set_model_version_tag(version.name, str(version.version), DIGEST, looked_at.sha256)
    sign_version(tracker.client, version, version.tags | digest)


def _evaluated(tracker: Tracker, run_id: str) -> Mapping[str, object] | None:
    """Return the recipe of an evaluation with the digest of its predictions; None where there is no such run."""
    try:
        recipe, signed = tracker.read_signed(run_id, RECIPE)
    except Exception:  # gone, or none of ours
        return None
    if not isinstance(recipe, dict):
        return None
    with suppress(Exception), tempfile.TemporaryDirectory() as folder:  # of draws, which keep no predictions
        name = "predictions.parquet"
        recipe |= {} if signed else {"sha256": {name: sha256(tracker.fetch(run_id, name, Path(folder)))}}
    return recipe


def _alike(evaluated: object, registered: ModelSpec | None) -> bool:
    if registered is None or not isinstance(evaluated, dict):
        return False
    a, b = (ModelSpec.of(each).model_copy(update={"metrics": ()}).canonical() for each in (evaluated, registered))
    return json.dumps(a) == json.dumps(b)
