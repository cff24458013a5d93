"""Records, read back from MLflow: runs and their recipes, lists of them, and what was judged on a split."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from evenfold.estimates import Estimate, ModelSpec
from evenfold.manifests.store.header import sha256
from evenfold.manifests.store.versions import SHORT_ID, Listed, in_local_time
from evenfold.reports.figures import read_param, score_in
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.splitters.errors import is_deployed, reason_of, redacted
from evenfold.tasks.outcomes import Outcome, SplitRef
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.store import Preimage
from pydantic import TypeAdapter, ValidationError

from .entries import PREDICTIONS, RECIPE, allowed, code_in, coded, run_key, unless_usual
from .models.versions import EVALUATION, require_signed_version, version_named
from .tracker import JUDGED, RUN_KEY, Tracker, complete_records

if TYPE_CHECKING:
    from evenfold.tasks.record.models.retraining import Retraining
    from evenfold.tasks.work import Work
    from mlflow.entities import Run


def _address_of(reference: Any) -> str:
    """Return the id of a run, or of a model that serves its address, as a person wrote it or a flow returned it."""
    return str(getattr(reference, "address", None) or getattr(reference, "run_id", reference))


def run_named(tracker: Tracker, reference: Any) -> Run:
    """Return the MLflow run of an id, of its first four digits or more, or of what a flow returned.

    ``models:/NAME@champion`` and ``models:/NAME/2`` stand for the run that evaluated the recipe, a retraining for the
    version that serves. SplitError: none, several, no store; UntrustedNameError: a version that is not signed.
    """
    run_id = _address_of(reference)
    if run_id.startswith("models:/"):
        version = version_named(tracker, run_id)
        require_signed_version(version)
        if EVALUATION not in version.tags:
            about = f"version {version.version} of {version.name} names no evaluation"
            raise SplitError(f"{about}, whose recipe stands for its model; retrain, and take the new version.")
        run_id = str(version.tags[EVALUATION])
    try:
        if len(run_id) == 32:
            return tracker.client.get_run(run_id)
        runs = list(tracker.runs(f"attributes.run_id LIKE '{run_id}%'")) if SHORT_ID.fullmatch(run_id) else []
        why = ""
    except Exception as error:  # MLflow has a kind of error of its own per store
        runs, why = [], f" ({redacted(str(error))})"
    if not runs:
        raise SplitError(
            f"there is no run {run_id!r} in {tracker.home.tracking_uri}{why}; evenfold list shows those that are, and "
            "a registered model is models:/NAME@champion."
        ) from None
    if len(runs) > 1:
        names = ", ".join(f"{run.info.run_id[: len(run_id) + 4]} ({run.info.run_name})" for run in runs[:3])
        raise SplitError(f"{len(runs)} runs begin with {run_id!r}: {names}; write more digits.")
    return runs[0]


@dataclass(frozen=True)
class Recorded:
    """A recorded evaluation: what names its split, model and metrics, and its predictions."""

    run_id: str
    name: str
    tags: dict[str, str]
    params: dict[str, str]
    predictions: pd.DataFrame

    @property
    def key(self) -> list[str]:
        """The columns that name a row: those before the row's number, or that number where there is no key."""
        names = list(self.predictions.columns)
        return names[: names.index("row")] or ["row"]

    @property
    def traits(self) -> dict[str, Any]:
        """The parameters of ``compare`` that say how it was made."""
        traits = {trait: self.tags.get(f"evenfold.{trait}") == "true" for trait in ("stratified", "ordered")}
        return {"on": self.key, "n_train": self.mean_of_folds("n_train"), **traits}

    @cached_property
    def folds(self) -> list[dict[str, float]]:
        """The figures of each fold, as its run has them; none where folds have no runs. Asked of MLflow once."""
        folds = Tracker(Home.here()).runs(f"tags.`mlflow.parentRunId` = '{self.run_id}'")
        return [run.data.metrics for run in folds]

    @property
    def fit_seconds(self) -> float | None:
        """Seconds that all fits took, as the folds' runs say; None where the folds have none."""
        seconds = [each["seconds_fit"] + each.get("seconds_score", 0.0) for each in self.folds if "seconds_fit" in each]
        return sum(seconds) if seconds else None

    def mean_of_folds(self, figure: str) -> float | None:
        """Return a figure of the folds, on average; None where they have no runs, or not that figure."""
        values = [figures[figure] for figures in self.folds if figure in figures]
        return sum(values) / len(values) if values else None


def read_evaluation(run_id: str, *, ours: bool = False) -> Recorded:
    """Return an evaluation by its id or its first digits; SplitError where there is none, or it kept no predictions.

    ``ours``: and where this home and its team did not sign them: anybody else's decide nothing.
    """
    tracker = Tracker(Home.here())
    run = run_named(tracker, run_id)
    run_id = str(run.info.run_id)
    tracker.places[run_id] = str(run.info.artifact_uri)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = tracker.fetch(run_id, PREDICTIONS, Path(folder))
            predictions = pd.read_parquet(path)
            predictions[["row", "repeat", "fold", "y"]]
        except Exception as error:  # MLflow's differ by store
            raise SplitError(
                f"run {run_id} ({run.info.run_name}) kept no predictions.parquet that can be read "
                f"({redacted(reason_of(error))[:200]}); compare evaluations of folds, or evaluate it again."
            ) from None
        recipe, signed = dict[str, Any](), False
        with suppress(Exception):  # of a recipe that is gone, or none of ours
            recipe, signed = tracker.read_signed(run_id, RECIPE) if ours else (recipe, signed)
        if ours and not (signed and recipe.get("sha256") == {PREDICTIONS: sha256(path)}):
            raise SplitError(f"the predictions of run {run_id[:8]} were not signed by this home, or changed since.")
        return Recorded(run_id, str(run.info.run_name), run.data.tags, run.data.params, predictions)


@dataclass(frozen=True)
class Recipe:
    """The recipe of a recorded evaluation or tuning: its model and code, its split and table, and its promise."""

    run_id: str
    name: str
    model: ModelSpec
    split: SplitRef
    estimates: list[Estimate]
    code: dict[str, str] = field(default_factory=dict)


def read_recipe(run_id: str | Retraining, data: str | None = None) -> Recipe:
    """Return what the run of an evaluation, or of a tuning, trained; ``data``: where its table lies now.

    One that this home or its team signed names what it likes at a terminal, any other what ``EVENFOLD_ALLOWED_MODULES``
    lists, and stands for no registered model (UntrustedNameError). Raises SplitError for none, or a damaged one.
    """
    tracker = Tracker(Home.here())
    run = run_named(tracker, run_id)
    try:
        recipe, signed = tracker.read_signed(str(run.info.run_id), RECIPE)
    except Exception:
        raise SplitError(
            f"run {run.info.run_id[:8]} ({run.info.run_name}) names no recipe; give the run of an evaluation or a "
            "tuning (evenfold list), made by this version."
        ) from None
    if not signed and _address_of(run_id).startswith("models:/"):
        raise UntrustedNameError(
            f"{RECIPE} of run {run.info.run_id[:8]}, which evaluated that version, was not signed by this home, or was "
            "changed since, and is not used; look at it and say evenfold trust NAME@VERSION at a terminal."
        )
    own = signed and not is_deployed()
    try:
        split = SplitRef(**recipe["split"] | ({"data": data} if data else {}))
        model = ModelSpec.of(recipe["model"]) if own else ModelSpec.of_others(recipe["model"], ModelSpec())
        estimates = TypeAdapter(list[Estimate]).validate_python(recipe["estimates"])
        return Recipe(str(run.info.run_id), str(run.info.run_name), model, split, estimates, code_in(run.data.tags))
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise SplitError(
            f"{RECIPE} of run {run.info.run_id[:8]} ({run.info.run_name}) is damaged ({reason_of(error)[:200]}); "
            "evaluate or tune it again."
        ) from None


def preimage_of_record(work: Work, label: str, interval: str, level: float) -> Preimage:
    """Return what the record of an evaluation depends on."""
    parts = parts_of_record(work, label, interval, level) | {"interval": interval, "level": level}
    return Preimage(kind="record", name=work.manifest.name, parts=parts)


def parts_of_record(work: Work, label: str, interval: str, level: float) -> dict[str, object]:
    """Return what the key of an evaluation's run is made of, whatever the user's code."""
    return {
        "kind": "evaluate", "model": work.problem.model.canonical(), "seed": work.manifest.spec.seed,
        "split_id": work.manifest.split_id, "fingerprint": work.fingerprint, "label": label,
        **unless_usual(interval, level),
    }  # fmt: skip


def finished_record(home: Home, work: Work, label: str, interval: str, level: float) -> str | None:
    """Return the finished run of an evaluation, None where there is none; looking makes no store."""
    if not home.is_recorded:
        return None
    key, _ = coded(run_key(**parts_of_record(work, label, interval, level)), work.problem.model.code)
    if held := complete_records(home).get(key):
        return held[0]
    runs = Tracker(home, work.manifest.name).runs(f"tags.`{RUN_KEY}` = '{key}'")
    return next((str(run.info.run_id) for run in runs if run.info.status == "FINISHED"), None)


def recorded_runs(home: Home, kind: str) -> list[Listed]:
    """Return run, model, split, score and time of every finished record of a kind in the store, the newest first.

    Of a tuning also the parameters chosen; of an evaluation those in which it differs from another of the same model
    on the same split; of later rows the strategy of the split, and the score that was promised.
    """
    from evenfold.reports.evaluations.words import recorded_score as told  # who reads a recipe waits for no page

    tracker, rows = Tracker(home), []
    runs = list(tracker.runs(f"tags.`evenfold.record` = '{kind}' AND attributes.status = 'FINISHED'"))
    alike = defaultdict[str, list[dict[str, object]]](list)
    for run in runs:
        alike[run.info.run_name].append(read_param(run.data.params, "model.params", dict))
    for run in runs:
        params, tags = run.data.params, run.data.tags
        model, on = run.info.run_name.partition(" @ ")[0], tags.get("evenfold.spec") or tags.get("spec", "")
        row: Listed = {"run": run.info.run_id, "model": model, "on": on}
        metric, value, half = score_in(params, run.data.metrics)
        if kind == "later rows":
            row |= {"strategy": tags.get("strategy", ""), "data": run.info.run_name.rpartition(" on ")[2]}
            with suppress(Exception):  # it may be gone; MLflow has a kind of error of its own per store
                judged = tracker.client.get_run(params.get("run", "")).data
                metric, value, half = score_in(judged.params, judged.metrics)
            row["promised"], value = told(metric, value, half), run.data.metrics.get(f"later/{metric}")
        elif kind == "tuning":
            row["chosen"] = ", ".join(f"{each[7:]}={params[each]}" for each in sorted(params) if each[:7] == "chosen.")
        else:
            own = read_param(params, "model.params", dict)
            differs = (n for n, v in own.items() if any(each.get(n, ...) != v for each in alike[run.info.run_name]))
            row["params"] = ", ".join(f"{n}={own[n]}" for n in differs)
        rows.append(row | {"score": told(metric, value, half), "when": in_local_time(run.info.start_time / 1000)})
    return rows


def recorded_models(home: Home) -> list[Listed]:
    """Return name, versions, champion and time of every registered model."""
    tracker = Tracker(home)
    return [
        {"model": model.name, "newest": max((int(each.version) for each in model.latest_versions), default=0),
         "champion": dict(model.aliases).get("champion", "none"), "uri": f"models:/{model.name}@champion",
         "when": in_local_time(model.last_updated_timestamp / 1000)}
        for model in tracker.every(tracker.client.search_registered_models)
    ]  # fmt: skip


class LeaderboardRow(Outcome):
    """A recipe that was judged on a split: its score as scorers give it (higher is better), interval, and its run."""

    model: str
    params: dict[str, str]
    value: float
    low: float | None
    high: float | None
    run_id: str
    url: str


class Leaderboard(Outcome):
    """Recipes by the value of a metric on one split, the best first; ``metrics``: what else they were scored by."""

    split: str
    split_id: str
    metric: str
    metrics: list[str]
    judgements: list[LeaderboardRow]


def leaderboard(reference: str, metric: str | None = None, most: int = 20) -> Leaderboard:
    """Return the ``most`` best recipes judged on a split (``name@1.0``, a name for its newest, a split_id, a plan_id).

    ``metric``: a scorer's name, else the first of the newest evaluation. In every experiment. Raises SplitError without
    such a split, or where nothing was judged on it so.
    """
    # Whoever lists runs waits for no Prefect, which these know.
    from .splits import page_on_server, read_split

    home = Home.here()
    manifest = read_split(reference, home)
    tracker, on = Tracker(home, manifest.name), f"{manifest.name} {manifest.version}"
    # Splits of several targets may have the same folds, and then one id.
    of = f"tags.spec = '{manifest.name}@{manifest.version}' AND tags.`evenfold.split_id` = '{manifest.split_id}'"
    judged = list(tracker.runs(f"{of} AND tags.`{JUDGED}` != ''"))
    if not judged:
        raise SplitError(f"no model was judged on {on} in {home.tracking_uri}; evaluate one on it.")
    metrics = [name.removeprefix("value/") for name in judged[0].data.metrics if name.startswith("value/")]
    metric, ranked = allowed(metric or metrics[0]), []
    for run in judged:
        value, low, high = (run.data.metrics.get(f"{figure}/{metric}") for figure in ("value", "low", "high"))
        if value is not None and not math.isnan(value):
            params = {name.removeprefix("model."): text for name, text in run.data.params.items()}
            url = page_on_server(run.info.experiment_id, run.info.run_id)
            about = {"model": run.info.run_name.partition(" @ ")[0], "run_id": run.info.run_id, "url": url}
            ranked.append(LeaderboardRow(params=params, value=value, low=low, high=high, **about))
    if not ranked:
        raise SplitError(f"no model on {on} was scored by {metric!r}; say {' or '.join(metrics)}.")
    best = sorted(ranked, key=lambda each: each.value, reverse=True)[:most]
    return Leaderboard(split=on, split_id=manifest.split_id, metric=metric, metrics=metrics, judgements=best)
