"""Wherever the rows of a split lie, it is the same one: identities, files, balance, audit, growth, proofs."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import GATES, audit, decide, extend, measure, verify, write_manifest
from tables import assert_alike, figures, shuffled

QUICK = {"effort": 1}  # however long folds were searched for, they are the same everywhere
REPEATED = {"strategy": {"strategy": "BalancedGroupKFold", "params": {"n_splits": 3, **QUICK}}, "n_repeats": 2}
LATE = {"key": "id", "target": "late", "time": "when"}
SPECS: dict[str, dict[str, Any]] = {
    "composite key": {"columns": {"key": ["a", "b"], "group": "group", "target": "c"}, "params": QUICK},
    "several strata": {"columns": {"key": "id", "group": "group", "stratify": ["c", "site"]}, "params": QUICK},
    "holdout of groups": {"columns": {"key": "id", "group": "group", "target": "c"}, "holdout": 0.2, "params": QUICK},
    "holdout of numbers": {"columns": {"key": "text", "target": "y"}, "holdout": 0.15},
    "parts": {"columns": {"key": "id", "group": "group", "target": "c"}, "strategy": "BalancedGroupSplit"},
    "by hash": {"columns": {"key": "text", "target": "y"}, "strategy": "HashSplit"},
    "repeated": {"columns": {"key": "id", "group": "group", "target": "c"}, "strategy": "Repeated", "params": REPEATED},
    "in time": {"columns": {"key": "id", "time": "when"}},
    "poisson": {"columns": {"key": "id"}, "strategy": "PoissonBootstrap", "params": {"n_splits": 20}},
    "pseudonyms": {
        "columns": {"key": "text", "group": "named", "target": "c"},
        "key_encoding": {"encode": ["key", "group"]},
        "params": QUICK,
    },
    "rows that wait": {"columns": LATE, "strategy": "KFold", "missing_target": "wait"},
    "entities": {"columns": {"key": "id", "group": ["named", "device"]}, "group_mode": "cross"},
}
ENGINES: list[Any] = [
    "memory",
    "duckdb",
    *(name for name, module in (("dask", "dask"), ("spark", "pyspark")) if find_spec(module)),
]


def rows(n: int = 240) -> pd.DataFrame:
    """Return rows with every type of key, both forms of accents, and skewed groups."""
    rng, start = np.random.default_rng(5), pd.Timestamp("1969-12-01")
    table = pd.DataFrame(
        {
            "id": rng.permutation(n) * 3 - 900,
            "text": [("clé", "cle\u0301", "Ω", "ß")[i % 4] + f"{i:05d}" for i in rng.permutation(n)],
            "a": rng.integers(0, 70, n),
            "group": np.minimum(rng.zipf(1.3, n), 110),
            "named": [f"gé{i}" for i in rng.integers(0, 90, n)],
            "y": rng.lognormal(size=n).round(2),
            "c": rng.choice(["u", "é", "w"], n, p=[0.6, 0.3, 0.1]),
            "when": start + pd.to_timedelta(rng.integers(0, 500, n), "D"),
            "site": rng.choice(["s1", "s2", "s3"], n),
            "x": rng.normal(size=n),
        }
    )
    table["device"] = rng.integers(0, 40, n)
    table["b"], table["late"] = table.groupby("a").cumcount(), table["y"].mask(table["when"] > "1971-03-01")
    return table


LEARNT_OF = ("several strata",)  # of its audit all is asked, also what learns
NOT_LEARNT = ("group_in_two_folds", "duplicate_rows", "size_deviation", "target_deviation", "missing_classes")


@pytest.mark.parametrize("name", SPECS)
def test_a_split_is_the_same_wherever_its_rows_lie(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "a secret of the road")
    spec, whole = {"name": "road", **SPECS[name]}, rows()
    old, data, every = whole.iloc[:210], tmp_path / "old.parquet", tmp_path / "every.parquet"
    shuffled(old).to_parquet(data, row_group_size=75)
    shuffled(whole).to_parquet(every, row_group_size=75)
    here, gates = decide(spec, old), {gate: "off" for gate in GATES if gate not in NOT_LEARNT and name not in LEARNT_OF}
    kept, even = write_manifest(here, tmp_path / "home"), measure(here, old).model_dump()
    heard = audit(here, old.sort_values(spec["columns"]["key"]), gates=gates)
    grown = extend(here, whole) if here.splitter.grows else None
    alone = here.spec.may_wait or len(here.spec.columns.grouped) > 1
    for engine in ENGINES[:1] if alone else ENGINES if name in LEARNT_OF else ENGINES[1:]:
        there = decide(spec, data, engine=engine, memory="64MB", to=tmp_path / engine)
        assert (there.split_id, there.plan_id) == (here.split_id, here.plan_id)
        for file in there.files:
            assert file.read_bytes() == (kept / file.name).read_bytes()
        assert_alike(measure(there, data, memory="64MB").model_dump(), even)
        audited = audit(there, data, memory="64MB", gates=gates)
        assert figures(audited) == figures(heard)
        assert (audited.passed.keys(), audited.not_asked.keys()) == (heard.passed.keys(), heard.not_asked.keys())
        if grown is not None:
            joined = extend(there, every, memory="64MB")
            assert joined.manifest.split_id == grown.manifest.split_id
            assert joined.manifest.plan_id == grown.manifest.plan_id
            assert (joined.added, joined.notes) == (grown.added, grown.notes)
            assert verify(joined.manifest.folder).intact
    assert not list(tmp_path.rglob(".spilling-*"))
