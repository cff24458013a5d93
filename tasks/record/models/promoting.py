"""Checks of a new model before it takes the champion's place: its score, its predictions, and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import Comparison, fitted
from evenfold.estimates.comparison import compare_same
from evenfold.estimates.intervals.months import Judgement, Month, earlier_months, judge, month_in
from evenfold.estimates.metrics.record import Responses
from evenfold.estimates.metrics.scoring import score
from evenfold.manifests import Audit
from evenfold.manifests.audits.findings import MODEL_GATES, CheckOutcome, Found, NotAsked, gates_with, judged, needed
from evenfold.manifests.growth.newcomers import TELLING
from evenfold.splitters.errors import SplitError, listed
from evenfold.tasks.fits import require_final
from evenfold.tasks.outcomes import Champion, FinalModel, Measured, SplitRef
from evenfold.tasks.record.models.versions import EVALUATION, Tags, load_final, moved_code
from evenfold.tasks.record.reading import Recorded, read_evaluation
from evenfold.tasks.record.tracker import tracker_of
from evenfold.tasks.runtime.limits import limited
from evenfold.tasks.scores import gap_of_levels, kept_scores
from evenfold.tasks.steps import step
from evenfold.tasks.work import Work, work_of
from numpy.typing import NDArray

FEWEST_NEW = 20  # of fewer new rows nothing is asked: all training rows are looked at instead
Predictions = Callable[[], NDArray[np.float64]]  # made by whoever first asks for them


@step(run_name=lambda winner, **_: f"look at the new model of {winner.split.name}")
def check_model(winner: Measured, final: FinalModel, champion: Champion | None, metric: str) -> Audit:
    """Say whether a model of ``fit_final`` may take the champion's place; ``failed`` names what stops it.

    ``winner``: what its recipe scores. Its predictions are those of the newest generation, or of all rows where that
    has few; see MODEL_GATES, and EvaluationError for another's model.
    """
    work, recorded = work_of(winner.split, winner.model), _recorded(champion)
    require_final(work, final, "final", ["all rows"])
    problem, manifest, rows = work.problem, work.manifest, work.manifest.in_use.unlocked
    newest = rows[manifest.generations[rows] == manifest.generation]
    rows = work.place[newest if newest.size >= FEWEST_NEW else rows]

    @cache
    def predicted() -> NDArray[np.float64]:
        model, _ = load_final(final)
        return problem.answered(Responses.of(model, problem.X.iloc[rows]), rows).numbers

    checks: dict[str, Callable[[], CheckOutcome]] = {
        "lower_score": lambda: _lower_score(winner, champion, recorded, metric),
        "unusable_predictions": lambda: _share(~np.isfinite(predicted()).all(axis=1), "are not finite numbers"),
        "wild_predictions": lambda: _wild(work, predicted),
        "constant_predictions": lambda: _constant(champion, recorded, predicted),
        "level_gap": lambda: gap_of_levels(winner.levels, metric),
    }
    return judged(gates_with(winner.split.limits, MODEL_GATES), checks, manifest, rows.size, list(problem.features))


def _lower_score(winner: Measured, champion: Champion | None, recorded: Recorded | None, metric: str) -> CheckOutcome:
    """Compare the score with the champion's on the rows that both tested, or else on all of each."""
    work = work_of(winner.split, winner.model)
    if champion is None or not work.problem.model.trains_like(champion.model):
        raise NotAsked("the recipe is not the champion's")

    def same() -> Comparison | None:
        if recorded is None or winner.split.kind == "draws":
            return None
        return compare_same(recorded.predictions, kept_scores(winner.split, work), metric, recorded.key)

    scores = Tags.model_validate(champion.tags).scores
    falls = (before.fall(now, same) for now in winner.estimates for before in scores if now.metric == metric)
    return Found(*needed(next(filter(None, falls), None), f"the champion's {metric} was not recorded with an interval"))


def _share(odd: Any, what: str) -> CheckOutcome:
    n = int(np.count_nonzero(odd))
    sentence = f"{n:,} of {len(odd):,} predictions of the newest rows {what}."
    return Found(n / len(odd), sentence, {"rows": n}) if n else None


def _wild(work: Work, predicted: Predictions) -> CheckOutcome:
    """Look for numbers far beyond those that the model has learnt from."""
    needed(not work.problem.classes, "classes are predicted")
    y = work.problem.y[work.place[work.manifest.in_use.unlocked]].astype(np.float64)
    low, high = float(y.min()), float(y.max())
    widened = 2 * low - high, 2 * high - low  # by the range's own width; not told: cells stand behind them
    with np.errstate(invalid="ignore"):
        wild = (predicted() < widened[0]) | (predicted() > widened[1])
    return _share(wild, "lie outside of the target's range by more than its width")


def _constant(champion: Champion | None, recorded: Recorded | None, predicted: Predictions) -> CheckOutcome:
    """Look for a model that says the same of every row where the champion's did not."""
    needed(champion, "there is no champion to lose")
    needed(len(predicted()) > 1, "there is one row")
    if recorded is not None:
        frame = recorded.predictions
        names = [column for column in frame if str(column).startswith("proba_")] or ["prediction"]
        spread: Any = frame.groupby(["repeat", "fold"])[names].nunique()
        needed(bool((spread > 1).any().any()), "the champion's predictions were all the same")
    if np.ptp(predicted(), axis=0).max() > 0 or not np.isfinite(predicted()).all():
        return None
    return Found(1, f"all {len(predicted()):,} predictions of the newest rows are the same.", {})


@step(run_name=lambda split, **_: f"judge what joined {split.name}")
def judge_month(
    split: SplitRef, champion: Champion | None, metric: str, arrival: Audit | None, run_id: str
) -> Judgement:
    """Say whether the rows that joined ``split`` last, which the champion never saw, may be learnt from.

    The champion's recipe is fitted again on what it learnt from, so that nothing stored is loaded, and its out-of-fold
    predictions say what earlier rows were like. ``arrival``: what ``check_table`` found. ``run_id``: keeps the figures.
    """
    odd = [text for name, text in (arrival.passed if arrival else {}).items() if name in TELLING and text]
    judgement, series = Judgement() if champion is None else _by_champion(split, champion, metric), {}
    verdict = "unclear" if odd and judgement.verdict == "sound" else judgement.verdict
    if champion is not None and judgement.series:
        tracker = tracker_of(split)
        # Each figure and its ends: of the generations that led to the champion, and of this one.
        for name, point in judgement.series.items():
            history = tracker.client.get_metric_history(champion.run_id, name) if champion.run_id else []
            series[name] = {int(each.step): float(each.value) for each in history} | point
        tracker.measured(run_id, series)
    return replace(judgement, verdict=verdict, sentences=[*judgement.sentences, *odd], series=series)


def _by_champion(split: SplitRef, champion: Champion, metric: str) -> Judgement:
    """Return the judgement, with the score on the new rows where they can be scored, and how many were predicted."""
    trained_on = champion.tags.get("evenfold.spec", "unknown")
    if trained_on == f"{split.name}@{split.version}":  # nothing joined since
        return Judgement()
    line, _, generation = trained_on.rpartition(".")
    if champion.model is None:
        why = "it names no recipe"
    elif line != f"{split.name}@{split.version.partition('.')[0]}":
        why = f"it was trained on another split ({trained_on})"
    elif moved := moved_code(champion):
        why = f"{listed(moved)} changed since it was fitted"
    else:
        try:
            work = work_of(split, champion.model)
            problem, rows = work.problem, work.manifest.in_use.unlocked
            born = work.manifest.generations[rows]
            # What joined between was judged when it did: good months of it would hide that the last one is broken.
            new = work.place[rows[born > max(int(generation), born.max() - 1)]]
            if not new.size:
                return Judgement()
            old, seed = work.place[rows[born <= int(generation)]], work.manifest.spec.seed
            with limited(problem.X.size):
                recipe = fitted(problem, old, seed=seed, name="the champion's recipe", inner=work.inner)
                answered = problem.answered(Responses.of(recipe, problem.X.iloc[new]), new)
                now = month_in(problem, new, answered)
        except Exception as error:  # whatever keeps it from being fitted or from predicting these rows is told
            why = f"it cannot predict them ({type(error).__name__}: {str(error).partition(chr(10))[0][:300]})"
        else:
            scored = None
            with suppress(Exception):  # of a metric that is not defined on these rows
                scored = score(metric, answered)
            judgement = judge(now, _earlier(work, champion, now.rows), problem.target, work.manifest.generation)
            return replace(judgement, score=scored, rows=int(new.size))
    return Judgement("unclear", [f"The champion cannot judge the new rows: {why}."])


def _recorded(champion: Champion | None) -> Recorded | None:
    """Return the evaluation of a champion's recipe, None where it is gone, kept no predictions, or is not ours."""
    with suppress(SplitError):  # draws keep no predictions
        if champion is not None and EVALUATION in champion.tags:
            return read_evaluation(champion.tags[EVALUATION], ours=True)
    return None


def _earlier(work: Work, champion: Champion, size: int) -> list[Month]:
    """Return the figures of the champion's recorded out-of-fold predictions, in blocks like earlier months."""
    recorded = _recorded(champion)
    if recorded is None or recorded.key == ["row"]:
        return []
    keys = work.keyed(pd.DataFrame({"row": np.arange(work.problem.n)})).to_pandas()[[*recorded.key, "row"]]
    frame = recorded.predictions.query("repeat == 0").drop(columns="row").merge(keys, on=recorded.key)
    generations = work.manifest.generations[work.place >= 0]
    return earlier_months(work.problem, frame, generations if work.problem.times is None else work.problem.times, size)
