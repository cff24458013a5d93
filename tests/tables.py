"""A table with a column for everything that a strategy may need, and the specification that a splitter stands for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import Audit, Manifest, decide
from evenfold.splitters import Needs, Splitter
from hypothesis import strategies as st

TYPES = {"id": "int", "number": "float", "label": "text", "group": "text", "when": "timestamp"}

# Parameters of strategies that many a test of the exchange splits by.
REPEATED = {"strategy": {"strategy": "KFold", "params": {"n_splits": 4}}, "n_repeats": 3}
PARTS = {"parts": {"train": 0.6, "validation": 0.2, "test": 0.2}}


def table(n: int = 97, seed: int = 0) -> pd.DataFrame:
    """Return ``n`` rows: a key, numbers, classes, groups, times, and two columns that no strategy reads."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": rng.permutation(n) * 7 - 50,
            "number": rng.lognormal(size=n).round(4),
            "label": rng.permutation(np.resize(["é", "b", "é", "c", "é", "b"], n)),
            "group": [f"group {i}" for i in rng.permutation(np.resize(np.arange(max(n // 4, 6)), n))],
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="h"),
            "unread": rng.normal(size=n),
            "flag": rng.random(n) < 0.5,
            "east": rng.uniform(0, 10, n).round(2),
            "north": rng.uniform(0, 10, n).round(2),
        }
    )


def spec_of(splitter: Splitter, target: str | None = None) -> dict[str, Any] | None:
    if not isinstance(splitter.needs, Needs) or getattr(splitter.needs, "fixed", False):
        return None
    columns = {"key": "id", "target": target or ("label" if splitter.needs.y in ("classes", "any") else "number")}
    columns |= {"group": "group"} if splitter.needs.groups is True else {}
    columns |= {"time": "when"} if splitter.needs.time else {}
    columns |= {"coordinates": ["east", "north"]} if splitter.needs.coordinates else {}
    params = {name: value for name, value in splitter.get_params(deep=False).items() if name != "random_state"}
    try:
        params = json.loads(json.dumps(params))
    except TypeError:
        return None
    seed = {"seed": splitter.random_state} if hasattr(splitter, "random_state") else {}
    return {"columns": columns, "strategy": type(splitter).__name__, "params": params, "types": TYPES, **seed}


def quick_spec_of(splitter: Splitter, target: str | None = None) -> dict[str, Any] | None:
    """Return ``spec_of`` with groups packed in one round, for where how well they are packed is not asked.

    An effort of "max" stays: it is another version of the algorithm.
    """
    spec = spec_of(splitter, target)
    for each in [spec, spec["params"].get("strategy")] if spec else []:
        if each and each["strategy"].startswith("BalancedGroup") and each["params"].get("effort") != "max":
            each["params"]["effort"] = 1
    return spec


def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sample(frac=1, random_state=2)


def assert_alike(found: Any, wanted: Any) -> None:
    """Sums of floats may differ in their last digits, and nothing else."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert_alike(found[name], wanted[name])
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for mine, theirs in zip(found, wanted, strict=True):
            assert_alike(mine, theirs)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    else:
        assert found == wanted


def figures(found: Audit) -> dict[str, Any]:
    return {f.check: (round(f.figure or 0, 9), f.severity, f.gate) for f in found.findings}


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    """Return the first ``n`` of 1,000 rows: a key, two features, and a target that is their difference, with noise."""
    draw = np.random.default_rng(seed)
    a, b = draw.normal(size=(2, 1000))
    return pd.DataFrame({"id": range(1000), "a": a, "b": b, "y": a - b + draw.normal(size=1000)}).head(n)


def arrivals(n: int, seed: int = 0, start: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": np.arange(start, start + n) * 3,
            "label": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
            "number": rng.lognormal(size=n),
            "g": [f"g{i}" for i in (np.arange(start, start + n) // 7)],
        }
    )


def visits(n: int = 300) -> pd.DataFrame:
    """Return visits of clinics by day, in an order that is not that of their keys, a text and a number."""
    frame = pd.DataFrame({"id": [f"case_{i:03d}" for i in range(n)], "number": np.arange(n) * 7})
    frame["y"] = np.where(np.arange(n) % 3 == 0, "yes", "no")
    frame["day"] = np.arange(n)
    frame["clinic"] = [f"clinic {i % 17}" for i in range(n)]
    return frame.sample(frac=1, random_state=1, ignore_index=True)


def split(frame: Any, strategy: str = "StratifiedKFold", key: Any = "id", **fields: Any) -> Manifest:
    return decide({"strategy": strategy, "columns": {"key": key, "target": "y"}} | fields, frame)


def hourly(n: int = 400) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(n) * 3,
            "y": np.where(np.arange(n) % 4, "no", "yes"),
            "site": np.arange(n) // 8,
            "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n), unit="h"),
        }
    )


@st.composite
def counts(draw: Any, most: int = 9) -> Any:
    """Draw small tables of entries by columns, no row of which is all zeros."""
    n, columns = draw(st.integers(3, most)), draw(st.integers(1, 3))
    cells = st.lists(st.sampled_from([0, 0, 1, 2, 7, 12]), min_size=columns, max_size=columns).filter(any)
    return np.array(draw(st.lists(cells, min_size=n, max_size=n)))


def to_folder(frame: pd.DataFrame, folder: Path) -> Path:
    (folder / "parts").mkdir()
    frame.iloc[:20].to_parquet(folder / "parts" / "a.parquet")
    frame.iloc[20:].to_parquet(folder / "parts" / "b.parquet")
    return folder / "parts"


def to_csv(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"
