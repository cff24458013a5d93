"""Retraining: grow the split, audit it, compare recipes on the same folds, refit the winner, register it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pandas as pd
from evenfold.estimates import Estimate, EvaluationError, ModelError, ModelSpec
from evenfold.estimates.promotion import (
    Decision,
    Difference,
    compare_draws,
    compare_predictions,
    decide,
    same_recipe,
    to_spend,
    without_champion,
)
from evenfold.manifests import audit, read_manifest
from evenfold.manifests.membership import Draws
from evenfold.reports.markdown import estimate_table
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks.fits import BLOCK, fit_final, kept
from evenfold.tasks.record.entries import run_key
from evenfold.tasks.record.reading import score_stored
from evenfold.tasks.splits import extend_split, newest, plan_of
from evenfold.tasks.work import Work, key_of_all, key_of_block, key_of_split, work_of

from .evaluation import evaluate_body
from .fits import in_blocks
from .requests import EvaluateRequest, Evaluation, GateError, Retraining, RetrainRequest, Say, silent
from .splitting import decided


def with_metric(recipe: ModelSpec, metric: str) -> ModelSpec:
    """Return the recipe, scored by ``metric`` as well."""
    return recipe if metric in recipe.metrics else recipe.model_copy(update={"metrics": (*recipe.metrics, metric)})


def compared(home: Home, work: Work, champion: Work, metric: str) -> Difference:
    """Return the scores of ``work`` minus the champion's, on the same folds or draws."""
    before, after = kept_scores(home, champion), kept_scores(home, work)
    if isinstance(work.manifest.membership, Draws):
        out_of_bag = "out_of_bag" in work.manifest.splitter.promises
        return compare_draws(before, after, metric, n_rows=work.problem.n if out_of_bag else None)
    stratified = work.manifest.splitter.needs.y != "ignored"
    on = list(work.keys.column_names) if work.keys is not None else ["row"]
    return compare_predictions(before, after, metric, on, stratified)


def kept_scores(home: Home, work: Work) -> pd.DataFrame:
    """Return the predictions of every fold, or the scores of every draw, that an evaluation has kept."""
    n, seed = work.manifest.n_splits, work.manifest.spec.seed
    if in_blocks(work):
        keys = [key_of_block(work, first, min(first + BLOCK, n), seed) for first in range(0, n, BLOCK)]
    else:
        keys = [key_of_split(work, i, seed) for i in range(n)]
    files = [home.scores / f"{key}.parquet" for key in keys]
    return pd.concat([pd.read_parquet(file) for file in files if file.exists()], ignore_index=True)


def retrain_report(outcome: Retraining, estimates: Sequence[Estimate]) -> str:
    """Return the report as Markdown."""
    decision, split = outcome.decision, outcome.split
    parts = [
        f"# Retraining on {split['name']} {split['version']}",
        f"**{_headline(outcome)}** {decision['why'].capitalize()}.",
        decision["words"],
        _difference(decision),
        f"## The split\n\n{_growth(outcome.growth)} `split_id {split['split_id']}`",
        f"## The audit\n\n{_audit(outcome.audit)}",
        f"## The candidate\n\n{estimate_table(estimates)}",
        f"## The stored champion\n\n{_stored_champion(outcome)}",
        f"## The rule\n\n{decision['rule']}",
    ]
    return "\n\n".join(part for part in parts if part)


def _headline(outcome: Retraining) -> str:
    if outcome.registered is None:
        return "Nothing was registered."
    name, version = outcome.registered["name"], outcome.registered["version"]
    return f"{name} version {version} is the new champion." if outcome.registered["champion"] else f"{name} {version}."


def _difference(decision: dict[str, Any]) -> str:
    if decision["difference"] is None:
        return ""
    told = f"Candidate minus champion, {decision['metric']}: {decision['difference']:.4g}"
    if decision["low"] is None:
        return f"{told}."
    level = f"{decision['level']:.1%}" if decision.get("level") else "95%"
    return f"{told}, {level} interval [{decision['low']:.4g}, {decision['high']:.4g}], p = {decision['p']:.3g}."


def _growth(growth: dict[str, Any]) -> str:
    numbers = ", ".join(f"{growth[name]:,} {name}" for name in ("added", "deleted", "quarantined") if name in growth)
    return " ".join([f"Rows: {numbers}.", *growth.get("notes", [])])


def _audit(audit: dict[str, Any]) -> str:
    lines = [f"- {_weight(each)}: {each['message']}" for each in audit["findings"]]
    return "\n".join(lines) or f"{len(audit['passed'])} checks passed, nothing was found."


def _weight(finding: dict[str, Any]) -> str:
    return "gate failed" if finding["gate"] == "failed" else str(finding["severity"])


def _stored_champion(outcome: Retraining) -> str:
    stored = outcome.stored_champion
    if "why" in stored:
        return f"Not scored: {stored['why']}."
    return (
        f"{outcome.decision['metric']} = {stored['score']:.4g} on the {stored['rows']:,} rows "
        "that are newer than its training rows; it decides nothing."
    )


@dataclass(frozen=True)
class Course:
    """What stays the same through one retraining."""

    engine: Engine
    home: Home
    request: RetrainRequest
    split: dict[str, Any]
    candidate: ModelSpec
    say: Say

    @property
    def name(self) -> str:
        """The model's name in the registry."""
        return self.request.registered_name or str(self.split["name"])

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return self.request.metric or self.candidate.metrics[0]

    def call(self, step: Any, title: str, /, **arguments: Any) -> Any:
        """Return what a step of the record or the registry returns."""
        given = {"split": self.split, **arguments, "home": str(self.home.path)}
        return self.engine.run(Call(step, given, title)).value


def retrain_body(engine: Engine, home: Home, request: RetrainRequest, say: Say = silent) -> Retraining:
    """Retrain as ``RetrainRequest`` asks; the same data, recipe and label are retrained once."""
    from evenfold.tasks.record.registry import fail_retraining, open_retraining

    ref, growth = _grown(engine, home, request, say)
    work = work_of(request.data, ref, request.model)
    course = Course(engine, home, request, ref, work.problem.model, say)
    asked: dict[str, Any] = {
        "model": course.candidate.canonical(),
        "seed": work.manifest.spec.seed,
        "label": request.run_label,
    }
    key = run_key(kind="retrain", name=course.name, split_id=ref["split_id"], fingerprint=work.fingerprint, **asked)
    params = {f"candidate.{name}": value for name, value in asked["model"].items()} | {"metric": course.metric}
    opened = course.call(
        open_retraining, f"open retrain {course.name}", key=key, name=course.name, tags=engine.tags(), params=params
    )
    if opened["outcome"] and not request.refresh:
        return Retraining(**opened["outcome"]).model_copy(update={"reused": True})
    try:
        return _retrained(course, work, key, opened, growth)
    except Exception as error:
        course.call(fail_retraining, "record the failure", run_id=opened["run_id"], reason=str(error))
        raise


def _retrained(course: Course, work: Work, key: str, opened: dict[str, Any], growth: dict[str, Any]) -> Retraining:
    from evenfold.tasks.record.registry import close_retraining, read_champion, record_decision

    audited = _audited(course, work)
    champion = course.call(read_champion, f"champion of {course.name}", name=course.name)
    if champion is not None and champion["model"] is not None:
        ModelSpec.of_others(champion["model"], course.candidate)  # refused here, before anything of it is imported
    candidate = _evaluated(course, course.candidate)
    decision = Decision(**opened["decision"]) if opened["decision"] else _decide(course, work, champion)
    course.call(record_decision, "record the decision", run_id=opened["run_id"], decision=decision.to_json())
    stored = _stored(course, champion)
    registered = _registered(course, decision, champion, key, opened["run_id"])
    outcome = Retraining(
        split=course.split,
        growth=growth,
        audit=audited,
        champion=None if champion is None else {name: champion[name] for name in ("version", "model")},
        evaluation_run_id=candidate.run_id,
        decision=decision.to_json(),
        stored_champion=stored,
        registered=registered,
        run_id=opened["run_id"],
        report="",
    )
    outcome = outcome.model_copy(update={"report": retrain_report(outcome, candidate.estimates)})
    metrics = {f"promotion/{name}": getattr(decision, name) for name in ("difference", "low", "high", "p")}
    metrics |= {"promotion/promoted": float(decision.promote), "stored_champion/score": stored.get("score")}
    course.call(
        close_retraining,
        f"record retrain {course.name}",
        run_id=opened["run_id"],
        outcome=outcome.model_dump(mode="json"),
        report=outcome.report,
        metrics={name: float(value) for name, value in metrics.items() if value is not None},
    )
    return outcome


def _grown(engine: Engine, home: Home, request: RetrainRequest, say: Say) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the newest manifest of the same rules, extended by the new rows, or a first one; and what happened."""
    say("splitting", 0, 1)
    plan = plan_of(request.spec, request.data)
    found = newest(home, plan.spec)
    notes = []
    if found is not None:
        asked = {"manifest": str(found), "data": request.data, "batch": False, "merged": request.merged}
        try:
            told = dict(engine.run(Call(extend_split, asked, f"extend {plan.spec.name}", retries=0)).value)
            say("splitting", 1, 1)
            return told.pop("split"), told
        except SplitError as error:
            notes.append(f"{plan.spec.name} {found.name} was not extended: {error} A new split was made.")
    made, _ = decided(engine, home, plan, request.data)
    say("splitting", 1, 1)
    return made, {"added": made["n_rows"], "notes": notes}


def _audited(course: Course, work: Work) -> dict[str, Any]:
    """Return the audit of the split with the columns that the candidate reads; raises GateError where one fails."""
    manifest = work.manifest
    course.say("auditing", 0, 1)
    found = audit(manifest, course.request.data, features=work.problem.features)
    course.say("auditing", 1, 1)
    if found.failed and course.request.gates:
        sentences = " ".join(each.message for each in found.findings if each.gate == "failed")
        raise GateError(f"the audit of {manifest.name} {manifest.version} failed: {sentences}")
    return found.model_dump(mode="json")


def _evaluated(course: Course, model: ModelSpec) -> Evaluation:
    """Return the evaluation of a recipe on the retraining's folds; what did not change comes from the cache."""
    request = course.request
    asked = EvaluateRequest(
        data=request.data,
        spec=read_manifest(course.split["uri"]).spec,
        manifest=course.split["uri"],
        model=model,
        run_label=request.run_label,
        refresh=request.refresh,
        allow_partial=request.allow_partial,
        time_limit=request.time_limit,
        log_models=request.log_models,
    )
    return evaluate_body(course.engine, course.home, asked, course.say)


def _decide(course: Course, work: Work, champion: dict[str, Any] | None) -> Decision:
    from evenfold.tasks.record.registry import read_spending

    if champion is None:
        return without_champion(course.metric, "there is no champion yet")
    if champion["model"] is None:
        return without_champion(course.metric, f"version {champion['version']}, the champion, names no recipe")
    newer = champion["tags"].get("evenfold.split_id") != course.split["split_id"]
    recipe = ModelSpec.of(champion["model"])
    if recipe.canonical() == course.candidate.canonical():
        return same_recipe(course.metric, newer or champion["tags"].get("evenfold.values") != work.fingerprint)
    measured = with_metric(recipe, course.metric)
    try:
        _evaluated(course, measured)
    except UntrustedNameError:
        raise
    except (EvaluationError, ModelError, SplitError) as error:
        return without_champion(course.metric, f"the champion's recipe can no longer be evaluated: {error}")
    difference = compared(course.home, work, work_of(course.request.data, course.split, measured), course.metric)
    earlier = course.call(read_spending, f"earlier comparisons of {course.name}", name=course.name)
    spent = [(date.fromisoformat(day), error) for day, error in earlier]
    return decide(course.metric, difference, newer, error=to_spend(spent, date.today()))


def _stored(course: Course, champion: dict[str, Any] | None) -> dict[str, Any]:
    if champion is None or champion["model"] is None:
        return {"why": "there is none"}
    given = {"data": course.request.data, "champion": champion, "name": course.name, "metric": course.metric}
    told: dict[str, Any] = course.call(score_stored, "score the stored champion", **given)
    return told


def _registered(
    course: Course, decision: Decision, champion: dict[str, Any] | None, key: str, run_id: str
) -> dict[str, Any] | None:
    from evenfold.tasks.record.registry import register

    if decision.winner == "champion" and not decision.promote:
        return None  # the same recipe on the same rows would be the same model
    recipe = course.candidate
    if decision.winner == "champion" and champion is not None and champion["model"] is not None:
        recipe = ModelSpec.of(champion["model"])
    work = work_of(course.request.data, course.split, recipe)
    seed = work.manifest.spec.seed
    final = key_of_all(work, seed)
    asked = {
        "data": course.request.data,
        "split": course.split,
        "model": recipe.model_dump(mode="json"),
        "seed": seed,
        "threads": course.engine.threads,
        "key": final,
        "home": str(course.home.path),
    }
    course.say("fitting the final model", 0, 1)
    fitted = course.engine.run(Call(fit_final, asked, "fit the final model", f"model/{final}", kept)).value
    course.say("fitting the final model", 1, 1)
    tags = course.engine.tags() | {"evenfold.values": work.fingerprint, "evenfold.n_train": str(fitted["n_train"])}
    model = work.problem.model.model_dump(mode="json", exclude_defaults=True)
    made: dict[str, Any] = course.call(
        register, f"register {course.name}", run_id=run_id, key=key, name=course.name, model=model,
        file=fitted["file"], promote=decision.promote, tags=tags,
    )  # fmt: skip
    return made
