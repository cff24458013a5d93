"""A table that nothing is wrong with, splits of it, and what an audit says of one thing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests import GATES, Audit, Finding, Manifest, audit, decide

SPEC = {"columns": {"key": "id", "target": "y", "group": "patient"}, "seed": 3}
FEATURES = ["dose", "age"]
N = 900
OF_DATA = {name for name in GATES if not name.startswith("build_")}  # the others are asked where a build is given


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
    codes = manifest.membership.codes.copy()
    codes[row] = fold
    return replace(manifest, membership=replace(manifest.membership, codes=codes))


def plain(seed: int = 0, n: int = N) -> tuple[pd.DataFrame, np.random.Generator]:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.normal(size=(n, 4)), columns=list("abcd"))
    frame["kind"] = random.choice(["oak", "elm", "ash"], n)
    frame["y"] = (frame["a"] - frame["b"] + random.normal(size=n) > 0).astype(int)
    frame["id"] = [f"K{i:05d}" for i in random.permutation(n)]
    return frame, random


def audited(frame: pd.DataFrame, *only: str) -> Audit:
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    return asked(manifest, frame, *only or GATES)


def asked(manifest: Any, frame: Any, *checks: str, **how: Any) -> Audit:
    """Return an audit of one check or several: most of what a whole one costs are the models of other checks."""
    assert set(checks) <= set(GATES), "no check that is off finds anything"
    return audit(manifest, frame, gates={name: "off" for name in GATES if name not in checks}, **how)


def finding(manifest: Any, frame: Any, check: str, **how: Any) -> Finding:
    return the(check, asked(manifest, frame, check, **how))


def alarms(made: Audit) -> dict[str, str]:
    return {found.check: found.message for found in made.findings if found.severity != "note"}


def told(frame: pd.DataFrame, check: str) -> str:
    return alarms(audited(frame, check)).get(check, "")
