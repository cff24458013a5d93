"""The plan of an evaluation before it runs: which results lie in the store, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evenfold.estimates.metrics.registry import metric_of
from evenfold.manifests import from_anywhere
from evenfold.reports.texts import FoldState, Step
from evenfold.splitters.errors import amount
from evenfold.tasks import Home, SplitRef, plans
from evenfold.tasks.record.reading import finished_record, preimage_of_record
from evenfold.tasks.requests import flat
from evenfold.tasks.runtime.signing import require_team_key
from evenfold.tasks.store import Preimage, nearest, ready
from evenfold.tasks.work import Work, further_pairs, key_of_fit, preimage_of_fits, work_of

from . import definitions
from .outcomes import Planned
from .requests import Request, checked

AGAIN, GONE, LOOK = "it is asked for again", "what was kept is gone", "a look at the locked rows is never kept"


@flat
@wraps(definitions.plan)
def plan(*args: Any, **fields: Any) -> Planned:
    """Read the request as ``evaluate`` or ``retrain`` does, and look each step up."""
    request = Request.to(definitions.plan).called(args, fields)
    require_team_key()
    name, _ = checked(request)
    steps = _steps_of_retraining if request.retrain else _steps
    with TemporaryDirectory() as aside:
        try:
            return Planned(name=name, steps=list(steps(request, aside)))
        finally:
            plans.forget_plans()


def _steps(request: Request, aside: str) -> Iterator[Step]:
    split, step = _split(request, aside)
    yield step
    if request.on == "holdout":
        yield from (Step("fits", reasons=[LOOK]), Step("record", reasons=[LOOK]))
    else:
        yield from _steps_on(request, split, work_of(split, request.recipe))


def _steps_of_retraining(request: Request, aside: str) -> Iterator[Step]:
    from evenfold.tasks.record.models.registered import champion_of
    from evenfold.tasks.splits import extend, newest  # tasks, and with them Prefect

    spec, data = request.specification, from_anywhere(request.data)
    champion = champion_of(request.registered_name or spec.name)
    before = newest(Home.here(), plans.plan_of(spec, data).spec, champion, request.on_refused)
    if before is None:
        split, step = _split(request, aside)
        yield step
    else:
        staged = str(Path(aside) / before.parent.name / "staged")
        growth = extend.fn(before, data, merged=request.merged, max_missing=1, staged=staged)
        split, joins = growth.split.asked(spec), f"{amount(growth.added, 'row')} would join {spec.name} {before.name}"
        yield Step(name="split", reasons=[joins]) if growth.added else Step(name="split", n_cached=1)
    work = work_of(split, request.recipe)
    recipe, metric = work.problem.judged_by(request.metric)
    work = work_of(split, recipe)
    yield from _steps_on(request, split, work)
    if champion is None or champion.model is None:
        yield Step(name="promotion", reasons=["there is no champion to compare with"])
        return
    title, newer = f"version {champion.version}", champion.tags.get("evenfold.split_id") != split.split_id
    measured = champion.model.with_metric(metric)
    if measured.canonical() != recipe.canonical():
        yield replace(_fits(request, split, work_of(split, measured)), name="champion")
    if measured.trains_like(recipe):
        why = f"the recipe is that of {title}"
        newer = newer or champion.tags.get("evenfold.values") != work.fingerprint
    else:
        why = f"the candidate is compared with {title} by {metric_of(metric).title}"
    yield Step(name="promotion", reasons=[f"{why}, {'with' if newer else 'without'} newer rows"])


def _steps_on(request: Request, split: SplitRef, work: Work) -> Iterator[Step]:
    fits = _fits(request, split, work)
    yield fits
    if request.log_models != "none":
        keys: list[Any] = ["all rows", *(split.splits() if request.log_models == "all" else [])]
        n_cached = _n_kept([f"model/{key_of_fit(work, i)}" for i in keys])
        reasons = fits.reasons or ["no earlier run kept one"]
        yield Step(name="model", n=len(keys), n_cached=n_cached, reasons=reasons if n_cached < len(keys) else [])
    features = list(work.problem.features)
    preimage = plans.preimage_of_audit(split, features, build=request.build)
    yield _step(request, preimage, 1, _n_kept([plans.audit_key(split, features, build=request.build) or ""]))
    about = request.run_label, request.interval, request.level
    if fits.n > fits.n_cached:
        yield Step(name="record", reasons=[f"{amount(fits.n - fits.n_cached, 'fit')} to compute first"])
    else:
        run_id = finished_record(Home.here(), work, *about)
        yield _step(request, preimage_of_record(work, *about), 1, int(run_id is not None))


def _split(request: Request, aside: str) -> tuple[SplitRef, Step]:
    if request.parameters.get("manifest"):
        return plans.split_in(request.manifest, request.data, request.rows), Step(name="split", n_cached=1)
    plan = plans.plan_of(request.specification, from_anywhere(request.data))
    # Without a lock: a plan waits for nobody, and makes nothing in the home, which it may only be allowed to read.
    split = plans.find_or_decide(plan, from_anywhere(request.data), Path(aside) / plan.spec.name / "staged")
    return split, _step(request, plans.preimage_of(plan), 1, int(split.reused))


def _fits(request: Request, split: SplitRef, work: Work) -> Step:
    interval, draws = request.interval, split.kind == "draws"
    states: list[FoldState] = []
    for i in split.blocks() if split.in_blocks else split.splits():
        hit = not request.refresh and ready(f"score/{key_of_fit(work, i)}") is not None
        states += ["cached" if hit else "waiting"] * (i[1] - i[0] if isinstance(i, tuple) else 1)
    n_further = len(further_pairs(work, interval))
    beside = [key_of_fit(work, "all rows")] if draws else []
    beside += [key_of_fit(work, i, interval) for i in range(n_further)]
    n_cached = states.count("cached") + _n_kept([f"score/{key}" for key in beside])
    preimage = preimage_of_fits(work, interval if n_further else None)
    return replace(_step(request, preimage, len(states) + len(beside), n_cached), states=states)


def _n_kept(keys: list[str]) -> int:
    return sum(ready(key) is not None for key in keys)


def _step(request: Request, preimage: Preimage, n: int, n_cached: int) -> Step:
    n_cached = 0 if request.refresh else n_cached
    if n_cached == n:
        return Step(name=preimage.kind, n=n, n_cached=n)
    earlier, reasons = nearest(preimage)
    seconds = None
    was, now = (each.parts.get("model", {}).get("estimator") if each else None for each in (earlier, preimage))
    if earlier and was is not None and was == now:
        # Of more rows about as much more.
        seconds = earlier.seconds * preimage.n_train / earlier.n_train * (n - n_cached)
    reasons = [AGAIN] if request.refresh else reasons or [GONE]
    return Step(name=preimage.kind, n=n, n_cached=n_cached, reasons=reasons, seconds=seconds)
