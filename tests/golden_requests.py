"""Eight requests whose whole record is pinned: every metric, tag, parameter and identity that MLflow and Python show.

``.venv/bin/python tests/golden_requests.py`` writes them anew, which is right only where numbers change on purpose.
Trees learn them, whose sums are elementwise: no BLAS decides the last digit.
"""

import dataclasses
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

FILE = Path(__file__).with_suffix(".json")
TREE = {"estimator": "sklearn.tree:DecisionTreeRegressor", "params": {"max_depth": 3, "random_state": 0}}
CLASSES = {"estimator": "sklearn.tree:DecisionTreeClassifier", "params": {"max_depth": 3, "random_state": 0}}
STUMP = {"estimator": "sklearn.tree:DecisionTreeRegressor", "params": {"max_depth": 1, "random_state": 0}}
# What a run is called by its machine, its hour or its neighbours, and not by what was asked.
PASSING = re.compile(
    r"run_id|run_key|^mlflow\.(user|source|runColor|log-model|note)|prefect|seconds|process|memory|recorded$|opened$|decision$|signature$|look_by|look_digest|uri$|\bruns?$|url|home"
)


def rows(n: int = 240, start: int = 0) -> pd.DataFrame:
    """Return visits from a key on: sites of eight rows, two targets, two numbers, a kind of three levels, a time."""
    draw = np.random.Philox(7).random_raw(4 * 400).reshape(4, 400) / 2.0**64
    a, b, noise, kind = draw[:, start : start + n].round(3)
    keys = np.arange(start, start + n)
    y = (a - b + 0.4 * noise).round(3)
    return pd.DataFrame(
        {
            "id": keys * 3,
            "site": [f"site {i // 8:02d}" for i in keys],
            "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(keys, unit="h"),
            "a": a,
            "b": b,
            "kind": np.where(kind < 0.5, "plain", np.where(kind < 0.8, "odd", "rare")),
            "y": y,
            "late": np.where(y > 0.35, "yes", "no"),
        }
    )


def requests() -> dict[str, Any]:
    """Return the eight by name, each of them run when it is called; some rest on what the ones before recorded."""
    from evenfold import flows

    plain: dict[str, Any] = {"engine": "plain", "key": "id", "exclude": ["late"]}
    grown = {**plain, "group": "site", "target": "y", "name": "grown", "n_splits": 3, "gates": False}
    return {
        "grouped": lambda: flows.evaluate(rows(), target="y", group="site", model=TREE, name="grouped", **plain),
        "classes": lambda: flows.evaluate(
            rows(), target="late", model=CLASSES, name="classes", n_splits=4,
            metrics=["roc_auc", "accuracy", "neg_log_loss"],
            interval="corrected_t", engine="plain", key="id", exclude=["y"],
        ),
        "bootstrap": lambda: flows.evaluate(
            rows(), target="y", strategy="Bootstrap", n_splits=25, model=TREE, name="bootstrap", **plain
        ),
        "forward": lambda: flows.evaluate(
            rows(), target="y", time="when", strategy="ForwardChaining", model=TREE, name="forward", **plain
        ),
        "locked": lambda: [
            flows.evaluate(rows(), target="y", holdout=0.2, model=TREE, name="locked", **plain),
            flows.evaluate(
                rows(), manifest="locked", model=TREE, exclude=["late"], on="holdout", reason="at last", engine="plain"
            ),
        ],
        "tuned": lambda: flows.tune(
            rows(), target="y", model=TREE, grid={"max_depth": [1, 2]}, nested=True, name="tuned", n_splits=3, **plain
        ),
        "retrained": lambda: [
            flows.retrain(rows(200), model=STUMP, **grown),
            flows.retrain(rows(240), model=TREE, **grown),
        ],
        "compared": lambda: flows.compare(
            flows.evaluate(rows(), target="y", group="site", model=TREE, name="grouped", **plain),
            flows.evaluate(rows(), target="y", group="site", model=STUMP, name="grouped", **plain),
            repeats=2,
            engine="plain",
        ),
    }  # fmt: skip


def record() -> dict[str, Any]:
    from evenfold.tasks import Home
    from mlflow.tracking import MlflowClient

    results = {name: request() for name, request in requests().items()}
    client = MlflowClient(Home.here().tracking_uri)
    places = [each.experiment_id for each in client.search_experiments()]
    runs = [
        {
            "name": run.info.run_name,
            "status": run.info.status,
            "metrics": {
                name: _digits(value) for name, value in sorted(run.data.metrics.items()) if not PASSING.search(name)
            },
            "params": {
                name: _same(value) for name, value in sorted(run.data.params.items()) if not PASSING.search(name)
            },
            "tags": {name: _same(value) for name, value in sorted(run.data.tags.items()) if not PASSING.search(name)},
        }
        for run in client.search_runs(places, max_results=1000)
    ]
    versions = [
        {"name": v.name, "version": str(v.version), "aliases": sorted(v.aliases)}
        for v in client.search_model_versions()
    ]
    return {
        "compared": [_plain(dataclasses.asdict(each)) for each in results["compared"]],
        "runs": sorted(runs, key=lambda run: json.dumps(run, sort_keys=True)),
        "versions": sorted(versions, key=lambda v: (v["name"], v["version"])),
    }  # fmt: skip


def _digits(value: float) -> Any:
    # The last bits of a logarithm are the C library's.
    return value if value != value or value == int(value) else float(f"{value:.11g}")


def _same(value: str) -> str:
    """Return a text without the names of runs; identities of splits and plans are 64 digits or a part, and stay."""
    return re.sub(r"\b[0-9a-f]{32}\b", "RUN", value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if not PASSING.search(name)}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return _digits(value) if isinstance(value, float) else _same(value) if isinstance(value, str) else value


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"EVENFOLD_HOME": home, "OMP_NUM_THREADS": "1"}
        FILE.write_text(json.dumps(record(), indent=1, sort_keys=True) + "\n")
