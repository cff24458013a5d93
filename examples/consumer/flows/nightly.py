"""Evaluate this project's model every night, with evenfold's tasks in a flow of its own.

Run: python -m flows.nightly SOURCE TABLE
"""

from __future__ import annotations

import sys

from evenfold.tasks import RunRef, aggregate, fit_fold, record_evaluation, split
from prefect import flow, unmapped
from tasks.tables import known_at_departure


@flow
def nightly(source: str, table: str) -> RunRef:
    """Return the run in MLflow that holds the evaluation."""
    data = known_at_departure(source, table)
    folds = split(data, key="flight_id", target="arr_delay", group="date")
    scores = fit_fold.map(unmapped(folds), folds.splits(), unmapped("sklearn.linear_model:Ridge"))
    return record_evaluation(folds, aggregate(folds, scores.result()))


if __name__ == "__main__":
    print(f"recorded as run {nightly(*sys.argv[1:3]).run_id}")
