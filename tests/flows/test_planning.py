"""What ``plan`` says: which steps would be computed, and why, before anything runs; and it leaves nothing behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from evenfold.estimates.models import fit
from evenfold.flows.planning import AGAIN
from evenfold.splitters import SplitError
from evenfold.splitters.strategies.kfold import KFold
from evenfold.tasks import Home
from own_code import SHOP, edit, write
from small import evaluated, small

import evenfold

MAE = "neg_mean_absolute_error"
MODEL = {"estimator": "shop.model:make", "params": {"alpha": 1.0}, "metrics": [MAE], "features": ["a", "b"]}
SPEC: dict[str, Any] = {
    "name": "ours",
    "columns": {"key": "id", "target": "y"},
    "strategy": "KFold",
    "params": {"n_splits": 3},
}
Planted = tuple[dict[str, list[str]], dict[str, Any], Callable[[pd.DataFrame], pd.DataFrame]]


def same(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


def moved(name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda rows: rows.assign(**{name: rows[name].where(np.arange(len(rows)) != 7, -9)})


SEED, FOLDS = ["seed 0 -> 1"], ["strategy parameter n_splits 3 -> 4"]
BY_RANKS = "sklearn.preprocessing:QuantileTransformer"
SORTED, LOCKED = "SortedStratifiedKFold", ["holdout.fraction none -> 0.2", "strategy locking none -> 3"]
# Of each change: the reasons of the steps that are computed; then what is asked, and of which rows.
CHANGES: dict[str, Planted] = {
    "nothing": ({}, {}, same),
    "the order of rows": ({"audit": ["the table's file changed"]}, {}, lambda rows: rows.iloc[::-1]),
    "a column that nobody reads": ({"audit": ["the table's file changed"]}, {}, moved("note")),
    "a feature": ({"fits": ["column a changed in 1 row"]}, {}, moved("a")),
    "two columns": ({"fits": ["columns a and y changed in 1 row"]}, {}, lambda rows: moved("y")(moved("a")(rows))),
    "a row less": ({"split": ["rows 99 -> 98"], "fits": ["rows 99 -> 98"]}, {}, lambda rows: rows.iloc[:-1]),
    "a key": ({"split": ["column id changed"], "fits": ["columns a, b and y changed"]}, {}, moved("id")),
    "a new feature": (
        {"fits": ["model features a, b -> a, b, c", "new column c is read"]},
        {"features": ["a", "b", "c"]}, lambda rows: rows.assign(c=1.0),
    ),
    "a type": ({"fits": ["column b is bool, was float"]}, {}, lambda rows: rows.assign(b=rows["b"] > 0)),
    "a parameter": ({"fits": ["model parameter alpha 1.0 -> 0.5"]}, {"model_params": {"alpha": 0.5}}, same),
    "a metric": ({"fits": [f"model metrics {MAE} -> {MAE}, r2"]}, {"metrics": [MAE, "r2"]}, same),
    "the model": (
        {"fits": ["shop, shop.model, shop.features and sklearn are read no more",
                  "model estimator shop.model:make -> sklearn.linear_model:Ridge",
                  "model parameter alpha 1.0 -> none"]},
        {"model": MODEL | {"estimator": "sklearn.linear_model:Ridge"}}, same,
    ),
    "the seed": ({"split": SEED, "fits": SEED}, {"seed": 1}, same),
    "the number of folds": ({"split": FOLDS, "fits": FOLDS}, {"n_splits": 4}, same),
    "the strategy": (
        {"split": [f"strategy KFold -> {SORTED}", "new column y is read"],
         "fits": [f"strategy KFold -> {SORTED}"]}, {"strategy": SORTED}, same,
    ),
    "a holdout": ({"split": LOCKED, "fits": LOCKED}, {"holdout": 0.2}, same),
    "the level": ({"record": ["level 0.95 -> 0.9"]}, {"level": 0.9}, same),
    "the label": ({"record": ["label none -> again"]}, {"run_label": "again"}, same),
    "the interval": ({"fits": ["interval none -> nested"]}, {"interval": "nested"}, same),
    "twelve rows": (
        {"fits": ["column b changed in 12 rows"]}, {}, lambda rows: rows.assign(b=rows["b"].where(rows.index > 11, 0)),
    ),
    "a value less": (
        {"fits": ["column a changed in 1 row"]}, {},
        lambda rows: rows.assign(a=rows["a"].where(rows.index != 3)),
    ),
    "a feature less": ({"fits": ["model features a, b -> a", "column b is read no more"]}, {"features": ["a"]}, same),
    "rows to calibrate by": (
        {"split": ["calibration none -> 0.2", "strategy locking none -> 3"], "audit": ["the manifest changed"]},
        {"spec": SPEC | {"calibration": 0.2}}, same,
    ),
    "another target": (
        {"split": ["target column y -> z"],
         "fits": ["target column y -> z", "column y is read no more", "new column z is read"]},
        {"target": "z"}, lambda rows: rows.assign(z=2.0 * rows["y"]),
    ),
    "a gate": (
        {"audit": ["gate constant_target none -> off"]}, {"spec": SPEC | {"gates": {"constant_target": "off"}}}, same,
    ),
    "a transform of the target": (
        {"fits": [f"model target_transform.transformer none -> {BY_RANKS}"]}, {"target_transform": BY_RANKS}, same,
    ),
    "weights": (
        {"fits": ["model weights none -> w", "new column w is read"]}, {"model": MODEL | {"weights": "w"}},
        lambda rows: rows.assign(w=1.0),
    ),
    "to compute again": ({"split": [AGAIN], "fits": [AGAIN]}, {"refresh": True}, same),
}  # fmt: skip


def contents(home: Home) -> dict[str, int]:
    return {
        str(file): file.stat().st_mtime_ns
        for file in home.path.rglob("*")
        if file.parent.name not in ("data", "locks") and file.is_file()
    }


def test_each_planted_change_has_its_reason_and_nothing_is_written(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is silent, also before anything was run; and what is foretold is what is then found or computed."""
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, SHOP)
    request: dict[str, Any] = {"spec": SPEC, "model": MODEL, "engine": "plain"}

    def planned(change: Callable[[pd.DataFrame], pd.DataFrame] = same, **fields: Any) -> dict[str, Any]:
        steps = evenfold.plan(change(small()), **(request | fields)).steps
        assert all(bool(step.reasons) == (step.n_cached < step.n) for step in steps)
        return {step.name: step for step in steps}

    def reasons(*change: Any, **fields: Any) -> dict[str, list[str]]:
        return {name: step.reasons for name, step in planned(*change, **fields).items() if step.reasons}

    assert [why for name, why in reasons().items() if name != "record"] == [["no earlier run"]] * 3
    assert {path.name for path in home.path.iterdir()} == {"data", "mlflow.db"}  # the rows, and the store of the test
    evaluated(small(), **request)
    before, wrong = contents(home), {}
    for what, (expected, fields, change) in CHANGES.items():
        steps = reasons(change, **fields)
        read = {"split", "fits", *expected} if "fits" in expected else set(steps)  # which the others follow
        if (words := {name: each for name, each in steps.items() if name in read}) != expected:
            wrong[what] = words
    assert wrong == {}
    for target, name, step, words in (
        (sklearn, "__version__", "fits", f"scikit-learn {sklearn.__version__} -> 99"),
        (fit, "FIT_VERSION", "fits", f"evenfold's fits {fit.FIT_VERSION} -> 99"),
        (KFold, "version", "split", f"strategy version {KFold.version} -> 99"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(target, name, "99")
            assert reasons()[step] == [words]
    edit(tmp_path, "shop/features.py", "[1.0, 1.0]", "[2.0, 1.0]")
    assert reasons()["fits"] == ["shop.features changed"]
    edit(tmp_path, "shop/features.py", "[2.0, 1.0]", "[1.0, 1.0]")
    assert reasons() == {}
    assert contents(home) == before
    for what in ("nothing", "a feature", "the number of folds", "the interval"):
        _, fields, change = CHANGES[what]
        fits = planned(change, **fields)["fits"]
        run = evaluated(change(small()), **(request | fields))
        assert (fits.n, fits.n_cached) == (run.n_fits, run.n_cached)
        assert ["fitted" if state == "waiting" else state for state in fits.states] == run.states
    assert planned(n_splits=3, interval="none", run_label="x", holdout=0.2)["fits"].seconds > 0


def test_a_retraining_is_planned_with_what_would_join_and_the_model_beside_it(home: Home) -> None:
    """What is foretold of the fits is what is then computed, and nothing of the months is left."""
    recipe = {"estimator": "sklearn.linear_model:Ridge", "features": ["a", "b"], "metrics": ["r2"]}
    other = recipe | {"params": {"alpha": 5.0}}
    rows = small(90)

    def planned(n: int, model: dict[str, Any] = recipe) -> dict[str, Any]:
        before = contents(home)
        steps = evenfold.plan(rows.head(n), SPEC, model, retrain=True).steps
        assert contents(home) == before
        return {step.name: step for step in steps}

    assert planned(70)["promotion"].reasons == ["there is no champion to compare with"]
    evenfold.retrain(rows.head(70), SPEC, recipe, engine="plain")
    assert {name: step.reasons for name, step in planned(70).items() if step.reasons} == {
        "promotion": ["the recipe is that of version 1, without newer rows"]
    }
    month = planned(90, other)
    assert month["split"].reasons == ["20 rows would join ours 1.0"]
    assert month["fits"].n_cached == 0
    assert month["fits"].reasons[:2] == ["rows 70 -> 90", "model parameter alpha none -> 5.0"]
    assert "rows 70 -> 90" in month["champion"].reasons
    assert month["promotion"].reasons == ["the candidate is compared with version 1 by R2, with newer rows"]
    evenfold.retrain(rows, SPEC, other, engine="plain")
    assert [planned(90, other)[name].n_cached for name in ("split", "fits")] == [1, 3]
    with pytest.raises(SplitError, match=r"^manifest is of no use for a retraining"):
        evenfold.plan(rows, SPEC, recipe, retrain=True, manifest="ours")
