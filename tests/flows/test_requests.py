"""What a request asks for is done, or refused by a sentence before anything is fitted: nothing is dropped."""

from functools import cache
from typing import Any

import pytest
from evenfold.estimates import ModelError, ModelSpec
from evenfold.flows import evaluate, split, tune
from evenfold.manifests import specification
from evenfold.manifests.fields import LockedPart
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from sklearn.tree import DecisionTreeClassifier
from tables import rows

RIDGE = "sklearn.linear_model:Ridge"
GRID = {"alpha": [0.1, 10.0]}
FIELDS = {"strategy": "KFold", "n_splits": 10, "seed": 0, "target": "other", "holdout": 0.2, "name": "mine"}


@cache
def _made(shared_home: Home) -> str:
    asked: dict[str, Any] = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 3, "engine": "plain"}
    return str(split(rows(60), name="made", **asked).split.uri)


@pytest.fixture
def made(shared_home: Home) -> str:
    return _made(shared_home)


@pytest.fixture
def no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("evaluation", "tuning"):
        monkeypatch.setattr(f"evenfold.flows.{place}.fit_splits", lambda *_, **__: pytest.fail("something was fitted"))


def asked(flow: Any, **fields: Any) -> Any:
    more = {"grid": GRID} if flow is tune else {}
    return flow(rows(60), **({"model": RIDGE, "metrics": ["r2"], "engine": "plain"} | more | fields))


def test_a_field_of_the_split_beside_a_manifest_is_refused(made: str, no_fit: None) -> None:
    """It was dropped without a word; a seed of 0 is one that is given, and an empty field is none."""
    for flow, field in [(tune, "seed"), *((evaluate, field) for field in (*FIELDS, "spec"))]:
        with pytest.raises(SplitError, match=rf"^{field} is of no use for a split that is there .*; leave it out"):
            asked(flow, manifest=made, **{field: FIELDS.get(field, {"strategy": "KFold"})})
    with pytest.raises(
        SplitError, match=r"^target, strategy, n_splits, seed, name and holdout are of no use for a split"
    ):
        asked(evaluate, manifest=made, params={}, stratify=[], **FIELDS)


def test_a_look_refuses_what_only_folds_take(shared_home: Home) -> None:
    look = {"on": "holdout", "reason": "final", "key": "id", "target": "y", "holdout": 0.2, "name": "looked"}
    of_folds = {"run_label": "mine", "log_models": "final", "allow_partial": True}
    of_folds["build"] = "sklearn.preprocessing:scale"
    for field, value in of_folds.items():
        with pytest.raises(SplitError, match=rf"^{field} is of no use for a look .*; leave it out"):
            asked(evaluate, **look, **{field: value})
    assert not list(shared_home.splits.glob("looked*"))


def test_a_share_beside_a_holdout_leaves_its_budget_and_seed_as_they_are() -> None:
    locked = {"fraction": 0.2, "seed": 7, "budget": 5}
    assert specification("rows.csv", {"holdout": locked}, holdout=0.3).holdout == LockedPart(
        **locked | {"fraction": 0.3}
    )
    assert specification("rows.csv", {"holdout": None}, holdout=0.3).holdout == LockedPart(fraction=0.3)


def test_a_model_of_classes_has_a_split_by_classes() -> None:
    """A split alone takes 25 whole numbers for numbers, as a regressor does; a strategy that is named stays."""
    frame = rows(300).assign(y=lambda table: table["id"] % 25)
    for more, strategy in [
        ({"model": DecisionTreeClassifier()}, "StratifiedKFold"),
        ({"task": "classification"}, "StratifiedKFold"),
        ({"task": "classification", "parts": {"train": 0.8, "test": 0.2}}, "StratifiedSplit"),
        ({"task": "classification", "strategy": "KFold"}, "KFold"),
        ({"task": "classification", "stratify": ["a"]}, None),
        ({"model": RIDGE}, None),
    ]:
        request = evaluate.request_type.called((frame,), {"target": "y", **more})
        assert request.specification.strategy == strategy, more


def test_a_manifest_without_locked_rows_is_refused_before_anything_is_fitted(made: str, no_fit: None) -> None:
    with pytest.raises(SplitError, match=r"nothing is locked, so there is no holdout"):
        asked(tune, manifest=made, on="holdout", reason="final")


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        ({"exclude": ["a"]}, {"exclude": []}, {"exclude": ()}),
        ({"metrics": ["mae"]}, {"metrics": []}, {"metrics": ()}),
        ({"positive": "no"}, {"positive": ""}, {"positive": ""}),
        ({"threshold": 0.3}, {"threshold": None}, {"threshold": 0.3}),
        ({"params": {"alpha": 1}}, {"model_params": {}}, {"params": {"alpha": 1}}),
        (
            {},
            {"threshold": "0.3", "balance": "class_weight"},
            {"threshold": 0.3, "balance": {"method": "class_weight"}},
        ),
    ],
    ids=["exclude", "metrics", "positive", "threshold", "params", "options"],
)
def test_a_field_of_the_model_that_is_given_is_taken_even_if_it_is_empty(before: Any, given: Any, after: Any) -> None:
    """An empty list names nothing, and None leaves the field as it was; both left it."""
    request = evaluate.request_type.read({"data": "rows.parquet", "model": {"estimator": RIDGE} | before, **given})
    assert request.recipe == ModelSpec(estimator=RIDGE, **after)


def test_an_empty_list_of_features_is_refused_before_anything_is_fitted(shared_home: Home, no_fit: None) -> None:
    with pytest.raises(ModelError, match=r"^no feature is left: .*list at least one"):
        asked(evaluate, key="id", target="y", features=[])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"metric": "accuracy"}, "cannot score this regression target"),
        ({"grid": {"alpah": [1]}}, "did you mean 'alpha'"),
        ({"grid": {"max_itre": [1]}, "model": None}, "did you mean 'max_iter'"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_a_split(shared_home: Home, no_fit: None, more: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        asked(tune, key="id", target="y", name="untuned", **more)
    assert not list(shared_home.splits.glob("untuned*"))


def test_a_tuning_chooses_by_the_metric_that_is_named(shared_home: Home) -> None:
    """By an alias, and by one that the model does not name: it is scored as well."""
    tuned, alone = (
        asked(tune, key="id", target="y", n_splits=2, metrics=metrics, metric="mae") for metrics in (["r2"], ["mae"])
    )
    assert tuned.metric == "neg_mean_absolute_error"
    assert (tuned.scores, tuned.chosen) == (alone.scores, alone.chosen)
