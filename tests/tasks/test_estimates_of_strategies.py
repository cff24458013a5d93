"""Whatever the strategy and the metric, the value lies in the interval beside it."""

from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import CASES
from evaluations import LOGISTIC, RIDGE, normals
from evenfold.estimates import METRICS, Estimate
from evenfold.splitters import LeaveOneOut, PredefinedPairs, Splitter, all_strategies
from evenfold.splitters.conformance import trial_of
from evenfold.tasks import aggregate, fit_fold, split

# A pooled score and a mean over rows, and with numbers an extreme; tests/estimates/test_values.py asks the same of
# every metric.
CLASSES = ["balanced_accuracy", "neg_brier_score"]
NUMBERS = ["r2", "neg_mean_absolute_error", "neg_max_error"]


def one_of_each() -> list[Splitter]:
    halves = [list(range(30)), list(range(30, 60))]  # the pairs of the cases have too few rows to train on
    first: dict[str, Splitter] = {"PredefinedPairs": PredefinedPairs([(halves[0], halves[1]), (halves[1], halves[0])])}
    for splitter in CASES:
        if not any(isinstance(value, Splitter) for value in splitter.get_params(deep=False).values()):
            first.setdefault(type(splitter).__name__, splitter)
    return [splitter for name, splitter in first.items() if name != "Holdout"]


def table(splitter: Splitter, n: int = 60) -> tuple[pd.DataFrame, dict[str, Any]]:
    roles = {role: values for role, values in trial_of(splitter, n).columns.items() if role != "X"}
    frame = pd.DataFrame({"id": np.arange(n), "x": normals(n, 1)})
    frame["number"], frame["kind"] = frame["x"] + normals(n, 2), (frame["x"] + normals(n, 3) > 0).astype(int)
    columns: dict[str, Any] = {"key": "id"}
    for role, values in roles.items():
        many = np.asarray(values).ndim > 1
        names = [f"{role} {i}" for i in range(values.shape[1])] if many else [role]
        frame[names] = values if many else np.asarray(values).reshape(-1, 1)
        columns |= {{"groups": "group", "y": "stratify", "fixed": "fold"}.get(role, role): names if many else names[0]}
    return frame, columns | {"key": "key" if "key" in roles else "id"}


def estimates(splitter: Splitter, target: str, estimator: str, metrics: list[str]) -> list[Estimate]:
    frame, columns = table(splitter, 12 if isinstance(splitter, LeaveOneOut) else 60)  # of which each row is a fit
    model = {"estimator": estimator, "features": ["x"], "metrics": metrics}
    spec = {"name": "rows", "columns": columns | {"target": target}, "strategy": type(splitter).__name__}
    params = {name: value for name, value in splitter.get_params(deep=False).items() if name != "random_state"}
    if "n_splits" in params:  # of which each is a fit too: this many have an interval as more have
        params["n_splits"] = 6 if "Bootstrap" in type(splitter).__name__ else 3
    ref = split.fn(frame, spec=spec | {"params": params})
    if ref.kind == "draws":
        results: list[Any] = [fit_fold.fn(ref, (0, ref.n_splits), model)]
        return aggregate.fn(ref, results, apparent=fit_fold.fn(ref, "all rows", model)).estimates
    return aggregate.fn(ref, [fit_fold.fn(ref, fold, model) for fold in ref.splits()]).estimates


KINDS = [("kind", LOGISTIC, CLASSES), ("number", RIDGE, NUMBERS)]
ASKED = [(splitter, KINDS[place % 2]) for place, splitter in enumerate(one_of_each())]


@pytest.mark.parametrize(("splitter", "asked"), ASKED, ids=[type(splitter).__name__ for splitter, _ in ASKED])
def test_the_value_lies_in_its_interval(
    splitter: Splitter, asked: tuple[str, str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or there is no interval, with a note that says why; and the interval lies within what the metric can be."""
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path))
    made = estimates(splitter, *asked)
    assert {estimate.metric for estimate in made} == set(asked[2])
    if "past_before_future" in splitter.promises or splitter.promises >= {"purged", "exhaustive"}:
        assert any("stretches" in f"{estimate.notes} {estimate.interval}" for estimate in made), "rows depend on others"
    for estimate in made:
        if estimate.interval is None:
            assert estimate.notes, estimate
            continue
        metric = METRICS[estimate.metric]
        low, high = estimate.interval.low, estimate.interval.high
        assert isfinite(low)
        assert metric.low <= low <= estimate.value <= high <= metric.high, estimate


def test_every_strategy_is_asked() -> None:
    assert {type(splitter).__name__ for splitter in one_of_each()} == set(all_strategies()) - {"Holdout"}
