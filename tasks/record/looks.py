"""The record of looks at the locked part, never kept for later: where one cannot be recorded, nobody looks. Tunings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import Choice, Estimate, ModelSpec
from evenfold.estimates.ledger import Ledger, LookLine, level_of_look
from evenfold.estimates.results import Interval
from evenfold.manifests import Manifest
from evenfold.reports import Origin, look_page, tuning_page
from evenfold.reports.texts import page_note
from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import FitResult, Look, NestedChoice, SplitRef, Tried
from evenfold.tasks.parameters import Intervals, Level
from evenfold.tasks.record.splits import data_input, links_of, origin_tags, split_input
from evenfold.tasks.runtime.home import Home, Settings, locked
from evenfold.tasks.steps import step
from evenfold.tasks.work import work_of

from . import entries
from .entries import MOST_FOLDS, Entry, code_tags, run_key, short_tags, split_tags, with_code
from .reading import finished_record, read_recipe
from .tracker import NOTE, Tracker, tracker_of

_ON_HOLDOUT = "tags.`evenfold.holdout` = '{}'"  # runs of looks, in whatever experiment


@step(run_name=lambda split, **_: f"record a look at {split.name}")
def record_look(split: SplitRef, model: ModelSpec | Mapping[str, Any] | str, reason: str) -> Look:
    """Record that somebody is about to look at the locked part, and return the run and the number of the look.

    The look is in the ledger and in the tracker before the rows are touched: where either cannot be written, the ledger
    was tampered with or the holdout's budget is spent, nobody looks. Looks are counted by the rows that are locked,
    whatever the split is called, in this home's ledger or in the tracker, whichever knows more. Intervals of all looks
    hold together at ``evenfold.look_level``. Raises SplitError without a reason, and where the tracker is lost once the
    look is in the ledger: it is spent, and not tried again, for each try would spend another.
    """
    if not reason.strip():
        raise SplitError("a look at the holdout needs a reason, which is recorded with it; pass reason.")
    tracker, manifest, recipe = tracker_of(split), split.manifest(), ModelSpec.of(model)
    holdout, part = manifest.locked_digest, manifest.spec.holdout
    ledger = Ledger(tracker.home.path / "looks", holdout)
    with locked(tracker.home.locks, f"look/{tracker.home.tracking_uri}/{holdout}"):
        opened = ledger.open_look(
            by=Settings.here().person,
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            reason=reason,
            model=recipe.canonical(),
            budget=part.budget if part else None,
            elsewhere=len(list(tracker.runs(_ON_HOLDOUT.format(holdout)))),
        )
        sharing = ledger.sharing(opened)
        entry = _look_entry(split, recipe, opened, sharing)
        try:
            with tracker.run(entry) as run_id:
                inputs = [data_input(split, manifest.fingerprint, "testing"), split_input(split, run_id)]
                tracker.client.log_inputs(run_id, datasets=inputs)
        except Exception as error:
            why = " ".join(str(error).split())[:300].rstrip(".")
            raise SplitError(
                f"look {opened['look']} is in the ledger and so it is spent, and MLflow could not record it ({why}); "
                "see to that before the next look."
            ) from error
    return Look(run_id=run_id, look=opened["look"], budget=opened["budget"], sharing=sharing)


def _look_entry(split: SplitRef, model: ModelSpec, line: LookLine, sharing: int | None) -> Entry:
    """Return what the run of a look holds, as its line of the ledger has it."""
    number = line["look"]
    look = {
        "evenfold.look": str(number),
        "evenfold.look_reason": line["reason"],
        "evenfold.look_by": line["by"],
        "evenfold.look_digest": line["digest"],
        "evenfold.look_level": f"{level_of_look(number, budget=sharing):.6g}",
        "evenfold.holdout": line["holdout"],
    }
    return Entry(
        key=run_key(kind="look", split_id=split.split_id, number=number),
        name=f"{model.title} @ {split.name} {split.version} look {number}",
        tags=split_tags(split) | {"evenfold.record": "look"} | look | origin_tags(),
        params={f"model.{name}": value for name, value in model.canonical().items()} | {"split_id": split.split_id},
    )


def damages_of_looks(home: Home, manifest: Manifest) -> tuple[int, list[str]]:
    """Return how many looks at a manifest's locked rows are in the ledger, and in sentences what is wrong with it.

    The chain of digests shows looks that were changed, removed or put in between; looks that the tracker knows of and
    the ledger lacks were cut off its end, or went with the file.
    """
    ledger = Ledger(home.path / "looks", manifest.locked_digest)
    try:
        looks = ledger.looks()
    except SplitError as error:
        return 0, [str(error)]
    if not home.is_recorded:
        return len(looks), []
    names: dict[str, str] = {}
    for run in Tracker(home).runs(_ON_HOLDOUT.format(ledger.holdout)):
        tags = run.data.tags
        names[tags.get("evenfold.look_digest", "")] = f"look {tags.get('evenfold.look')} (run {run.info.run_id[:8]})"
    lost = ledger.missing(names)
    message = (
        f"the ledger {ledger.path} lacks {', '.join(sorted(lost))}, which MLflow knows of; restore it from a copy."
    )
    return len(looks), [message] if lost else []


@step(run_name=lambda split, **_: f"record what was seen of {split.name}")
def record_look_scores(split: SplitRef, look: Look, result: FitResult, estimates: Sequence[Estimate]) -> Look:
    """Record what a look at the locked part showed, in the run that announced it; return it with what was promised."""
    tracker = tracker_of(split)
    figures = {f"holdout/{metric}": value for metric, value in result.score.test.items()}
    for each in estimates:
        if each.interval is not None:
            low, high = f"holdout/{each.metric}_ci_low", f"holdout/{each.metric}_ci_high"
            figures |= {low: each.interval.low, high: each.interval.high}
    tracker.measured(look.run_id, figures)
    recorded = tracker.client.get_run(look.run_id).data
    # What the newest usual evaluation of the same recipe on the folds said.
    promised: list[Estimate] = []
    if evaluation := finished_record(tracker.home, work_of(split, result.model), "", "auto", 0.95):
        with suppress(SplitError):  # of a recipe that is damaged, or not ours
            promised = read_recipe(evaluation).estimates
    page = look_page(
        result.score,
        estimates,
        look=look.look,
        budget=look.budget,
        reason=recorded.tags.get("evenfold.look_reason", ""),
        by=recorded.tags.get("evenfold.look_by", ""),
        split=f"{split.name} {split.version}",
        model=recorded.params.get("model.estimator", ""),
        origin=Origin(Path(split.data).name, look.run_id),
        promised=promised,
    )
    predictions = pd.read_parquet(result.predictions.path)
    tracker.keep(look.run_id, {"predictions.parquet": predictions, "report.html": page.html()})
    tracker.tell(look.run_id, {NOTE: page_note(page, links_of(tracker, look.run_id, "The page", split))})
    return look.model_copy(update={"promised": promised})


@step(run_name=lambda split, **_: f"record the tuning on {split.name}")
def record_tuning(
    split: SplitRef, split_run_id: str, model: ModelSpec, tried: Sequence[Tried], choice: Choice, metric: str,
    one_standard_error: bool, nested: NestedChoice | None = None, interval: Intervals = "auto", level: Level = 0.95,
) -> str:  # fmt: skip
    """Record what was tried and chosen as a run ``<model> @ <split> tuning``; return its id.

    Up to 100 configurations have a child run each; all are in tuning.json. Other values of a column that the model
    reads, or another seed, make another run.
    """
    tracker, chosen, title = tracker_of(split), tried[choice.chosen], model.title
    anew = _of(metric, nested.estimates) if nested else None
    how = entries.unless_usual(interval, level) | ({"nested": True} if nested else {})
    how |= {"one_standard_error": one_standard_error}
    whole = _tuning_entry(split, split_run_id, model, tried, choice, metric, anew, how)
    with tracker.run(whole) as run_id:
        inputs = [data_input(split, split.stored().fingerprint, "training"), split_input(split, split_run_id)]
        tracker.client.log_inputs(run_id, datasets=inputs)
        for number, trial in enumerate(tried if len(tried) <= MOST_FOLDS else ()):
            own = run_key(kind="configuration", parent=whole.key, number=number)
            name, metrics = f"{title} configuration {number}", entries.estimate_metrics(trial.estimates)
            with tracker.run(Entry(own, name, short_tags(split), trial.params, metrics, trial.params), parent=run_id):
                pass
        fullest = model.model_copy(update={"params": {**model.params, **chosen.params}})
        tracker.keep_recipe(run_id, split, fullest, _promised(chosen.estimates, choice, metric))
        params, scores = [trial.params for trial in tried], [_of(metric, trial.estimates) for trial in tried]
        means, spreads = [score.value for score in scores], [score.sd for score in scores]
        origin, what = Origin(Path(split.data).name, run_id), f"{title} on {split.name} {split.version}"
        page = tuning_page(metric, params, means, spreads, choice, origin, anew, what)
        tuning = {"tried": [trial.model_dump() for trial in tried], "choice": asdict(choice)}
        tuning |= {} if nested is None else {"nested": nested.model_dump(mode="json")}
        tracker.keep(run_id, {"tuning.json": tuning, "report.html": page.html()})
        tracker.tell(run_id, {NOTE: page_note(page, links_of(tracker, run_id, "The page", split))})
    return run_id


def _tuning_entry(
    split: SplitRef, split_run_id: str, model: ModelSpec, tried: Sequence[Tried], choice: Choice, metric: str,
    anew: Estimate | None, how: Mapping[str, object],
) -> Entry:  # fmt: skip
    """Return what the run of a tuning holds; ``anew``: the score of choosing in every fold, ``how`` it was chosen."""
    identity = {"model": model.canonical(), "tried": [trial.params for trial in tried], "metric": metric, **how}
    identity |= {"fingerprint": work_of(split, model).fingerprint, "seed": split.stored().spec.seed}
    key = run_key(kind="tune", split_id=split.split_id, **identity)
    metrics = {f"choice/{name}": getattr(choice, name) for name in ("best", "chosen", "naive", "value", "low", "high")}
    metrics |= {f"nested/{name}": value for name, value in entries.estimate_metrics([anew] if anew else []).items()}
    scores = {f"tried/{metric}": {i: _of(metric, trial.estimates).value for i, trial in enumerate(tried)}}
    return Entry(
        key=with_code(key, model.code),
        name=f"{model.title} @ {split.name} {split.version} tuning",
        tags=split_tags(split) | {"evenfold.record": "tuning", "evenfold.split_run_id": split_run_id}
        | origin_tags() | code_tags(key, model.code),
        params={f"chosen.{name}": value for name, value in tried[choice.chosen].params.items()},
        metrics=metrics | scores,
    )  # fmt: skip


def _of(metric: str, estimates: Sequence[Estimate]) -> Estimate:
    return next(estimate for estimate in estimates if estimate.metric == metric)


def _promised(estimates: Sequence[Estimate], choice: Choice, metric: str) -> list[Estimate]:
    """Return what later rows are held against: by the metric that chose, what is expected without its luck."""
    whole = np.isfinite([choice.low, choice.high]).all()
    interval = Interval(choice.low, choice.high, choice.level, "corrected for the choice") if whole else None
    return [
        replace(each, value=choice.value, interval=interval) if each.metric == metric else each for each in estimates
    ]
