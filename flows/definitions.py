"""The flows, each defined once: Python, Prefect's forms, deployments and the command line are made of these signatures.

What they are made of is imported when one runs: the help of a command is there at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenfold.tasks.parameters import (
    AllowPartial,
    Apparent,
    BalanceOn,
    Batch,
    Coordinates,
    Data,
    DataEngine,
    Engine,
    Exclude,
    Features,
    Gates,
    Grid,
    Group,
    GroupMode,
    Holdout,
    Importance,
    Impute,
    Intervals,
    Key,
    Level,
    LogModels,
    ManifestArgument,
    Margin,
    MaxMissing,
    Memory,
    Merged,
    Metric,
    Metrics,
    MissingTarget,
    Model,
    ModelParams,
    ModelTask,
    Name,
    Nested,
    NRandom,
    NSplits,
    On,
    OneStandardError,
    OnManifest,
    OnRefused,
    OnUnclear,
    Params,
    Positive,
    Reason,
    Refresh,
    RegisteredName,
    Repeats,
    RunA,
    RunB,
    RunLabel,
    Seed,
    Spec,
    Strategy,
    Stratify,
    Target,
    Time,
    TimeLimit,
)

if TYPE_CHECKING:
    from evenfold.estimates import Comparison
    from evenfold.tasks.retrained import Retraining

    from .outcomes import Evaluation, ExtendOutcome, SplitOutcome, Tuning


def split(
    data: Data,
    spec: Spec = None,
    *,
    target: Target = None,
    group: Group = None,
    group_mode: GroupMode = None,
    key: Key = None,
    stratify: Stratify = None,
    balance_on: BalanceOn = None,
    coordinates: Coordinates = None,
    time: Time = None,
    strategy: Strategy = None,
    n_splits: NSplits = None,
    params: Params = None,
    seed: Seed = None,
    name: Name = None,
    holdout: Holdout = None,
    missing_target: MissingTarget = None,
    data_engine: DataEngine = "auto",
    memory: Memory = None,
    engine: Engine = "prefect",
    refresh: Refresh = False,
) -> SplitOutcome:
    """Split FILE and record the manifest.

    The same rows and the same specification are split once: the second call says ``cached``. Raises SplitError where
    the data or the specification do not allow it. A table that takes more than ``memory`` is sorted out of core by
    DuckDB, or by ``data_engine``; the folds and their identities are the same.

    Example: evenfold split examples/flights.parquet --target arr_delay --group date --key flight_id
    """
    from evenfold.tasks.splits import specification
    from evenfold.tasks.steps.running import running

    from .splitting import run_split

    asked = specification(
        data, spec, target=target, group=group, group_mode=group_mode, key=key, stratify=stratify,
        balance_on=balance_on, time=time, strategy=strategy, n_splits=n_splits, params=params, seed=seed, name=name,
        holdout=holdout, coordinates=coordinates, missing_target=missing_target,
    )  # fmt: skip
    with running(engine, refresh):
        return run_split(data, asked, data_engine, memory)


def evaluate(
    data: Data,
    spec: Spec = None,
    model: Model = None,
    *,
    target: Target = None,
    group: Group = None,
    group_mode: GroupMode = None,
    key: Key = None,
    stratify: Stratify = None,
    balance_on: BalanceOn = None,
    coordinates: Coordinates = None,
    time: Time = None,
    strategy: Strategy = None,
    n_splits: NSplits = None,
    params: Params = None,
    seed: Seed = None,
    name: Name = None,
    holdout: Holdout = None,
    missing_target: MissingTarget = None,
    model_params: ModelParams = None,
    metrics: Metrics = None,
    features: Features = None,
    exclude: Exclude = None,
    task: ModelTask = None,
    positive: Positive = None,
    impute: Impute = None,
    importance: Importance = "auto",
    manifest: OnManifest = None,
    on: On = "folds",
    reason: Reason = "",
    interval: Intervals = "auto",
    level: Level = 0.95,
    apparent: Apparent = "full",
    run_label: RunLabel = "",
    time_limit: TimeLimit = None,
    log_models: LogModels = "none",
    allow_partial: AllowPartial = False,
    engine: Engine = "prefect",
    refresh: Refresh = False,
) -> Evaluation:
    """Split FILE, train a model per fold, and record the estimate.

    One model is trained per fold, or per draw in blocks. Finished fits come from the cache, so a run that died goes on
    where it stopped. Raises SplitError or ModelError for bad input and EvaluationError where a fold could not be
    evaluated; the split and the finished folds are then kept.

    Example: evenfold evaluate examples/flights.parquet --target arr_delay --group date --exclude dep_delay
    """
    from evenfold.tasks.splits import specification
    from evenfold.tasks.steps.running import running

    from .evaluation import recipe_of, run_evaluation

    asked = specification(
        data, spec, target=target, group=group, group_mode=group_mode, key=key, stratify=stratify,
        balance_on=balance_on, time=time, strategy=strategy, n_splits=n_splits, params=params, seed=seed, name=name,
        holdout=holdout, coordinates=coordinates, missing_target=missing_target,
    )  # fmt: skip
    recipe = recipe_of(
        model, params=model_params, metrics=metrics, features=features, exclude=exclude, task=task, positive=positive,
        impute=impute, importance=None if importance == "auto" else importance,
    )  # fmt: skip
    with running(engine, refresh):
        return run_evaluation(
            data, asked, recipe, manifest=manifest, on=on, reason=reason, interval=interval, level=level,
            apparent=apparent, run_label=run_label, time_limit=time_limit, log_models=log_models,
            allow_partial=allow_partial,
        )  # fmt: skip


def tune(
    data: Data,
    spec: Spec = None,
    model: Model = None,
    *,
    grid: Grid,
    target: Target = None,
    group: Group = None,
    group_mode: GroupMode = None,
    key: Key = None,
    stratify: Stratify = None,
    balance_on: BalanceOn = None,
    coordinates: Coordinates = None,
    time: Time = None,
    strategy: Strategy = None,
    n_splits: NSplits = None,
    params: Params = None,
    seed: Seed = None,
    name: Name = None,
    holdout: Holdout = None,
    missing_target: MissingTarget = None,
    model_params: ModelParams = None,
    metrics: Metrics = None,
    features: Features = None,
    exclude: Exclude = None,
    task: ModelTask = None,
    positive: Positive = None,
    impute: Impute = None,
    manifest: OnManifest = None,
    n_random: NRandom = None,
    metric: Metric = None,
    one_standard_error: OneStandardError = False,
    nested: Nested = False,
    interval: Intervals = "auto",
    level: Level = 0.95,
    on: On = "folds",
    reason: Reason = "",
    time_limit: TimeLimit = None,
    engine: Engine = "prefect",
    refresh: Refresh = False,
) -> Tuning:
    """Try every configuration of a grid on every fold, and say what the winner is worth.

    Each fit of each configuration is cached on its own. With ``nested`` the choice is made anew inside the training
    rows of every fold, by folds of the same strategy, and what was chosen is scored on the fold: the score of choosing
    so, which nothing flatters, at the price of as many fits again for every fold. With on="holdout" and a reason, the
    winner is fitted on all rows but the locked ones and scored on those, once. Raises as ``evaluate`` does.

    Example: evenfold tune examples/flights.parquet --grid grid.yaml --target arr_delay --group date
    """
    from evenfold.tasks.splits import specification
    from evenfold.tasks.steps.running import running

    from .evaluation import recipe_of
    from .tuning import run_tuning

    asked = specification(
        data, spec, target=target, group=group, group_mode=group_mode, key=key, stratify=stratify,
        balance_on=balance_on, time=time, strategy=strategy, n_splits=n_splits, params=params, seed=seed, name=name,
        holdout=holdout, coordinates=coordinates, missing_target=missing_target,
    )  # fmt: skip
    recipe = recipe_of(
        model, params=model_params, metrics=metrics, features=features, exclude=exclude, task=task, positive=positive,
        impute=impute,
    )  # fmt: skip
    with running(engine, refresh):
        return run_tuning(
            data, asked, recipe, grid, manifest=manifest, n_random=n_random, metric=metric,
            one_standard_error=one_standard_error, nested=nested, interval=interval, level=level, on=on, reason=reason,
            time_limit=time_limit,
        )  # fmt: skip


def extend(
    manifest: ManifestArgument,
    data: Data,
    *,
    batch: Batch = False,
    merged: Merged = "quarantine",
    max_missing: MaxMissing = 0.1,
    memory: Memory = None,
    engine: Engine = "prefect",
) -> ExtendOutcome:
    """Add the new rows of FILE to MANIFEST; no assigned row changes its fold.

    The next version of the manifest is written beside it, and recorded. FILE is the whole table, or with --batch new
    rows alone; where more of the known rows are missing than --max-missing allows, nothing is written: SplitError.
    What takes more than ``memory`` is extended out of core, to the same version.

    Example: evenfold extend .evenfold/splits/flights/1.0 examples/flights.parquet
    """
    from evenfold.tasks.steps.running import running

    from .splitting import run_extension

    with running(engine):
        return run_extension(manifest, data, batch, merged, max_missing, memory)


def retrain(
    data: Data,
    spec: Spec = None,
    model: Model = None,
    *,
    target: Target = None,
    group: Group = None,
    group_mode: GroupMode = None,
    key: Key = None,
    stratify: Stratify = None,
    balance_on: BalanceOn = None,
    coordinates: Coordinates = None,
    time: Time = None,
    strategy: Strategy = None,
    n_splits: NSplits = None,
    params: Params = None,
    seed: Seed = None,
    name: Name = None,
    holdout: Holdout = None,
    missing_target: MissingTarget = None,
    model_params: ModelParams = None,
    metrics: Metrics = None,
    features: Features = None,
    exclude: Exclude = None,
    task: ModelTask = None,
    positive: Positive = None,
    impute: Impute = None,
    registered_name: RegisteredName = None,
    metric: Metric = None,
    gates: Gates = True,
    merged: Merged = "quarantine",
    on_refused: OnRefused = "stop",
    on_unclear: OnUnclear = "commit",
    interval: Intervals = "auto",
    level: Level = 0.95,
    run_label: RunLabel = "",
    time_limit: TimeLimit = None,
    log_models: LogModels = "none",
    allow_partial: AllowPartial = False,
    engine: Engine = "prefect",
    refresh: Refresh = False,
) -> Retraining:
    """Let new rows of FILE join the split, compare the model with the champion, and register the winner.

    The rule of promotion is in the outcome. The same data, recipe, metric, interval and label are retrained once.
    Before anything is learnt, FILE is compared with the last table: rows that vanished, targets that changed or
    shifted, lost columns and odd numbers of new rows stop it, as a failed gate of the audit does: GateError. Raises
    what ``evaluate`` raises too.

    Example: evenfold retrain examples/flights.parquet --target arr_delay --group date --key flight_id
    """
    from evenfold.tasks.splits import specification
    from evenfold.tasks.steps.running import running

    from .evaluation import recipe_of
    from .retraining import run_retraining

    asked = specification(
        data, spec, target=target, group=group, group_mode=group_mode, key=key, stratify=stratify,
        balance_on=balance_on, time=time, strategy=strategy, n_splits=n_splits, params=params, seed=seed, name=name,
        holdout=holdout, coordinates=coordinates, missing_target=missing_target,
    )  # fmt: skip
    recipe = recipe_of(
        model, params=model_params, metrics=metrics, features=features, exclude=exclude, task=task, positive=positive,
        impute=impute,
    )  # fmt: skip
    with running(engine, refresh):
        return run_retraining(
            data, asked, recipe, registered_name=registered_name, metric=metric, gates=gates, merged=merged,
            on_refused=on_refused, on_unclear=on_unclear, interval=interval, level=level, run_label=run_label,
            time_limit=time_limit, log_models=log_models, allow_partial=allow_partial, refresh=refresh,
        )  # fmt: skip


def compare(
    run_a: RunA,
    run_b: RunB,
    metrics: Metrics = None,
    *,
    level: Level = 0.95,
    margin: Margin = 0.0,
    repeats: Repeats = "auto",
    engine: Engine = "prefect",
) -> list[Comparison]:
    """Compare two evaluations row by row, over repeats of the folds where their fits are short.

    A run is its id, or what ``evaluate`` returned, which names it.
    Both must rest on the same split. Versions of one split that grew are compared on the rows that both tested, and
    the comparison says so. Raises SplitError for runs of different splits, or without predictions, and where a number
    of ``repeats`` is asked for that cannot be had.

    Example: evenfold compare RUN_A RUN_B --metric r2
    """
    from .comparison import compare_runs

    return compare_runs(run_a, run_b, metrics, level=level, margin=margin, repeats=repeats, engine=engine)
