"""The task of a segment: a split, its fits, their estimate and the audit, for the rows of one value of a column."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.estimates import ModelSpec, Problem
from evenfold.estimates.models.estimators import named_estimator
from evenfold.manifests import SplitSpec, canonical_table, read_table, require_columns
from evenfold.manifests.audits.audit import CHECKS, LEARNING
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.plan import default_strategy
from evenfold.manifests.store.state import is_numeric_target
from evenfold.reports import verdict_of
from evenfold.splitters import SplitError

from .fits import fit_fold
from .outcomes import Segment
from .parameters import Intervals, Level, TimeLimit
from .plans import stamp
from .scores import aggregate
from .splits import audit_split, split as decide
from .steps import finished_here, step

MOST_SEGMENTS, NO_VALUE = 10_000, "these rows name no segment."
# What small models learn from rows is not asked of a segment: of so few they tell little, at three times its price.
UNASKED: GateLimits = {name: "off" for name, (_, takes) in CHECKS.items() if takes in LEARNING}

Segmented = tuple[SplitSpec, ModelSpec, dict[str, pa.Table]]


def segmented(data: str, spec: SplitSpec, model: ModelSpec, by: str) -> Segmented:
    """Return the strategy and the recipe of every segment, as all rows decide them, and the rows of each by its value.

    Rows without a value are called "". The same request is read once per process. Raises SplitError or ModelError for
    what can be no segment's. O(n log n).
    """
    return _segmented(data, (*stamp(data), *model.code.items()), spec, model, by)


@lru_cache(maxsize=1)
def _segmented(data: str, _stamp: tuple[object, ...], spec: SplitSpec, model: ModelSpec, by: str) -> Segmented:
    table, columns = read_table(data, types=spec.types), spec.columns
    require_columns([by, *columns.roles(), *spec.types], table.column_names)
    if by in columns.roles() or columns.target is None:
        why = (
            "plays a part in the split, and has one value in a segment" if columns.target else "has no target beside it"
        )
        raise SplitError(f"{by!r} {why}; name a target, and segments by a column that has no other part (by, --by).")
    values = canonical_table(table, [by], spec.types).column(0).cast(pa.large_string()).fill_null("")
    codes, order = pd.factorize(np.asarray(values.to_pylist(), dtype=object), sort=True)
    # To a model that does not name it, by itself or as a parameter of its parts, a column of one value says nothing.
    params = named_estimator(model.estimator, model.params).get_params() if model.estimator else {}
    is_feature = by in (model.features or ()) or repr(by) in repr([*params.values()])
    rest = table if is_feature else table.drop_columns([by])
    if len(order) > MOST_SEGMENTS:
        raise SplitError(
            f"{by!r} has {len(order):,} values, and at most {MOST_SEGMENTS:,} can be segments; name another."
        )
    frame = rest.filter(pc.is_valid(rest[columns.target])).replace_schema_metadata(None).to_pandas()
    model = model.model_copy(update={"exclude": tuple(name for name in model.exclude if is_feature or name != by)})
    problem = Problem.of(frame, model, columns.target, columns.kept_from_models(model.features))
    features = tuple(problem.features) if is_feature else model.features
    recipe = problem.model.model_copy(
        update={"metrics": problem.model.metrics[:1], "importance": "none", "features": features}
    )
    strategy = spec.strategy or default_strategy(
        spec, lambda name: is_numeric_target(canonical_table(rest, [name], spec.types).column(0))
    )
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    spec = spec.model_copy(update={"strategy": strategy})
    return spec, recipe, {str(value): rest.take(pa.array(own)) for value, own in zip(order, rows, strict=True)}


@step(run_name=lambda data, spec, *_, **__: f"evaluate {spec.name}", retries=0)
def evaluate_segment(
    data: str, spec: SplitSpec, model: ModelSpec, segment: str, *, interval: Intervals = "auto", level: Level = 0.95,
    time_limit: TimeLimit = None,
) -> Segment:  # fmt: skip
    """Return the score of ``model`` on the rows of a segment, which are a table of their own; one task run for all.

    Its split, its fits and its audit are kept as those of any other table. Raises SplitError, ModelError or
    EvaluationError where it cannot be split or fitted.
    """
    split = finished_here(decide, data, spec).value
    fits = [finished_here(fit_fold, split, block, model, time_limit=time_limit).value for block in split.blocks()]
    whole = finished_here(fit_fold, split, "all rows", model).value if split.kind == "draws" else None
    of = finished_here(aggregate, split, fits, apparent=whole, interval=interval, level=level).value
    audit = finished_here(audit_split, split, features=of.features, gates=UNASKED).value
    return Segment(
        segment=segment, rows=split.n_rows, estimate=of.estimates[-1], audit=verdict_of(None, audit).word,
        split_id=split.split_id,
    )  # fmt: skip
