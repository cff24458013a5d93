"""Retrain on folds that another project decided.

Run: python -m flows.retrain DATA NAME[@VERSION] [picture.png [DEPLOYMENT]]
"""

from __future__ import annotations

import sys
from typing import Any

from matplotlib.figure import Figure
from prefect import flow
from tasks.models import fold_error

from tasks.splits import ask_for_split, fetched, shared_split

COLUMNS = {"key": ["flight_id"], "target": "arr_delay", "group": "date"}


@flow(name="consumer-retrain")
def retrain(data: str, spec: str, deployment: str | None = None) -> dict[str, Any]:
    """Return the split that was found and the error of each of its folds; ``deployment`` is asked to split first."""
    if deployment is not None:
        ask_for_split(deployment, data, spec.partition("@")[0], COLUMNS)
    found = shared_split(spec)
    return {**found, "errors": [fold_error(data, found, fold) for fold in range(fetched(found).n_splits)]}


def picture(errors: list[float], path: str) -> None:
    """Draw the error of each fold."""
    figure = Figure(figsize=(7, 3), layout="constrained", dpi=120)
    axes = figure.subplots()
    axes.bar(range(len(errors)), errors, color="#0072B2")
    axes.axhline(sum(errors) / len(errors), color="black", linestyle="--", linewidth=1)
    axes.set(xlabel="fold (number)", ylabel="mean absolute error (minutes)", title="Ridge on another project's folds")
    figure.savefig(path)


if __name__ == "__main__":
    data, spec, path, deployment = [*sys.argv[1:], *["consumer.png", None][len(sys.argv) - 3 :]]
    told = retrain(data, spec, deployment)
    picture(told["errors"], path)
    print(path)
    source = f"came from {deployment}" if deployment else "was found by its tag"
    print(f"The split {spec} {source} and is {told['split_id'][:16]}, as its manifest proves.")
    errors = told["errors"]
    mean = sum(errors) / len(errors)
    print(f"On its {len(errors)} folds this project's model is off by {mean:.1f} minutes on average.")
    print("The publishing project's folder was not needed, nor its order of rows.")
