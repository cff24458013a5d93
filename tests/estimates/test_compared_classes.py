"""Classes that only a model knows are classes all the same: no prediction is taken for another."""

from __future__ import annotations

from typing import Any

import evaluations
import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelError, compare
from evenfold.estimates.metrics.record import codes_of
from evenfold.estimates.pairing import classes_of


def frame_of(y: Any, prediction: Any, **columns: Any) -> pd.DataFrame:
    return evaluations.frame_of(y, prediction, np.arange(len(y)) % 5, **columns)


@pytest.mark.parametrize(
    ("truth", "wrong", "said"),
    [(["a", "c"], "c", "b"), (["no", "up"], "no", "not sure"), ([1, 3], 3, 2), ([1, 3], 1, 1.5), ([0, 1], 1, -1)],
)
def test_a_class_that_no_row_is_of_is_a_wrong_prediction(truth: list[Any], wrong: Any, said: Any) -> None:
    y = np.array(truth * 50)
    wrong_half = pd.Series(y).astype(object).where(y != wrong, said).infer_objects()
    made = compare(frame_of(y, wrong_half), frame_of(y, y), "accuracy")
    assert (made.a, made.b) == (0.5, 1.0)
    assert "A alone is right on 0 rows and B alone on 50" in made.notes[0]
    assert made.se[0] > 0.04


def test_the_probabilities_of_a_class_that_no_row_is_of_count() -> None:
    """Of three columns of probabilities one is of a class that the target lacks, and B does not know it at all."""
    rng, y = np.random.default_rng(0), np.array(["a", "c"] * 50)
    chances = rng.dirichlet([2, 2, 2], 100)
    three = {f"proba_{label}": chances[:, j] for j, label in enumerate("abc")}
    two = {"proba_a": chances[:, 0] + chances[:, 1], "proba_c": chances[:, 2]}
    frames = frame_of(y, y, **three), frame_of(y, y, **two)
    for metric in ("neg_log_loss", "neg_brier_score"):
        found, given = (compare(*frames, metric, classes=each) for each in (None, ("a", "b", "c")))
        assert (found.a, found.b, found.se) == (given.a, given.b, given.se)
    lost = -np.log(np.where(y == "a", two["proba_a"], two["proba_c"]))
    assert compare(*frames, "neg_log_loss").b == pytest.approx(-lost.mean())
    with pytest.raises(ModelError, match=r"roc_auc_ovr is undefined on these 100 rows: Number of classes in y_true"):
        compare(*frames, "roc_auc_ovr")


@pytest.mark.parametrize(
    ("own", "labels"), [("proba_max", ("no", "perhaps", "yes")), ("decision_threshold", ("no", "yes"))]
)
def test_a_column_of_ones_own_is_no_class(own: str, labels: tuple[str, ...]) -> None:
    rng, y = np.random.default_rng(0), np.array(labels)[np.arange(120) % len(labels)]
    chances = rng.dirichlet([2] * len(labels), 120)
    frame = frame_of(y, y, **{f"proba_{label}": chances[:, j] for j, label in enumerate(labels)})
    for plain in (frame, frame_of(y, y)):
        given = plain.assign(**{own: 0.3})
        assert compare(given, plain, "matthews_corrcoef") == compare(plain, plain, "matthews_corrcoef")
        assert classes_of("accuracy", given, plain, ("A", "B")) == labels


def test_labels_in_shorter_floats_are_the_same_labels() -> None:
    y = np.array([0.1, 0.2] * 50)
    shorter, longer = frame_of(y, y.astype(np.float32)), frame_of(y, y)
    made = compare(shorter, longer, "accuracy")
    assert (made.a, made.b) == (1.0, 1.0)
    assert classes_of("accuracy", shorter, longer, ("A", "B")) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("labels", "classes", "said"),
    [
        (["no", "not sure", "up"], ("no", "up"), "1 of 3 labels is not among 2 classes ('no', 'up'), such as 'not "),
        ([1.0, 1.5, np.nan], (1, 2), "2 of 3 labels are not among 2 classes (1, 2), such as 1.5"),
        ([1.0, 1.5, np.nan], ("1", "2"), "2 of 3 labels are not among 2 classes ('1', '2'), such as '1.5'"),
    ],
)
def test_a_label_that_is_no_class_is_refused(labels: Any, classes: Any, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        codes_of(np.asarray(labels), classes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array([True, False], dtype=object), (False, True)),
        (np.array([1.0, 0.0]), (0, 1)),
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        (np.array([1, 0]), (False, True)),
        (np.array([1.0, 0.0]), ("0", "1")),
        (np.array([1.0, 0.0]), ("0.0", "1.0")),
        (np.array([0.2, 0.1], dtype=np.float32), (0.1, 0.2)),
    ],
)
def test_a_label_is_the_class_that_it_equals(labels: Any, classes: Any) -> None:
    assert codes_of(labels, classes).tolist() == [1, 0]


def test_labels_of_two_kinds_are_refused() -> None:
    y = np.array([0, 1] * 10)
    with pytest.raises(ModelError, match="A and B name classes by numbers and by text"):
        compare(frame_of(y, y.astype(str)), frame_of(y, y), "accuracy")


@pytest.mark.parametrize(
    ("lacks", "how"),
    [("A", {"groups": "clinic"}), ("B", {"on": ["clinic"]}), ("A and B", {"groups": "clinic", "on": ["row"]})],
)
def test_a_column_that_one_frame_lacks_is_named_with_what_both_have(lacks: str, how: dict[str, Any]) -> None:
    """It ended in a KeyError."""
    frames = [frame_of([0, 1] * 9, [0, 1] * 9, clinic=0) for _ in "AB"]
    a, b = (frame.drop(columns="clinic" if name in lacks else []) for name, frame in zip("AB", frames, strict=True))
    with pytest.raises(ModelError) as raised:
        compare(a, b, "accuracy", **how)
    both = "row, repeat, fold, y, prediction"
    assert str(raised.value) == f"{lacks} {'have' if 'and' in lacks else 'has'} no column 'clinic'; both have {both}."
