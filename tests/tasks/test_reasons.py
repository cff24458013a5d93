"""A miss says which step of a pipeline differs, and in how many rows a column has changed, without the rows of then."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from evenfold.estimates import ModelSpec
from evenfold.manifests import canonical_table
from evenfold.manifests.exchange.changes import differences
from evenfold.tasks.store import Marks, Preimage
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler


def test_frames_that_nobody_named_are_compared_with_one_another() -> None:
    folders = {Preimage(kind="split", name=f"table-{digits * 4}", parts={}).folder for digits in ("0a", "9f")}
    assert folders == {"asked/split/frame"}


def scaled(*columns: str, **params: bool) -> object:
    return make_pipeline(make_column_transformer((StandardScaler(**params), list(columns))), Ridge())


ONE, TWO = make_pipeline(StandardScaler(), Ridge()), make_pipeline(MinMaxScaler(), Ridge(alpha=2.0))
IN_COLUMNS = "model parameter steps.columntransformer.transformers.standardscaler"
PIPELINES = [
    (ONE, make_pipeline(StandardScaler(), Ridge(alpha=2.0)), ["model parameter steps.ridge.alpha none -> 2.0"]),
    (ONE, TWO, ["model parameter steps standardscaler, ridge -> minmaxscaler, ridge",
                "model parameter steps.ridge.alpha none -> 2.0"]),
    (make_pipeline(StandardScaler(), MinMaxScaler(), Ridge()), make_pipeline(MinMaxScaler(), StandardScaler(), Ridge()),
     ["model parameter steps standardscaler, minmaxscaler, ridge -> minmaxscaler, standardscaler, ridge"]),
    (scaled("a"), scaled("a", "b"), [f"{IN_COLUMNS}.columns a -> a, b"]),
    (scaled("a"), scaled("a", with_mean=False), [f"{IN_COLUMNS}.with_mean none -> False"]),
    (ONE, Ridge(), ["model estimator sklearn.pipeline:Pipeline -> sklearn.linear_model:Ridge",
                    "model parameter steps standardscaler, ridge -> none"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "now", "words"), PIPELINES)
def test_the_step_that_differs_is_named(before: object, now: object, words: list[str]) -> None:
    parts = [{"model": ModelSpec.of(each).canonical()} for each in (before, now)]
    assert sorted(differences(*parts)) == sorted(words)
    assert differences(parts[0], parts[0]) == []


def table(n: int = 5_000) -> pd.DataFrame:
    random = np.random.default_rng(0)
    words = random.choice(["a", "b", None], n)
    numbers = {"x": random.normal(size=n), "n": np.arange(n), "late": random.random(n) > 0.5}
    return pd.DataFrame(numbers | {"word": words, "at": pd.date_range("2026", periods=n, freq="h")})


def marks(frame: pd.DataFrame) -> Marks:
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    return Marks.of(canonical_table(arrow, arrow.column_names, {}), "positions")


@pytest.mark.parametrize("n", [0, 1, 12, 20, 700])
@pytest.mark.parametrize(
    ("column", "other"), [("x", 1e9), ("x", np.nan), ("n", -1), ("word", "c"), ("at", pd.Timestamp("1999"))]
)
def test_changed_rows_are_counted_and_above_twenty_estimated(column: str, other: object, n: int) -> None:
    """Wherever they are: the first ones, which are neighbours, or any."""
    frame = table()
    for rows in (np.arange(n), np.random.default_rng(1).choice(len(frame), n, replace=False)):
        now = frame.copy()
        now.loc[rows, column] = other
        *_, number, unit = marks(frame).changed(marks(now), frame.columns).split(" ")
        assert unit == ("row" if n == 1 else "rows")
        assert float(number) == (n if n <= 20 else pytest.approx(n, rel=0.1))


def test_where_keys_differ_nothing_is_counted_and_many_rows_are_most() -> None:
    frame = table()
    assert marks(frame).changed(marks(-frame[["x", "n"]]), ["x"]) == "in more than 2,000 rows"
    assert marks(frame.head(300)).changed(marks(-frame[["x"]].head(300)), ["x"]) == "in most rows"
    assert marks(frame).changed(marks(frame.head(9)), ["x"]) == ""
    assert marks(frame).changed(marks(frame).model_copy(update={"keys": "others"}), ["x"]) == ""
