"""The main job on real data, in two halves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenfold.flows import evaluate
from evenfold.splitters import SplitError
from sklearn.datasets import load_breast_cancer

from .show import consoles, progress, show_evaluation

FLIGHTS = "examples/flights.parquet"
FEATURES = ("time_hour", "month", "wday", "hour", "minute", "distance", "carrier", "origin", "dest")


def run_demo(engine: Any, as_json: bool = False) -> None:
    """Evaluate one model on flights under random folds and under whole dates, then .632 on breast cancer.

    With ``as_json`` the three outcomes are printed as one JSON list, and nothing else is.
    """
    out, err = consoles()
    out.quiet = as_json
    if not Path(FLIGHTS).exists():
        raise SplitError(f"there is no {FLIGHTS} here; run the demo in a checkout of evenfold.")
    say_why = "[bold]1. Arrival delays of 20,000 flights, without the departure delay.[/]"
    out.styled(f"{say_why} Rows of one date share weather and queues.\n")
    fields: dict[str, Any] = {
        "key": "flight_id", "target": "arr_delay", "features": FEATURES, "metrics": ("r2", "mae"),
        "model": {"text": "ordinal"},
    }  # fmt: skip
    evaluations = []
    for name, strategy, group in (("flights-random", "KFold", None), ("flights-by-date", None, "date")):
        with progress(err):
            evaluations.append(evaluate(FLIGHTS, engine=engine, name=name, strategy=strategy, group=group, **fields))
        show_evaluation(out, evaluations[-1])
        out.print()
    random, grouped = (outcome.estimates[0].value for outcome in evaluations)
    out.print(
        f"Random folds promise R2 = {random:.3f}; dates that the model has never seen give {grouped:.3f}. "
        "The difference is the leak.\n"
    )
    out.styled("[bold]2. Breast cancer, 569 rows: 200 bootstrap resamples and .632.[/]\n")
    frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
    frame.insert(0, "patient", range(1, len(frame) + 1))
    with progress(err):
        evaluations.append(evaluate(
            frame, engine=engine, name="breast-cancer", key="patient", target="benign", strategy="Bootstrap",
            n_splits=200, model="evenfold.estimates:scaled_logistic_regression", metrics=("accuracy", "roc_auc"),
        ))  # fmt: skip
    show_evaluation(out, evaluations[-1])
    if as_json:
        consoles()[0].print_json(data=[json.loads(each.model_dump_json()) for each in evaluations])
