"""One column of a target is the same kind to a bare strategy, to a specification and to a model."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import infer_task
from evenfold.manifests import decide
from evenfold.splitters import BalancedKFold, Rows, SplitError, StratifiedKFold

ROWS = np.arange(200)
COLUMNS = {
    "20 integers": (ROWS % 20, False),
    "21 integers": (ROWS % 21, True),
    "3 whole floats": (ROWS % 3 * 1.0, False),
    "3 fractions, late": (np.where(ROWS < 190, 1.0, ROWS % 3 / 2), True),
    "fractions": (ROWS * 37 % 101 / 8, True),
    "booleans": (ROWS % 3 == 0, False),
    "text": (np.array(["a", "b", "c"])[ROWS % 3], False),
}


@pytest.mark.parametrize(("values", "numeric"), COLUMNS.values(), ids=list(COLUMNS))
def test_a_target_is_numbers_or_classes_to_everybody(values: np.ndarray, numeric: bool, tmp_path: Path) -> None:
    rows = pd.DataFrame({"k": ROWS, "g": ROWS // 5, "y": values})
    assert Rows.of(y=values, needs=BalancedKFold.needs).y_holds == ("numbers" if numeric else "classes")
    assert infer_task(pd.Series(values)) == ("regression" if numeric else "classification")
    strategy = decide({"columns": {"target": "y"}}, rows).spec.strategy
    assert strategy == ("SortedStratifiedKFold" if numeric else "StratifiedKFold")
    manifest = decide({"columns": {"target": "y"}, "strategy": "BalancedKFold"}, rows)
    assert np.array_equal(manifest.codes, BalancedKFold().assign(y=values))
    assert manifest.algorithm.get("classes") == (2 if values.dtype.kind == "f" and not numeric else None)
    spec = {"columns": {"key": "k", "group": "g", "target": "y"}, "params": {"effort": 1}}
    assert decide(spec, rows, engine="duckdb", to=tmp_path / "split").plan_id == decide(spec, rows).plan_id


def test_rows_say_what_y_holds() -> None:
    assert Rows.of(y=np.zeros((4, 2)), needs=BalancedKFold.needs).y_holds == "columns"
    assert Rows.of(np.zeros((4, 1)), needs=BalancedKFold.needs).y_holds == "nothing"


@pytest.mark.parametrize(
    ("n_classes", "rows", "refused"), [(100, 5, False), (101, 5, True), (101, 10, False), (102, 9, True)]
)
def test_so_many_classes_may_be_texts(n_classes: int, rows: int, refused: bool) -> None:
    y = np.tile([f"street {i}" for i in range(n_classes)], rows)
    with pytest.raises(SplitError, match="those are not classes") if refused else nullcontext():
        StratifiedKFold(5).split(y, y)


@pytest.mark.parametrize(("days", "refused"), [(20, False), (21, True)])
def test_so_many_classes_may_look_like_dates(days: int, refused: bool) -> None:
    y = np.tile([f"2026-01-{day:02d}" for day in range(1, days + 1)], 5)
    with pytest.raises(SplitError, match="those are not classes") if refused else nullcontext():
        StratifiedKFold(5).split(y, y)


@pytest.mark.parametrize(("fewest", "choice"), [(1, "choose rare="), (2, "choose n_splits of at most 2, or rare=")])
def test_a_rare_class_says_how_many_folds_it_allows(fewest: int, choice: str) -> None:
    with pytest.raises(SplitError, match=rf"class 'b' has {fewest} of 20 rows, fewer than n_splits=5; {choice}"):
        StratifiedKFold(5).split(np.zeros(20), ["b"] * fewest + ["a"] * (20 - fewest))
