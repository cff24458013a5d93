"""Versions of registered models: their tags, their signatures, which a person may add, and their models as files."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenfold.estimates import Decision, ModelSpec, Problem
from evenfold.estimates.comparison import RecordedScore
from evenfold.manifests.store.header import sha256
from evenfold.splitters.errors import SplitError, is_deployed
from evenfold.splitters.naming import changed, requirements_of
from evenfold.splitters.untrusted import ESTIMATOR, UntrustedNameError, resolve
from evenfold.tasks.outcomes import Champion, FinalModel, Outcome
from evenfold.tasks.record.entries import PREDICTIONS, RECIPE, code_in
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.runtime.home import Settings, in_silence
from evenfold.tasks.runtime.signing import is_signed, sign
from pydantic import Field, Json, ValidationError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run
    from mlflow.entities.model_registry import ModelVersion

DECISION = "evenfold.decision"
DIGEST = "evenfold.model_sha256"  # at a logged model, and at a version: the digest of its file
RECIPE_OF = "evenfold.model"  # at a version: the recipe of its model, as JSON
EVALUATION = "evenfold.evaluation_run_id"  # at a version of the registry: the evaluation of its recipe
ANSWERED = "evenfold.answer"  # at the run of a retraining, and at its version: who said yes or no, and why
# At a version: its signatures, each by a tag of its own, for several homes may sign; whose place it took as champion;
# who withdrew it, and why. These come later, and are not signed.
LATER = SIGNATURE, REPLACES, WITHDRAWN = "evenfold.signature", "evenfold.replaces", "evenfold.withdrawn"


class Tags(Outcome):
    """The tags that are read again: of a version its recipe and what that scored, of a retraining its decision."""

    model: Json[ModelSpec] | None = Field(None, alias="evenfold.model")
    scores: Json[list[RecordedScore]] = Field([], alias="evenfold.scores")
    decision: Json[Decision] | None = Field(None, alias="evenfold.decision")

    @classmethod
    def of(cls, tags: Mapping[str, str], where: str) -> Tags:
        """Read tags; nothing that they name is imported.

        Raises SplitError that names the tag and ``where`` it stands: a champion that cannot be compared would give way,
        and later decisions go by what earlier ones have spent.
        """
        try:
            return cls.model_validate(tags)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
        place, why = ".".join(map(str, first["loc"]))[:60], first["msg"].removeprefix("Value error, ")
        why = one_line(f"{place}: {why}", 200).rstrip(".;")
        remedy = "delete the tag, and with it what is known of this comparison"
        remedy = remedy if first["loc"][0] == DECISION else "put another version back (evenfold rollback)"
        raise SplitError(f"a tag of {where} in MLflow cannot be read ({why}); put back what was there, or {remedy}.")


def moved_code(champion: Champion) -> list[str]:
    """Return the modules of the user's own that have changed since a version was registered, as it says itself."""
    before, now = code_in(champion.tags), champion.model.code if champion.model else {}
    of_libraries = {name for code in (before, now) for name, value in code.items() if "==" in value}
    return [name for name in changed(before, now) if before and name not in of_libraries]


def one_line(text: str, most: int) -> str:
    """Return what somebody wrote as one line of at most so many characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:most]


def who_and_why(what: str, reason: str, by: str = "") -> dict[str, str]:
    """Return why somebody does ``what``, who that is and when, as it is kept; SplitError without a reason or name."""
    why, who = one_line(reason, 1_000), one_line(by or Settings.here().person, 100)
    if not (why and who):
        lacking = "reason" if not why else "name"
        raise SplitError(f"{what} needs a {lacking}, which is recorded with it; pass {lacking} (--{lacking}).")
    return {"reason": why, "by": who, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}


def version_named(tracker: Tracker, address: str) -> ModelVersion:
    """Return the version of ``models:/NAME@champion``, or ``models:/NAME/2``; SplitError where there is none."""
    name, _, number = address.removeprefix("models:/").rpartition("/")  # a name may hold @, and none holds /
    try:
        if number.isdecimal():
            return tracker.client.get_model_version(name, number)
        name, _, alias = number.rpartition("@")
        return tracker.client.get_model_version_by_alias(name, alias)
    except Exception:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no registered model {address!a} in {tracker.home.tracking_uri}; write models:/NAME@champion or "
            "models:/NAME/2 (evenfold trust NAME@2), as evenfold list shows them."
        ) from None


def _claim(version: ModelVersion, tags: Mapping[str, str]) -> dict[str, object]:
    """Return what the signature of a version covers: its name and number, where its files lie, every tag of ours."""
    ours = {tag: value for tag, value in tags.items() if tag.startswith("evenfold.") and not tag.startswith(LATER)}
    return {"name": version.name, "version": str(version.version), "source": version.source, "tags": ours}


def sign_version(client: MlflowClient, version: ModelVersion, tags: Mapping[str, str]) -> None:
    """Sign a version of the registry as one that has these ``tags``, whatever it says by itself."""
    signature = sign("version", _claim(version, tags))
    client.set_model_version_tag(version.name, str(version.version), f"{SIGNATURE}.{signature[:8]}", signature)


def require_signed_version(version: ModelVersion) -> None:
    """Raise UntrustedNameError unless this home or its team signed a version of the registry, as it is now."""
    signatures = [value for tag, value in version.tags.items() if tag.startswith(SIGNATURE)]
    if not is_signed("version", _claim(version, version.tags), signatures):
        raise UntrustedNameError(
            f"version {version.version} of {version.name} in MLflow was not signed by this home, or was changed since, "
            f"and is not used; look at it and say evenfold trust {version.name}@{version.version} at a terminal, put "
            "another version back (evenfold rollback), or set EVENFOLD_SIGNING_KEY to the key of whoever signed it."
        )


def signed_decision(run: Run) -> Decision | None:
    """Return the decision of a retraining, None where this home and its team made none for that run as it is now."""
    tags, run_id = run.data.tags, run.info.run_id
    ours = is_signed("decision", {"run": run_id, "decision": tags.get(DECISION)}, [tags.get(SIGNATURE)])
    return decision_in(run) if ours else None


def decision_in(run: Run) -> Decision | None:
    """Return the decision that a retraining's run names, whoever made it; its other tags are not read."""
    tags = {name: value for name, value in run.data.tags.items() if name == DECISION}
    return Tags.of(tags, f"run {run.info.run_id}").decision


def look_at(tracker: Tracker, name: str, version: str) -> tuple[str, dict[str, object] | None, Callable[[], None]]:
    """Return what would be trusted of a version, of which nothing is loaded or imported, and what signs it.

    That is the SHA-256 of its skops file ("" without one) and its recipe. Signed are the version, and the recipe and
    predictions of its evaluation, as they are looked at now. Raises SplitError in a deployed run, for no version, and
    for one that was evaluated with another recipe.
    """
    from mlflow.artifacts import download_artifacts

    if is_deployed():
        raise SplitError("evenfold trust is a person's word at a terminal, and a deployed run has none to give.")
    client, registered = tracker.client, version_named(tracker, f"models:/{name}/{version}")
    digest, recipe = "", Tags.of(registered.tags, f"version {version} of {name}").model
    # Its files may be gone, or be none that is ever loaded.
    with suppress(Exception), tempfile.TemporaryDirectory() as folder, in_silence():
        # MLflow looks a models:/ URI up in the store of the process, which is the user's.
        where = str(client.get_model_version_download_uri(name, version))
        (file,) = Path(download_artifacts(where, dst_path=folder, tracking_uri=client.tracking_uri)).rglob("*.skops")
        digest = sha256(file)
    evaluated: dict[str, object] | None = None
    with suppress(Exception), tempfile.TemporaryDirectory() as folder:  # of a run that is gone, or none of ours
        content, signed = tracker.read_signed(registered.tags[EVALUATION], RECIPE)
        evaluated = dict(content)
        if not signed:  # of draws, which keep no predictions, it is left as it is
            file = tracker.fetch(registered.tags[EVALUATION], PREDICTIONS, Path(folder))
            evaluated["sha256"] = {PREDICTIONS: sha256(file)}
    if evaluated is not None:
        theirs = None
        with suppress(ValidationError):
            theirs = ModelSpec.model_validate(evaluated.get("model"))
        if theirs is None or not theirs.trains_like(recipe):
            raise SplitError(f"version {version} of {name} was evaluated with another recipe; retrain, or roll back.")

    def trust() -> None:
        if evaluated is not None:
            tracker.keep_signed(registered.tags[EVALUATION], RECIPE, evaluated)
        client.set_model_version_tag(registered.name, str(registered.version), DIGEST, digest)
        sign_version(client, registered, registered.tags | {DIGEST: digest})

    return digest, None if recipe is None else recipe.canonical(), trust


def load_final(final: FinalModel) -> tuple[Any, list[str]]:
    """Return a model of ``fit_final``, and the types that its file names.

    Raises UntrustedNameError unless this home or its team fitted it, before anything of the file is looked at.
    """
    return _loaded(_trusted_bytes(final))


def _trusted_bytes(final: FinalModel) -> bytes:
    if (content := final.content) is None:
        raise UntrustedNameError(
            f"the model {final.key[:16]} among the results was not signed by this home, or was changed since, and is "
            "not loaded; set EVENFOLD_SIGNING_KEY to the key of whoever fitted it, or fit it again."
        )
    return content


def _loaded(content: bytes) -> tuple[Any, list[str]]:
    import skops.io  # half a second for whoever loads no model

    types = sorted({str(name) for name in skops.io.get_untrusted_types(data=content)})
    return skops.io.loads(content, trusted=types), types


def keep_model(
    tracker: Tracker, run_id: str, final: FinalModel, estimator: str, problem: Problem | None = None
) -> LoggedModel:
    """Log a model of ``fit_final`` to a run, once, and return it; one that a kill left half made is gone on with.

    Of a ``problem`` it has a signature and an example; the run's metrics are its too. The very file is kept, for
    its digest was signed. MLflow's ``log_model`` would log to the user's store. UntrustedNameError for one not ours.
    """
    import mlflow.sklearn
    from mlflow.entities import LoggedModelOutput, Metric
    from mlflow.models import Model, infer_signature

    content, client = _trusted_bytes(final), tracker.client
    model, types = _loaded(content)
    logged = tracker.logged_model(run_id, "model", {DIGEST: final.file.sha256})
    if logged.status == "READY":
        return logged
    run, own = client.get_run(run_id), {"model_id": logged.model_id, "run_id": run_id}
    if all(each.model_id != logged.model_id for each in run.outputs.model_outputs):
        client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    # What the run says of its model: its metrics without a step that are no other model's.
    points = [point for name in run.data.metrics for point in client.get_metric_history(run_id, name)]
    client.log_batch(run_id, [Metric(**dict(each) | own) for each in points if each.step == 0 and not each.model_id])
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "model")
        required = requirements_of(resolve(estimator, ESTIMATOR))  # naming these saves MLflow a subprocess
        how: dict[str, object] = {"pip_requirements": required, "skops_trusted_types": types}
        if problem is not None:  # what it reads and answers, as the registry shows and checks it
            how["input_example"] = example = problem.usual_row
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # whole numbers may be missing one day, which MLflow says at length
                how["signature"] = infer_signature(example, model.predict(example))
        header = Model(artifact_path=logged.artifact_location, model_uuid=logged.model_id, **own)
        mlflow.sklearn.save_model(model, place, mlflow_model=header, **how)
        Path(place, "model.skops").write_bytes(content)  # those that were checked: others may write to that file
        client.log_model_artifacts(logged.model_id, place)
    return client.finalize_logged_model(logged.model_id, "READY")
