"""A model of one's own project: its code is part of what was evaluated, and a changed one is another run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from evenfold.tasks import Home
from own_code import SHOP, edit, write
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from small import evaluated, named, small

MODEL = {"estimator": "shop.model:make", "metrics": ["r2"], "features": ["a", "b"]}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, SHOP)
    small().to_parquet(tmp_path / "small.parquet")
    return tmp_path


def bare(outcome: object, factor: list[float]) -> float:
    """Return the pooled R2 of a loop over the same folds."""
    table = small().set_index("id").sort_index()
    said = np.empty(len(table))
    for train, test in outcome.split.manifest().pairs():  # type: ignore[attr-defined]
        X = table[["a", "b"]] * factor
        said[test] = Ridge().fit(X.iloc[train], table["y"].iloc[train]).predict(X.iloc[test])
    return float(r2_score(table["y"], said))


def test_a_changed_transformer_is_another_score_and_another_run(shop: Path, home: Home) -> None:
    """Also where it is computed anew; a comment is neither, and the way back finds the first one."""
    data = shop / "small.parquet"
    first = evaluated(data, model=MODEL)
    assert first.estimates[0].value == pytest.approx(bare(first, [1.0, 1.0]))
    edit(shop, "shop/features.py", "return X", "# as it is\n        return X")
    again = evaluated(data, model=MODEL)
    assert (again.n_cached, again.run_id, again.since) == (3, first.run_id, "")
    edit(shop, "shop/features.py", "[1.0, 1.0]", "[0.0, 1.0]")
    other = evaluated(data, model=MODEL, refresh=True)
    assert other.n_cached == 0
    assert other.run_id != first.run_id
    assert other.estimates[0].value == pytest.approx(bare(first, [0.0, 1.0])) != first.estimates[0].value
    assert other.since == f"shop.features changed since run {first.run_id[:8]}"
    assert len(named(home, "make @ small 1.0")) == 2
    edit(shop, "shop/features.py", "[0.0, 1.0]", "[1.0, 1.0]")
    back = evaluated(data, model=MODEL)
    assert (back.n_cached, back.run_id) == (3, first.run_id)
    assert back.estimates == first.estimates
