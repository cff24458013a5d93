"""The record of what stands beside evaluations: looks at the locked part, tunings, comparisons, studies and audits.

Each is a run with its page. A look is never kept for later: where one cannot be recorded, nobody looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import Choice, Comparison, CorrectedT, Estimate, ModelSpec, corrected_resampled_t
from evenfold.estimates.folds import one_for_each
from evenfold.estimates.ledger import Ledger, LookLine, level_of_look
from evenfold.estimates.selection import NestedChoice, Tried
from evenfold.manifests import Audit, Manifest, SplitSpec, audit, digest_json
from evenfold.reports import Origin, Page, Verdict, audit_page, comparison_page, look_page, segments_page, tuning_page
from evenfold.reports.evaluations.studies import Segment
from evenfold.reports.figures import ends, estimate_metrics
from evenfold.reports.texts import page_note
from evenfold.splitters.errors import Displayed, SplitError
from evenfold.tasks.outcomes import FitResult, Look, RunRef, SplitRef
from evenfold.tasks.parameters import Intervals, Level
from evenfold.tasks.record.splits import links_of, log_inputs, origin_tags, run_page
from evenfold.tasks.runtime.home import Home, locked
from evenfold.tasks.steps import step
from evenfold.tasks.work import work_of

from .entries import MOST_FOLDS, PREDICTIONS, Entry, coded, run_key, short_tags, split_tags, unless_usual
from .models.versions import who_and_why
from .reading import Recorded, finished_record, read_recipe
from .tracker import NOTE, Tracker, tracker_of

_ON_HOLDOUT = "tags.`evenfold.holdout` = '{}'"  # runs of looks, in whatever experiment


@step(run_name=lambda split, **_: f"record a look at {split.name}")
def record_look(split: SplitRef, model: ModelSpec | Mapping[str, Any] | str, reason: str, level: Level = 0.95) -> Look:
    """Record that somebody is about to look at the locked part, and return the run and the number of the look.

    The look is in the ledger and in the tracker before the rows are touched: where either cannot be written, the ledger
    was tampered with or the holdout's budget is spent, nobody looks. Looks are counted by the rows that are locked, in
    whichever of the two knows more. Raises SplitError without a reason, and where MLflow is lost: the look is spent.
    """
    about = who_and_why("a look at the holdout", reason)
    tracker, manifest, recipe = tracker_of(split), split.manifest(), ModelSpec.of(model)
    holdout, part = manifest.locked_digest, manifest.spec.holdout
    ledger = Ledger(tracker.home.path / "looks", holdout)
    with locked(tracker.home.locks, f"look/{tracker.home.tracking_uri}/{holdout}"):
        opened = ledger.open_look(
            by=about["by"], when=about["at"], reason=about["reason"], model=recipe.canonical(),
            budget=part.budget if part else None, elsewhere=len(list(tracker.runs(_ON_HOLDOUT.format(holdout)))),
        )  # fmt: skip
        sharing = ledger.sharing(opened)
        entry = _look_entry(split, recipe, opened, level_of_look(opened["look"], level, sharing))
        try:
            with tracker.run(entry) as run_id:
                log_inputs(tracker, run_id, split, run_id, context="testing")
        except Exception as error:
            why = " ".join(str(error).split())[:300].rstrip(".")
            raise SplitError(
                f"look {opened['look']} is in the ledger and so it is spent, and MLflow could not record it ({why}); "
                "see to that before the next look."
            ) from error
    return Look(run_id=run_id, look=opened["look"], budget=opened["budget"], sharing=sharing)


def _look_entry(split: SplitRef, model: ModelSpec, line: LookLine, level: float) -> Entry:
    """Return what the run of a look holds, as its line of the ledger has it; ``level``: of its interval."""
    number = line["look"]
    tags = split_tags(
        split, record="look", look=str(number), look_reason=line["reason"], look_by=line["by"],
        look_digest=line["digest"], look_level=f"{level:.6g}", holdout=line["holdout"],
    )  # fmt: skip
    key, name = run_key(kind="look", split_id=split.split_id, number=number), f"{split.name} {split.version}"
    params = {f"model.{name}": value for name, value in model.canonical().items()} | {"split_id": split.split_id}
    return Entry(key, f"{model.title} @ {name} look {number}", tags | origin_tags(), params)


def damages_of_looks(home: Home, manifest: Manifest) -> tuple[int, list[str]]:
    """Return how many looks at a manifest's locked rows are in the ledger, and in sentences what is wrong with it.

    The chain of digests shows what was changed, removed or put in between; the tracker, what was cut off its end.
    """
    ledger = Ledger(home.path / "looks", manifest.locked_digest)
    try:
        looks = ledger.looks()
    except SplitError as error:
        return 0, [str(error)]
    names: dict[str, str] = {}
    for run in Tracker(home).runs(_ON_HOLDOUT.format(ledger.holdout)) if home.is_recorded else ():
        tags = run.data.tags
        names[tags.get("evenfold.look_digest", "")] = f"look {tags.get('evenfold.look')} (run {run.info.run_id[:8]})"
    lost = ", ".join(sorted(ledger.missing(names)))
    message = f"the ledger {ledger.path} lacks {lost}, which MLflow knows of; restore it from a copy."
    return len(looks), [message] if lost else []


@step(run_name=lambda split, **_: f"record what was seen of {split.name}")
def record_look_scores(split: SplitRef, look: Look, result: FitResult, estimates: Sequence[Estimate]) -> Look:
    """Record what a look at the locked part showed, in the run that announced it; return it with what was promised."""
    tracker = tracker_of(split)
    figures = {f"holdout/{metric}": value for metric, value in result.score.test.items()}
    for each in estimates:
        if each.interval is not None:
            figures |= {f"holdout/{each.metric}_ci_{end}": getattr(each.interval, end) for end in ("low", "high")}
    tracker.measured(look.run_id, figures)
    tags = tracker.client.get_run(look.run_id).data.tags
    reason, by = (tags.get(f"evenfold.look_{part}", "") for part in ("reason", "by"))
    # What the newest usual evaluation of the same recipe on the folds said.
    promised: list[Estimate] = []
    if evaluation := finished_record(tracker.home, work_of(split, result.model), "", "auto", 0.95):
        with suppress(SplitError):  # of a recipe that is damaged, or not ours
            promised = read_recipe(evaluation).estimates
    page = look_page(
        result.score, estimates, look=look.look, budget=look.budget, reason=reason, by=by, promised=promised,
        split=f"{split.name} {split.version}", model=str(result.model.estimator),
        origin=Origin(Path(split.data).name, look.run_id),
    )  # fmt: skip
    _keep(tracker, look.run_id, split, page, {PREDICTIONS: pd.read_parquet(result.predictions.path)})
    return look.model_copy(update={"promised": promised})


@step(run_name=lambda split, **_: f"record the tuning on {split.name}")
def record_tuning(
    split: SplitRef, split_run_id: str, model: ModelSpec, tried: Sequence[Tried], choice: Choice, metric: str,
    one_standard_error: bool, nested: NestedChoice | None = None, interval: Intervals = "auto", level: Level = 0.95,
) -> str:  # fmt: skip
    """Record what was tried and chosen as a run ``<model> @ <split> tuning``; return its id.

    Up to 100 configurations have a child run each; all are in tuning.json.
    """
    tracker, chosen, title = tracker_of(split), tried[choice.chosen], model.title
    of_metric = [next(each for each in trial.estimates if each.metric == metric) for trial in tried]
    anew = next(each for each in nested.estimates if each.metric == metric) if nested else None
    params = [trial.params for trial in tried]
    identity = {"model": model.canonical(), "tried": params, "metric": metric, "one_standard_error": one_standard_error}
    identity |= unless_usual(interval, level) | ({"nested": True} if nested else {})
    identity |= {"fingerprint": work_of(split, model).fingerprint, "seed": split.stored().spec.seed}
    key, code = coded(run_key(kind="tune", split_id=split.split_id, **identity), model.code)
    as_chosen = {f"chosen.{name}": str(value)[:5900] for name, value in chosen.params.items()}
    if (run := tracker.find(key)) and any(run.data.params.get(name, of) != of for name, of in as_chosen.items()):
        key = run_key(kind="chosen", of=key, chosen=chosen.params)  # by newer packages: that record stays as it is
    metrics = {f"choice/{name}": getattr(choice, name) for name in ("best", "chosen", "naive", "value", "low", "high")}
    metrics |= {f"nested/{name}": value for name, value in estimate_metrics([anew] if anew else []).items()}
    whole = Entry(
        key, f"{title} @ {split.name} {split.version} tuning",
        split_tags(split, record="tuning", split_run_id=split_run_id) | code | origin_tags(),
        as_chosen,
        metrics | {f"tried/{metric}": {i: score.value for i, score in enumerate(of_metric)}},
    )  # fmt: skip
    with tracker.run(whole) as run_id:
        log_inputs(tracker, run_id, split, split_run_id)
        for number, trial in enumerate(tried if len(tried) <= MOST_FOLDS else ()):
            name, of = f"{title} configuration {number}", run_key(kind="configuration", parent=key, number=number)
            figures = estimate_metrics(trial.estimates)
            with tracker.run(Entry(of, name, short_tags(split), trial.params, figures, judged=True), parent=run_id):
                pass
        fullest = model.model_copy(update={"params": {**model.params, **chosen.params}})
        tracker.keep_recipe(run_id, split, fullest, choice.promised(chosen.estimates, metric))
        means, spreads = [score.value for score in of_metric], [score.sd for score in of_metric]
        origin, what = Origin(Path(split.data).name, run_id), f"{title} on {split.name} {split.version}"
        page = tuning_page(metric, params, means, spreads, choice, origin, anew, what)
        tuning = {"tried": [asdict(trial) for trial in tried], "choice": asdict(choice)}
        tuning |= {} if nested is None else {"nested": asdict(nested)}
        _keep(tracker, run_id, split, page, {"tuning.json": tuning})
    return run_id


def _keep(tracker: Tracker, run_id: str, split: SplitRef, page: Page, files: dict[str, object]) -> None:
    """Keep the page of a run on a split, and what lies beside it."""
    tracker.keep(run_id, {"report.html": page.html()} | files)
    tracker.tell(run_id, {NOTE: page_note(page, links_of(tracker, run_id, "The page", split))})


def record_page(
    experiment: str, name: str, kind: str, about: dict[str, str], page: Page, tags: dict[str, str] | None = None,
    metrics: Mapping[str, float] | None = None, **tables: object,
) -> str:  # fmt: skip
    """Record a page and tables as a run of its own; return it. The same ``kind`` and ``about`` find the same run."""
    tracker, key = Tracker(Home.here(), experiment), run_key(kind=kind, name=name, **about)
    entry = Entry(key, name, (tags or {}) | origin_tags() | {"evenfold.record": kind}, about, metrics or {})
    with tracker.run(entry) as run_id:
        link = run_page(tracker.experiment_id, run_id, "artifacts/report.html")
        tracker.tell(run_id, {NOTE: page_note(page, {"The page": link})})
        tracker.keep(run_id, {"report.html": page.html()} | {f"{table}.json": rows for table, rows in tables.items()})
    return run_id


def record_comparison(
    a: Recorded, b: Recorded, comparisons: Sequence[Comparison], names: tuple[str, str], level: float
) -> str:
    """Record how two evaluations compare, beside them; return the run. Another level or margin makes another run."""
    page = comparison_page(comparisons, names)
    spec = a.tags.get("evenfold.spec", "").replace("@", " ")
    first, metrics = comparisons[0], ", ".join(comparison.metric for comparison in comparisons)
    another = {"repeats": (first.repeats, 1), "level": (level, 0.95), "margin": (first.margin, 0.0)}
    about = {"run_a": a.run_id, "run_b": b.run_id, "metrics": metrics}
    about |= {name: str(value) for name, (value, usual) in another.items() if value != usual}
    figures = {"repeats": float(first.repeats), "fits": float(first.n_fits)}
    for each in comparisons:
        figures |= {f"difference/{each.metric}": each.difference} | ends(each.metric, each.interval, "difference_")
    of_split = ("split", "spec", "strategy", "evenfold.split_id", "evenfold.spec")
    tags = {name: a.tags[name] for name in of_split if name in a.tags}
    title = f"{' and '.join(each.name.partition(' @ ')[0] for each in (a, b))} @ {spec}"
    return record_page(spec.partition(" ")[0] or "comparisons", title, "comparison", about, page, tags, figures)


@step(run_name=lambda spec, *_, **__: f"record the segments of {spec.name}")
def record_segments(spec: SplitSpec, model: ModelSpec, by: str, segments: Sequence[Segment], *, run_label: str) -> str:
    """Record what a recipe scores on each segment, in one run, and return it; the same splits and recipe are one."""
    name, metric = f"{model.title} @ {spec.name} by {by}", model.metrics[0]
    values = [each.estimate.value for each in segments if each.estimate]
    about = {
        "by": by, "model": digest_json(model.canonical() | model.code), "label": run_label,
        "splits": digest_json([[each.segment, each.split_id] for each in segments]),
    }  # fmt: skip
    figures = {"segments": float(len(segments)), "failed": float(len(segments) - len(values))}
    if values:
        figures |= {f"lowest/{metric}": min(values), f"mean/{metric}": fmean(values), f"highest/{metric}": max(values)}
    page, rows = segments_page(name, metric, segments), [asdict(each) for each in segments]
    return record_page(spec.name, name, "segments", about, page, metrics=figures, segments=rows)


def record_later(
    split: SplitRef, name: str, scored: Mapping[str, Any], estimates: Sequence[Estimate], page: Page
) -> str:
    """Record what a recorded model scores on later rows, with its page, beside the evaluation; return the run."""
    figures: dict[str, float] = {}
    for each in estimates:
        figures |= {f"later/{each.metric}": each.value} | ends(each.metric, each.interval, "later_")
    about, rows = {key: str(value) for key, value in scored.items()}, [asdict(estimate) for estimate in estimates]
    return record_page(split.name, name, "later rows", about, page, short_tags(split), figures, later=rows)


def record_audit(manifest: Manifest, audit: Audit) -> str:
    """Record an audit with its page, beside the split that it is of; return the run."""
    page, tags = audit_page(audit), short_tags(SplitRef.of(manifest))
    counts = audit.counts | {"passed": len(audit.passed), "failed_gates": len(audit.failed)}
    figures = {f"audit/{name}": float(n) for name, n in counts.items()}
    about = {"split_id": manifest.split_id, "features": ", ".join(audit.features)[:5000]}
    title, rows = f"{audit.name} {audit.version} audit", audit.model_dump(mode="json")
    return record_page(audit.name, title, "audit", about, page, tags, figures, audit=rows)


class OwnScores(Displayed, RunRef):
    """The scores of a user's own loop on a split: per metric the mean with its interval, and the run of MLflow."""

    name: str
    scores: dict[str, CorrectedT]
    audit: Audit | None = None

    @property
    def summary(self) -> str:
        """The model, the split and each mean with its interval, in one line."""
        intervals = (f"{metric} {test.mean:.4g} [{test.interval.low:.4g}, {test.interval.high:.4g}]"
                     for metric, test in self.scores.items())  # fmt: skip
        return f"{self.name}: {', '.join(intervals)}"


def log_scores(
    manifest: Manifest | SplitRef, scores: Mapping[str, Any] | pd.DataFrame | Sequence[float], *, model: object,
    data: Any = None, level: float = 0.95,
) -> OwnScores:  # fmt: skip
    """Record in MLflow what a loop of one's own scored on a split's folds, once; return each mean with its interval.

    ``scores``: per metric one number for each split, in the manifest's order, as a loop over ``as_cv`` makes them; what
    ``cross_validate`` answers, whose test scores are taken; or the numbers of one metric. ``model``: its name, or the
    estimator. With ``data`` the split is audited, and the audit's page lies beside the scores. The interval is that
    of the corrected resampled t test (Nadeau and Bengio 2003). The same split, model and scores are one run.
    Raises SplitError where the scores are not one finite number for each split, and there are at least two.
    """
    split = manifest if isinstance(manifest, Manifest) else manifest.manifest()
    table = one_for_each(scores, split.n_splits, f"{split.name} {split.version}")
    sizes = np.array([[side.size for side in split.in_use.pair(i)] for i in range(split.n_splits)]).T
    of_splits = partial(corrected_resampled_t, level=level, stratified=split.splitter.needs.y != "ignored")
    tests = {metric: of_splits(values, *sizes) for metric, values in table.items()}
    title = model if isinstance(model, str) else type(model).__name__
    checked = None if data is None else audit(split, data)
    name = f"{title} @ {split.name} {split.version}"
    own = OwnScores(run_id="", name=name, scores=tests, audit=checked)
    page = Page(name, Verdict.NONE, "") if checked is None else audit_page(checked)
    figures: dict[str, float] = {}  # named as those of evaluations
    for metric, test in tests.items():
        spread = float(np.std(table[metric], ddof=1))
        figures |= {f"value/{metric}": test.mean, f"sd/{metric}": spread} | ends(metric, test.interval)
    about = {"split_id": split.split_id, "model": title, "level": f"{level:g}", "scores": digest_json(table)}
    tables = {"scores": table} | ({} if checked is None else {"audit": checked.model_dump(mode="json")})
    page = replace(page, lead=f"{own.summary}. {page.lead}")
    run_id = record_page(split.name, name, "own scores", about, page, split_tags(SplitRef.of(split)), figures, **tables)
    return own.model_copy(update={"run_id": run_id})
