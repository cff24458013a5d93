"""A recorded model on later rows: what it predicts of them, and what it scores where their targets are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.estimates import Confusion, FoldScore, ModelError
from evenfold.estimates.folds import estimate_of_one_model
from evenfold.estimates.metrics.record import Responses, confidence
from evenfold.estimates.models.encoding import later_features
from evenfold.estimates.models.fit import defined_scores, predictions_of, reason_with_advice
from evenfold.manifests import StoredManifest, digest_json, from_anywhere, read_table, require_columns
from evenfold.manifests.balance import kept_together
from evenfold.manifests.store.header import sha256
from evenfold.manifests.tables.read import stamp
from evenfold.reports import Origin, SplitLink, beside_promises, evaluation_page
from evenfold.splitters.errors import SplitError, cause_of, listed
from evenfold.splitters.naming import changed
from evenfold.tasks.fits import fit_final, require_final
from evenfold.tasks.record.models.versions import load_final
from evenfold.tasks.record.reading import Recipe, read_recipe
from evenfold.tasks.record.studies import record_later
from evenfold.tasks.runtime.home import data_reference, prepare_environment
from evenfold.tasks.steps import run, running
from evenfold.tasks.work import Work, work_of

from .outcomes import LaterScore


@dataclass(frozen=True)
class _Later:
    """Rows that came later, and what the model of a recipe says of them."""

    recipe: Recipe
    work: Work
    table: pd.DataFrame
    answers: Responses
    name: str
    content: str
    doubts: list[str]


def read_besides(run_id: str, training_data: str | None = None) -> list[str | Path]:
    """Return what predicting by a recorded model reads beside the later rows: its training table and its manifest."""
    prepare_environment().require_record()
    split = read_recipe(run_id, training_data).split
    return [*([split.data] if split.data else []), *StoredManifest(Path(split.uri)).files]


def predict_later(
    run_id: str, data: Any, training_data: str | None = None, *, known_rows: bool = False
) -> pd.DataFrame:
    """Return what the recorded model ``run_id`` predicts of the rows of ``data``, each with its key.

    The recipe of the evaluation, or the choice of the tuning, is fitted once on every training row of its split.
    ``training_data``: where its table lies now. Columns: the key where ``data`` has it, prediction, a probability of
    each class. SplitError for a run without a recipe, and for rows that are the split's or, without a key, may be,
    unless ``known_rows`` lets them in; ModelError where a feature is missing or of another kind, and where the model
    cannot predict some row.
    """
    later = _fitted(run_id, data, training_data, None if known_rows else MEANT)
    if later.doubts and later.work.manifest.keys is not None:
        raise SplitError(f"{later.doubts[0]} Name them, or {MEANT}.")
    names = [name for name in later.work.manifest.spec.columns.key if name in later.table]
    columns = {"prediction": later.answers.say("predict")}
    columns |= confidence(later.answers, later.work.problem.classes) if later.work.problem.classes else {}
    return pd.concat([later.table[names].reset_index(drop=True), pd.DataFrame(columns)], axis=1)


def score_later(
    run_id: str, data: Any, training_data: str | None = None, *, metrics: Sequence[str] | None = None,
    level: float = 0.95,
) -> LaterScore:  # fmt: skip
    """Score the recorded model ``run_id`` on rows that came later, beside what its evaluation promised; record both.

    Intervals keep groups together. Notes say which metrics are not defined on these rows, as AUC where all are of one
    class, and where keys do not tell whether the rows are later ones. Raises what ``predict_later`` raises, SplitError
    for any row of the split, and EvaluationError where no metric is defined.
    """
    later = _fitted(run_id, data, training_data, "pass later rows alone")
    recipe, training, spec = later.recipe, later.work.problem, later.work.manifest.spec
    require_columns([training.target], [str(name) for name in later.table.columns])
    names = [name for name in spec.columns.grouped if name in later.table]
    units = kept_together(pa.Table.from_pandas(later.table[names]), spec) if names else None
    problem = training.of_later(later.table, recipe.model, metrics, units)
    predictions = predictions_of(problem, np.arange(problem.n), later.answers, name=later.name)
    on_test, undefined = defined_scores(problem, later.answers, later.name)
    moved = changed(recipe.code, recipe.model.code) if recipe.code else []
    since = f"{listed(moved)} changed since run {recipe.run_id[:8]}, whose promise is of the code before."
    notes = [*([since] if moved else []), *later.doubts, *undefined]
    score = FoldScore(later.name, 0, 0, on_test, {}, later.work.manifest.n, problem.n, 0.0, 0.0)
    how: dict[str, Any] = {"level": level, "held": True, "ordered": later.work.in_stretches}
    evidence = score, predictions, problem
    estimates = [estimate_of_one_model("later rows", metric, *evidence, **how) for metric in on_test]
    promised = [estimate for estimate in recipe.estimates if estimate.metric in on_test]
    title, split = f"{recipe.name.partition(' @ ')[0]} on {later.name}", recipe.split
    link = SplitLink(f"{split.name} {split.version}", split.split_id)
    page = evaluation_page(problem, [score], estimates, predictions, title, split=link, origin=Origin(later.name))
    page = beside_promises(page, estimates, promised, notes)
    about = {"run": recipe.run_id, "data": later.content[:32], "rows": problem.n}
    about |= {"code": digest_json(recipe.model.code)[:16]} if recipe.model.code else {}
    return LaterScore(
        run=recipe.run_id, model=problem.model, name=later.name, split=split, rows=problem.n, estimates=estimates,
        promised=promised, confusion=Confusion.of(problem, predictions), notes=notes,
        run_id=record_later(split, f"{recipe.name} on {later.name}", about, estimates, page),
    )  # fmt: skip


MEANT = "if they are meant, say known_rows=True (--known-rows)"


def _fitted(run_id: str, data: Any, training_data: str | None, remedy: str | None) -> _Later:
    """Return the model and the later rows; SplitError that ends in ``remedy`` for known ones, unless that is None."""
    home = prepare_environment().require_record()
    path = from_anywhere(data_reference(data, home))
    recipe = read_recipe(run_id, from_anywhere(training_data) if training_data else None)
    work = work_of(recipe.split, recipe.model)
    table = read_table(path, types=dict(work.manifest.spec.types)).replace_schema_metadata(None).to_pandas()
    name = Path(path).name
    doubts = work.manifest.require_new(table, name, remedy) if remedy else []
    require_columns([*work.problem.features], [str(column) for column in table.columns])
    X = later_features(table, work.problem.X)
    with running("plain"):
        final = run(fit_final, recipe.split, recipe.model)
    require_final(work, final, "final", ["all rows"])
    answers = Responses.of(load_final(final)[0], X)
    try:
        answers.say("predict")
    except Exception as error:  # a model raises what it likes
        refusal = f"{reason_with_advice(X, error)}."
        raise ModelError(f"the model of run {run_id} cannot predict the rows of {name}: {refusal}") from cause_of(error)
    content = sha256(Path(path)) if Path(path).is_file() else digest_json(stamp(path))
    return _Later(recipe, work, table, answers, name, content, doubts)
