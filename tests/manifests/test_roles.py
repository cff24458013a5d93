"""A column that plays two parts which exclude each other is refused in a sentence, before any row is looked at."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from evenfold.manifests import decide
from evenfold.splitters import SplitError

TABLE = pd.DataFrame({"row": range(60), "customer": [i // 4 for i in range(60)], "amount": [i % 7 for i in range(60)]})
COLUMNS = {"key": "row", "target": "amount", "group": "customer"}
STRATEGY: dict[str, Any] = {
    "fold": {"strategy": "Predefined"},
    "coordinates": {"strategy": "SpatialBlockKFold", "params": {"block_size": 3}},
}


@pytest.mark.parametrize("role", ["key", "time", "fold", "coordinates"])
def test_a_target_plays_no_other_part(role: str) -> None:
    """Whatever else a target may be named as, it is told in a sentence."""
    columns: dict[str, Any] = {"target": "amount", role: ["amount", "row"] if role == "coordinates" else "amount"}
    with pytest.raises(SplitError, match=f"'amount' is named as target and as {role}; name the column to predict"):
        decide({"columns": columns, **STRATEGY.get(role, {})}, TABLE)


def test_a_key_is_no_group() -> None:
    with pytest.raises(SplitError, match=r"'row' is named as key and as group, so every row is its own group"):
        decide({"columns": COLUMNS | {"group": "row"}}, TABLE)
    with pytest.raises(SplitError, match="'row' is named as key and as group"):
        decide({"columns": COLUMNS | {"group": ["customer", "row"]}}, TABLE)
    assert decide({"columns": COLUMNS | {"key": ["customer", "row"]}}, TABLE).n == 60
