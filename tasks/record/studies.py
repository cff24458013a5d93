"""The record of what is found beside evaluations: comparisons, studies and audits, each a run with its page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import Comparison, CorrectedT, Estimate, ModelSpec, Problem, corrected_resampled_t
from evenfold.manifests import Audit, Manifest, SplitSpec, audit, digest_json
from evenfold.reports import Page, Verdict, audit_page, comparison_page, segments_page
from evenfold.reports.texts import page_note
from evenfold.splitters.errors import Displayed, SplitError
from evenfold.tasks.outcomes import RunRef, Segment, SplitRef
from evenfold.tasks.record.entries import Entry, ends, run_key, short_tags, split_tags
from evenfold.tasks.record.reading import Recorded
from evenfold.tasks.record.splits import origin_tags, run_page
from evenfold.tasks.record.tracker import NOTE, Tracker
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.steps import step

SPLIT_TAGS = ("split", "spec", "strategy", "evenfold.split_id", "evenfold.spec")


def _record(
    experiment: str, name: str, kind: str, about: dict[str, str], page: Page, tags: dict[str, str],
    metrics: dict[str, float], **tables: object,
) -> str:  # fmt: skip
    """Record a page as a run of its own and return its id; the same ``kind`` and ``about`` find the same run."""
    tracker, key = Tracker(Home.here(), experiment), run_key(kind=kind, name=name, **about)
    entry = Entry(key, name, tags | origin_tags() | {"evenfold.record": kind}, about, metrics)
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
    tags = {name: a.tags[name] for name in SPLIT_TAGS if name in a.tags}
    title = f"{' and '.join(each.name.partition(' @ ')[0] for each in (a, b))} @ {spec}"
    return _record(spec.partition(" ")[0] or "comparisons", title, "comparison", about, page, tags, figures)


def record_study(
    experiment: str, name: str, problem: Problem, about: dict[str, str], page: Page, table: pd.DataFrame
) -> str:
    """Record what a study of folds or strategies found: its page and its table; return the run.

    The same parameters, ``about``, of the same model and rows are one run. O(rows x columns).
    """
    beside = {"target": problem.y, "weight": problem.weights, "group": problem.groups}
    columns = pd.DataFrame({role: values for role, values in beside.items() if values is not None})
    rows = pd.util.hash_pandas_object(pd.concat([problem.X.reset_index(drop=True), columns], axis=1), index=False)
    read = [*problem.features, problem.target, hashlib.sha256(rows.to_numpy().tobytes()).hexdigest()]
    about = about | {"problem": digest_json([problem.model.canonical() | problem.model.code, read])}
    return _record(experiment, name, "study", about, page, {}, {}, study=table.to_dict("records"))


@step(run_name=lambda spec, *_, **__: f"record the segments of {spec.name}")
def record_segments(
    spec: SplitSpec, model: ModelSpec, by: str, segments: Sequence[Segment], *, run_label: str = ""
) -> RunRef:
    """Record what a recipe scores on each segment, in one run; the same splits and recipe are one run."""
    name = f"{model.title} @ {spec.name} by {by}"
    scored = {each.segment: each.estimate.value for each in segments if each.estimate}
    about = {
        "by": by, "model": digest_json(model.canonical() | model.code), "label": run_label,
        "splits": digest_json([[each.segment, each.split_id] for each in segments]),
    }  # fmt: skip
    figures = {"segments": float(len(segments)), "failed": float(len(segments) - len(scored))}
    if values := list(scored.values()):
        range_ = {"lowest": min(values), "mean": fmean(values), "highest": max(values)}
        figures |= {f"{name}/{model.metrics[0]}": value for name, value in range_.items()}
    cells = [each.cells for each in segments if each.estimate]
    page = segments_page(name, model.metrics[0], cells, [each.reason for each in segments if each.failed])
    rows = [each.model_dump(mode="json") for each in segments]
    return RunRef(run_id=_record(spec.name, name, "segments", about, page, {}, figures, segments=rows))


def record_later(
    split: SplitRef, name: str, scored: Mapping[str, Any], estimates: Sequence[Estimate], page: Page
) -> str:
    """Record what a recorded model scores on later rows, with its page, beside the evaluation; return the run."""
    figures: dict[str, float] = {}
    for each in estimates:
        figures |= {f"later/{each.metric}": each.value} | ends(each.metric, each.interval, "later_")
    about, rows = {key: str(value) for key, value in scored.items()}, [asdict(estimate) for estimate in estimates]
    return _record(split.name, name, "later rows", about, page, short_tags(split), figures, later=rows)


def record_audit(manifest: Manifest, audit: Audit) -> str:
    """Record an audit with its page, beside the split that it is of; return the run."""
    page, tags = audit_page(audit), short_tags(SplitRef.of(manifest, manifest.uri or "", ""))
    severities = [finding.severity for finding in audit.findings]
    counts = {f"audit/{severity}s": float(severities.count(severity)) for severity in ("error", "warning", "note")}
    counts |= {"audit/passed": float(len(audit.passed)), "audit/failed_gates": float(len(audit.failed))}
    about = {"split_id": manifest.split_id, "features": ", ".join(audit.features)[:5000]}
    title, rows = f"{audit.name} {audit.version} audit", audit.model_dump(mode="json")
    return _record(audit.name, title, "audit", about, page, tags, counts, audit=rows)


class OwnScores(Displayed, RunRef):
    """The scores of a user's own loop on a split: per metric the mean with its interval, and the run of MLflow."""

    name: str
    scores: dict[str, CorrectedT]
    audit: Audit | None = None

    @property
    def summary(self) -> str:
        """The model, the split and each mean with its interval, in one line."""
        intervals = (
            f"{metric} {test.mean:.4g} [{test.interval.low:.4g}, {test.interval.high:.4g}]"
            for metric, test in self.scores.items()
        )
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
    table = _one_for_each(scores, split)
    sizes = np.array([[side.size for side in split.in_use.pair(i)] for i in range(split.n_splits)])
    stratified = split.splitter.needs.y != "ignored"
    tests = {
        metric: corrected_resampled_t(values, sizes[:, 0], sizes[:, 1], level=level, stratified=stratified)
        for metric, values in table.items()
    }
    title = model if isinstance(model, str) else type(model).__name__
    checked = None if data is None else audit(split, data)
    name, tags = f"{title} @ {split.name} {split.version}", split_tags(SplitRef.of(split, split.uri or "", ""))
    own = OwnScores(run_id="", name=name, scores=tests, audit=checked)
    page = Page(name, Verdict.NONE, "") if checked is None else audit_page(checked)
    figures: dict[str, float] = {}  # named as those of evaluations
    for metric, test in tests.items():
        spread = float(np.std(table[metric], ddof=1))
        figures |= {f"value/{metric}": test.mean, f"sd/{metric}": spread} | ends(metric, test.interval)
    about = {"split_id": split.split_id, "model": title, "level": f"{level:g}", "scores": digest_json(table)}
    tables = {"scores": table} | ({} if checked is None else {"audit": checked.model_dump(mode="json")})
    page = replace(page, lead=f"{own.summary}. {page.lead}")
    run_id = _record(split.name, name, "own scores", about, page, tags, figures, **tables)
    return own.model_copy(update={"run_id": run_id})


def _one_for_each(
    scores: Mapping[str, Any] | pd.DataFrame | Sequence[float], split: Manifest
) -> dict[str, list[float]]:
    """Return a number per split of each metric; SplitError where there are others."""
    columns = dict(scores) if isinstance(scores, (Mapping, pd.DataFrame)) else {"score": scores}
    of_tests = {name.removeprefix("test_"): column for name, column in columns.items() if name.startswith("test_")}
    numbers = {name: np.asarray(column, dtype=np.float64) for name, column in (of_tests or columns).items()}
    wrong = [name for name, each in numbers.items() if each.shape != (split.n_splits,) or not np.isfinite(each).all()]
    if wrong or split.n_splits < 2 or not numbers:
        raise SplitError(
            f"{split.name} {split.version} has {split.n_splits:,} splits, and a score is one finite number for each, "
            f"of at least two; {', '.join(wrong) or 'what there is'} is not: give them in the order of as_cv."
        )
    return {name: each.tolist() for name, each in numbers.items()}
