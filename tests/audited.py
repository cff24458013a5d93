"""A table that nothing is wrong with, splits of it, and what an audit says of one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests import Audit, Finding, Manifest, decide

SPEC = {"columns": {"key": "id", "target": "y", "group": "patient"}, "seed": 3}
FEATURES = ["dose", "age"]


def clean(n: int = 600) -> pd.DataFrame:
    """Return rows that nothing is wrong with: 5 rows a patient, half of them of each class, two float features."""
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "id": [f"row-{i:04d}" for i in range(n)],
            "y": np.where(np.arange(n) % 2, "sick", "well"),
            "patient": np.arange(n) // 5,
            "dose": random.normal(size=n),
            "age": random.uniform(20, 90, size=n),
            "day": np.arange(n),
        }
    )


def split(data: Any, **fields: Any) -> Manifest:
    columns = SPEC["columns"] | fields.pop("columns", {})
    return decide(SPEC | {"columns": {k: v for k, v in columns.items() if v}} | fields, data)


def the(check: str, made: Audit) -> Finding:
    found = [finding for finding in made.findings if finding.check == check]
    assert len(found) == 1, [finding.message for finding in made.findings]
    return found[0]


def moved(manifest: Manifest, row: int, fold: int) -> Manifest:
    """Return a manifest that somebody has edited: one row is in another fold."""
    codes = manifest.membership.codes.copy()
    codes[row] = fold
    return replace(manifest, membership=replace(manifest.membership, codes=codes))
