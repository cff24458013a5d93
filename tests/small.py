"""A small table, its evaluation by the plain engine, and what the store then holds."""

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from evenfold.flows import Evaluation, Retraining, compare, evaluate
from evenfold.manifests.store.header import sha256
from evenfold.tasks import Home
from evenfold.tasks.outcomes import FinalModel, KeptFile
from evenfold.tasks.record.models.versions import sign_version
from evenfold.tasks.runtime.signing import sign
from mlflow.tracking import MlflowClient

from evenfold import flows

RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}  # a recipe of five takes half as long again
# A recipe that learns from rows(), and one that does not.
GOOD: dict[str, Any] = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2", "neg_mean_squared_error"]}
BAD: dict[str, Any] = {"estimator": "sklearn.dummy:DummyRegressor", "metrics": ["r2"]}
# Three folds say what five say, and a fold costs a tenth of a second: its fit, its run and its part of the audit.
SPEC: dict[str, Any] = {"name": "small", "columns": {"key": "id", "target": "y"}, "params": {"n_splits": 3}}
LATE: dict[str, Any] = {"name": "late", "columns": {"key": "id", "target": "late"}, "strategy": "KFold"}


def small(n: int = 99) -> pd.DataFrame:  # from 100 on audits learn, for a fifth of the time
    """Return ``n`` rows with a key, a number and a class to predict, two features, and a column that nobody reads."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=n), rng.normal(size=n)
    return pd.DataFrame(
        {
            "id": rng.permutation(n) * 3,
            "y": a + rng.normal(size=n),
            "late": np.where(b + rng.normal(size=n) > 0, "yes", "no"),
            "a": a,
            "b": b,
            "note": [f"note {i}" for i in range(n)],
        }
    )


def evaluated(data: Any, **fields: Any) -> Evaluation:
    return evaluate(data, **({"engine": "plain", "spec": SPEC, "model": RIDGE} | fields))


compared = partial(compare, engine="plain")


def runs(home: Home) -> list[Any]:
    client = MlflowClient(home.tracking_uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    return list(client.search_runs(experiments, max_results=1000))


def named(home: Home, words: str) -> list[Any]:
    return [run for run in runs(home) if words in run.info.run_name]


def values(outcome: Evaluation) -> list[dict[str, float]]:
    return [{**score.test, **{f"apparent {k}": v for k, v in score.apparent.items()}} for score in outcome.scores]


def artifacts(home: Home, run_id: str, folder: str = "") -> set[str]:
    return {each.path for each in MlflowClient(home.tracking_uri).list_artifacts(run_id, folder)}


def artifact(home: Home, run_id: str, name: str) -> pd.DataFrame:
    return pd.read_parquet(MlflowClient(home.tracking_uri).download_artifacts(run_id, name))


def retrain(name: str, frame: Any, model: dict[str, Any], **fields: Any) -> Retraining:
    spec = {"name": name, "columns": {"key": ["id"], "target": "y"}, "strategy": "KFold", "params": {"n_splits": 2}}
    return flows.retrain(frame, engine="plain", spec=spec | fields.pop("spec", {}), model=model, **fields)


def registry(home: Home) -> MlflowClient:
    return MlflowClient(home.tracking_uri)


def rollbacks(home: Home, name: str) -> list[dict[str, str]]:
    tags = registry(home).get_registered_model(name).tags
    return [json.loads(tags[tag]) for tag in sorted(tags) if tag.startswith("evenfold.rollback.")]


def aliases(home: Home, name: str) -> dict[str, str]:
    held = {alias: str(version) for alias, version in registry(home).get_registered_model(name).aliases.items()}
    assert len(set(held.values())) == len(held), held
    return held


def champion(home: Home, name: str) -> str:
    return str(registry(home).get_model_version_by_alias(name, "champion").version)


def changed(home: Home, name: str, version: str, tag: str, value: str | None = None) -> None:
    if value is None:
        registry(home).delete_model_version_tag(name, version, tag)
    else:
        registry(home).set_model_version_tag(name, version, tag, value)
    now = registry(home).get_model_version(name, version)
    sign_version(registry(home), now, now.tags)


def final_of(model: Any, key: str = "a" * 64) -> FinalModel:
    path = Home.here().shared / "models" / f"{key}.skops"
    path.parent.mkdir(parents=True, exist_ok=True)
    skops.io.dump(model, path)
    made = FinalModel(key=key, file=KeptFile(name=f"models/{key}.skops", sha256=sha256(path)), n_train=9)
    return made.model_copy(update={"signature": sign("model", made.claim)})


# The steps of a staged commit, each by the function that comes after it, and whether the month is committed by then.
STEPS = {
    "staged": ("flows.retraining", "committing", False),
    "intended": ("retraining", "_new_version", False),
    "logged": ("retraining", "plain", False),
    "unsigned": ("versions", "sign_version", False),
    "registered": ("registered.RegisteredModel", "make_champion", True),
    "replacing": ("registered.RegisteredModel", "put_aliases", True),
    "promoted": ("committing", "_finish", True),
    "renamed": ("committing", "bucket_of", True),
    "offered": ("flows.retraining", "keep_snapshot", True),
    "kept": ("retraining", "close_retraining", True),
}


def called(module: str, name: str) -> tuple[Any, str]:
    module, _, kind = module.partition(".Registered")
    place = import_module(f"evenfold.{'' if '.' in module else 'tasks.record.models.'}{module}")
    place = getattr(place, f"Registered{kind}") if kind else place
    step = getattr(place, name)
    return (step.fn, "fn") if hasattr(step, "fn") else (place, name)


class Killed(BaseException):
    """What nothing here handles, as nothing handles a kill."""


def killed_before(module: str, name: str, work: Callable[[], Any]) -> None:
    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*called(module, name), kill)
        with pytest.raises(Killed):
            work()
