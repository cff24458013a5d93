"""Two recorded evaluations, row by row, over repeats of their folds where the fits are short."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from evenfold.estimates import Comparison, EvaluationError, ModelError
from evenfold.estimates.intervals.pairing import classes_of
from evenfold.estimates.metrics.scoring import is_trusted
from evenfold.estimates.models.estimators import named_for
from evenfold.reports.figures import metrics_in
from evenfold.splitters import SplitError
from evenfold.tasks.parameters import Repeats
from evenfold.tasks.record import reading
from evenfold.tasks.record.studies import record_comparison
from evenfold.tasks.runtime.home import Home, prepare_environment
from evenfold.tasks.work import further_pairs, work_of

from evenfold import estimates

from . import definitions
from .evaluation import Fits, fit_more
from .flow import flow
from .requests import Request

MOST_REPEATS, MOST_SECONDS = 10, 60.0


def check_comparison(request: Request) -> str:
    """Raise SplitError where nothing is recorded; return which runs are compared."""
    Home.here().require_record()
    return f"{request.run_a} {request.run_b}"


@flow(definitions.compare, check_comparison)
def compare(request: Request) -> list[Comparison]:
    """Return, per metric, how the model of run B does beside that of run A on the same rows; record it."""
    pair = pair_of(request.run_a, request.run_b, request.repeats)
    pair_of.cache_clear()
    of_a, of_b = (metrics_in(side.params) for side in (pair.a, pair.b))
    metrics = [metric for metric in of_a if metric in of_b and is_trusted(metric)]  # recorded names are complete
    if request.metrics:
        side, numbers = pair.a, pair.a.params.get("model.task") == "regression"
        classes = () if numbers else classes_of("accuracy", side.predictions, side.predictions, (side.name, side.name))
        positive: str | bool | None = side.params.get("model.positive")
        if positive in ("True", "False") and positive not in map(str, classes):  # a yes or no that YAML read so
            positive = positive == "True"
        wanted = named_for(request.metrics, "regression" if numbers else "classification", classes, positive)
        metrics = list(dict.fromkeys(wanted))
    if not metrics:
        raise SplitError(f"{pair.a.name} and {pair.b.name} share no metric; name one (metrics, or --metric).")
    a, b, repeat_notes = pair.predictions()
    names = f"A ({pair.a.name})", f"B ({pair.b.name})"
    how = {"names": names, "level": request.level, "margin": request.margin, **pair.a.traits}
    comparisons = [estimates.compare(a, b, metric, apparent=pair.apparent(metric), **how) for metric in metrics]
    notes = tuple(filter(None, (pair.versions, repeat_notes)))
    comparisons = [replace(comparison, notes=(*notes, *comparison.notes)) for comparison in comparisons]
    record_comparison(pair.a, pair.b, comparisons, pair.names, request.level)
    return comparisons


@dataclass(frozen=True)
class Pair:
    """Two recorded evaluations, and a sentence on their versions of a split.

    ``recipes``: of both, where they are fitted for so many ``repeats`` of the folds; ``required``: a person asked for
    them; ``why``: there are no more.
    """

    a: reading.Recorded
    b: reading.Recorded
    versions: str
    required: bool
    repeats: int = 0
    recipes: tuple[reading.Recipe, ...] = ()
    why: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """The names of their models, with a run's first digits where both have one name."""
        a, b = (each.name.partition(" @ ")[0].rpartition("/")[2] for each in (self.a, self.b))
        return (a, b) if a != b else (f"{a} {self.a.run_id[:8]}", f"{b} {self.b.run_id[:8]}")

    def apparent(self, metric: str) -> tuple[float, float] | None:
        """Return both runs' mean scores on their training rows, where both have them."""
        a, b = (side.mean_of_folds(f"apparent/{metric}") for side in (self.a, self.b))
        return None if a is None or b is None else (a, b)

    def predictions(self) -> tuple[pd.DataFrame, pd.DataFrame, str]:
        """Return the predictions of both over all repeats, fitted where they are not recorded, and a sentence on them.

        Raises EvaluationError where a fit fails of repeats that are required.
        """
        a, b = self.a.predictions, self.b.predictions
        states, n_before, sides = list[str](), 0, []
        for recipe, side in zip(self.recipes, (self.a, self.b), strict=False):
            fits, n = Fits(recipe.split, recipe.model), int(side.predictions.groupby(["repeat", "fold"]).ngroups)
            fit_more(fits, self.repeats, side.fit_seconds and side.fit_seconds / n)
            if fits.errors and self.required:
                raise EvaluationError(fits.failure)
            if fits.errors:
                return a, b, f"The folds were not repeated: {fits.failure}"
            states += fits.states
            work, tables = work_of(fits.split, fits.model), [side.predictions]
            for number, refit in enumerate(fits.refits, start=work.manifest.n_splits):  # these follow the recorded
                repeat, fold = map(np.int32, work.manifest.membership.split_name(number))
                keyed = work.keyed(pd.read_parquet(refit.predictions.path)).to_pandas()
                tables.append(keyed.assign(repeat=repeat, fold=fold))
            sides.append(pd.concat(tables, ignore_index=True))
            n_before += n
        if not sides:
            return a, b, self.why
        n, n_cached = len(states), states.count("cached")
        recorded = f"{n_before + n:,} fits, of which {n_before:,} were recorded"
        notes = f"{self.repeats} repeats of the folds: {recorded}, {n_cached:,} kept and {n - n_cached:,} made now."
        return sides[0], sides[1], f"{notes} {self.why}".strip()


@lru_cache(maxsize=1)
def pair_of(run_a: str, run_b: str, repeats: Repeats) -> Pair:
    """Return two recorded evaluations, read once until they are compared.

    SplitError where they cannot be compared, or not over a number of ``repeats``.
    """
    prepare_environment().require_record()
    a, b = (reading.read_evaluation(run_id) for run_id in (run_a, run_b))
    n_recorded, required = min(int(side.predictions["repeat"].nunique()) for side in (a, b)), repeats != "auto"
    wanted = MOST_REPEATS if repeats == "auto" else repeats
    pair = Pair(a, b, _versions(a, b), required)
    if wanted <= n_recorded:
        return pair
    taken = [side.fit_seconds for side in (a, b)]
    command = f"evenfold compare {a.run_id[:8]} {b.run_id[:8]} --repeats {wanted}"
    try:
        recipes = _repeatable(pair, wanted)
        if None in taken and not required:
            raise SplitError(f"the runs do not say what their fits took; to repeat the folds: {command}.")
    except (SplitError, ModelError) as error:
        if required:
            raise
        return replace(pair, why=f"The folds were not repeated: {error}")
    # The recorded seconds are those of all recorded repeats of both runs.
    a_repeat = sum(seconds or 0.0 for seconds in taken) / n_recorded
    needed = (wanted - n_recorded) * a_repeat
    if required or needed <= MOST_SECONDS:
        return replace(pair, repeats=wanted, recipes=recipes)
    affordable = n_recorded + int(MOST_SECONDS / a_repeat)
    price = f"{wanted} repeats of the folds would take about {needed:,.0f} s of further fits"
    why = f"{price}, and {MOST_SECONDS:.0f} s is what is taken unasked; to have them: {command}."
    return replace(pair, repeats=affordable, recipes=recipes if affordable > n_recorded else (), why=why)


def _versions(a: reading.Recorded, b: reading.Recorded) -> str:
    """Return a sentence on two versions of one split, "" of the same one; SplitError for different splits."""
    if a.tags.get("evenfold.split_id") == b.tags.get("evenfold.split_id"):
        return ""
    specs = [side.tags.get("evenfold.spec", "?") for side in (a, b)]
    if specs[0].rpartition(".")[0] != specs[1].rpartition(".")[0] or "?" in specs:
        what = f"the runs rest on different splits ({specs[0]} and {specs[1]}), so their rows were not tested alike"
        raise SplitError(f"{what}; evaluate one of them on the other's manifest (--manifest).")
    return f"{specs[0]} and {specs[1]} are versions of one split; compared on the rows that both tested."


def _repeatable(pair: Pair, wanted: int) -> tuple[reading.Recipe, ...]:
    """Return what both runs trained, where their folds can be repeated; SplitError says why they cannot."""
    if pair.versions:
        raise SplitError("the runs rest on two versions of a split; evaluate the older on the newer (--manifest).")
    recipes, folds = [], []
    for side in (pair.a, pair.b):
        run = f"run {side.run_id[:8]} ({side.name})"
        again = f"evaluate it again: evenfold evaluate TABLE --manifest {side.tags.get('evenfold.spec', 'NAME')}"
        if side.tags.get("evenfold.record") != "evaluation" or side.tags.get("evenfold.partial"):
            raise SplitError(f"{run} has not every fold, as a look at locked rows has none; {again}.")
        recipe = reading.read_recipe(side.run_id)
        try:
            work = work_of(recipe.split, recipe.model)
        except (OSError, SplitError) as error:
            raise SplitError(f"{run} cannot be fitted again, for {error} Or {again}.") from None
        if work.fingerprint != side.params.get("fingerprint"):
            data = Path(recipe.split.data).name
            raise SplitError(f"{data} holds other values than those that {run} learnt from; {again}.")
        recipes.append(recipe)
        folds.append([test for _, test in further_pairs(work, wanted)])
    if not all(np.array_equal(*tests) for tests in zip(*folds, strict=True)):
        raise SplitError("the tables of the runs differ in the columns that decide folds; evaluate both on one.")
    return tuple(recipes)
