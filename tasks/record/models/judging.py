"""What the champion says of rows that joined a split, which it never saw: whether they may be learnt from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.months import Judgement, Month, Reading, blocks, judge, month_of
from evenfold.estimates.metrics.responses import Responses, all_classes, replay
from evenfold.estimates.metrics.scoring import score
from evenfold.estimates.models.fit import fitted
from evenfold.manifests import Audit
from evenfold.manifests.growth.newcomers import TELLING
from evenfold.manifests.tables.canonical import listed
from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import Champion, Judged, SplitRef
from evenfold.tasks.record.reading import read_evaluation
from evenfold.tasks.record.tracker import Tracker, tracker_of
from evenfold.tasks.runtime.limits import limited
from evenfold.tasks.steps.step import step
from evenfold.tasks.work import Work, training_rows, work_of
from numpy.typing import NDArray

from .tags import EVALUATION, moved_code

Rows = NDArray[np.int64]


@step(run_name=lambda split, **_: f"judge what joined {split.name}")
def judge_month(
    split: SplitRef,
    champion: Champion | None,
    *,
    metric: str | None = None,
    arrival: Audit | None = None,
    run_id: str | None = None,
) -> Judged:
    """Say whether the rows that joined ``split`` since the champion, which never saw them, may be learnt from.

    ``champion``: the one that serves; its recipe is fitted again on what it learnt from, so that nothing stored is
    loaded, and its out-of-fold predictions say what earlier rows were like. None where there is none. ``metric``: by
    which it is scored on the new rows, beside. ``arrival``: what ``check_table`` found in the table, within its limits
    or with the gates off; None of a first one. ``run_id``: the run that keeps the figures, a step for each generation,
    after those that led to the champion.
    """
    odd = [text for name, text in (arrival.passed if arrival else {}).items() if name in TELLING and text]
    judgement, scored = (Judgement(), {}) if champion is None else _by_champion(split, champion, metric)
    verdict = "unclear" if odd and judgement.verdict == "sound" else judgement.verdict
    series: dict[str, dict[int, float]] = {}
    if champion is not None and judgement.figures and run_id:
        tracker, generation = tracker_of(split), int(split.version.partition(".")[2])
        series = _series(tracker, champion, judgement.figures, generation)
        tracker.measured(run_id, {}, series)
    return Judged(verdict=verdict, sentences=[*judgement.sentences, *odd], series=series, **scored)


def _series(
    tracker: Tracker, champion: Champion, figures: Mapping[str, Reading], step: int
) -> dict[str, dict[int, float]]:
    """Return each figure and its ends by generation: those that led to the champion, and this one."""
    now = {f"month/{name}_{end}": value for name, of in figures.items() for end, value in asdict(of).items()}
    now = {name.removesuffix("_value"): value for name, value in now.items() if np.isfinite(value)}
    series = {}
    for name, value in now.items():
        history = tracker.client.get_metric_history(champion.run_id, name) if champion.run_id else []
        series[name] = {int(point.step): float(point.value) for point in history} | {step: value}
    return series


def _by_champion(split: SplitRef, champion: Champion, metric: str | None) -> tuple[Judgement, dict[str, Any]]:
    """Return the judgement, and the score on the new rows with their number where they can be scored."""
    trained_on = champion.tags.get("evenfold.spec", "unknown")
    if trained_on == f"{split.name}@{split.version}":  # nothing joined since
        return Judgement(), {}
    line, _, generation = trained_on.rpartition(".")
    why = "it names no recipe" if champion.model is None else ""
    if line != f"{split.name}@{split.version.partition('.')[0]}":
        why = why or f"it was trained on another split ({trained_on})"
    elif moved := moved_code(champion):
        why = why or f"{listed(moved)} changed since it was fitted"
    if not why:
        try:
            work = work_of(split, champion.model)
            new, answers = _predicted(work, int(generation))
            if not new.size:
                return Judgement(), {}
            now, problem = _month(work, work.problem.y[new], answers, _units(work, new)), work.problem
        except Exception as error:  # whatever keeps it from being fitted or from predicting these rows is told
            why = f"it cannot predict them ({type(error).__name__}: {str(error).partition(chr(10))[0][:300]})"
        else:
            scored: dict[str, Any] = {}
            with suppress(Exception):  # of a metric that is not defined on these rows
                weights = None if problem.weights is None else problem.weights[new]
                scored = {"score": score(str(metric), answers, problem.y[new], weights, problem.classes)}
            return judge(now, _earlier(work, champion, now.rows), problem.target), scored | {"rows": new.size}
    return Judgement("unclear", (f"The champion cannot judge the new rows: {why}.",)), {}


def _predicted(work: Work, generation: int) -> tuple[Rows, Any]:
    """Return the rows that joined after a generation, and what a model says of them that learnt from those before."""
    rows, born = training_rows(work), work.manifest.born
    newer = np.zeros(rows.size, dtype=np.bool_) if born is None else born[rows] > generation
    old, new = work.place[rows[~newer]], work.place[rows[newer]]
    seed, name = work.manifest.spec.seed, "the champion's recipe"
    if not new.size:
        return new, None
    with limited(work.problem.X.size):
        model = fitted(work.problem.model, work.problem, old, seed=seed, name=name, inner=work.inner)
        return new, Responses(model, work.problem.X.iloc[new])


def _units(work: Work, rows: Rows) -> Rows:
    return rows if work.problem.groups is None else work.problem.groups[rows]


def _month(work: Work, y: Any, answers: Any, units: Rows) -> Month:
    classes = work.problem.classes
    if not classes:
        return month_of(y, answers.say("predict"), units)
    probabilities = answers.say("predict_proba")
    if probabilities is None:
        probabilities = np.eye(len(classes) + 1)[pd.Index(classes).get_indexer(answers.say("predict"))][:, :-1]
    elif probabilities.shape[1] != len(classes):
        probabilities = all_classes(np.asarray(probabilities), np.asarray(answers.classes_), classes)
    return month_of(pd.Index(classes).get_indexer(y), probabilities, units, len(classes))


def _earlier(work: Work, champion: Champion, size: int) -> list[Month]:
    """Return the figures of the champion's recorded out-of-fold predictions, in blocks like earlier months."""
    try:
        recorded = read_evaluation(champion.tags.get(EVALUATION) or "none")
    except SplitError:  # gone, or of draws, which keep no predictions
        return []
    if recorded.key == ["row"] or not recorded.is_ours():
        return []
    keys = work.keyed(pd.DataFrame({"row": np.arange(work.problem.n)})).to_pandas()[[*recorded.key, "row"]]
    frame = recorded.predictions.query("repeat == 0").drop(columns="row").merge(keys, on=recorded.key)
    rows, born = frame["row"].to_numpy(), work.manifest.born
    generations = np.zeros(work.problem.n) if born is None else born[np.flatnonzero(work.place >= 0)]
    when: NDArray[Any] = generations if work.problem.times is None else work.problem.times
    units = _units(work, rows)
    return [
        _month(work, part["y"].to_numpy(), Responses(replay(part, work.problem.classes), part), units[places])
        for places in blocks(when[rows], size, units)
        for part in [frame.iloc[places]]
    ]
