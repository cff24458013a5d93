"""The flows as Prefect's objects: what deployments, schedules and other flows use."""

from __future__ import annotations

from functools import partial
from typing import Any

from evenfold.manifests import Manifest
from evenfold.tasks.runtime.home import Home, prepare_environment

from . import definitions
from .evaluation import check_evaluation
from .flow import published
from .splitting import check_extension, check_split
from .tuning import check_tuning


def _any_runs(run_a: str, run_b: str, **_: Any) -> str:
    Home.here().require_record()
    return f"{run_a} {run_b}"


split = published(check_split)(definitions.split)
evaluate = published(partial(check_evaluation, in_batches=True))(definitions.evaluate)
tune = published(check_tuning)(definitions.tune)
extend = published(check_extension)(definitions.extend)
retrain = published(partial(check_evaluation, in_batches=True))(definitions.retrain)
compare = published(_any_runs)(definitions.compare)


def load_split(reference: str) -> Manifest:
    """Return the manifest that ``name@1.1``, a name, a split_id or a plan_id names, from MLflow where it is not here.

    Raises SplitError where there is none.
    """
    prepare_environment(Home.here())
    from evenfold.tasks.record.reading import read_split

    return read_split(reference)
