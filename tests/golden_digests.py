"""The folds of every case as digests: `python tests/golden_digests.py --write` after a change that is meant."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from cases import CASES
from evenfold.splitters import Splitter
from evenfold.splitters.conformance import data_for

GOLDEN = Path(__file__).parent / "golden"
SIZES = (60, 997)


def digest(splitter: Splitter, n: int) -> str:
    """Return the SHA-256 of the pairs of n made-up rows: each side's length and positions, as little-endian int64."""
    hashed = hashlib.sha256()
    for pair in data_for(splitter, n).split(splitter):
        for side in pair:
            hashed.update(np.array([side.size, *side], dtype="<i8").tobytes())
    return hashed.hexdigest()


def name_of(splitter: Any) -> str:
    """Return the class and the parameters that are not defaults: a later parameter leaves the name as it is."""
    if not hasattr(splitter, "get_params"):
        return repr(splitter)
    known = inspect.signature(type(splitter)).parameters
    given = splitter.get_params(deep=False).items()
    shown = [f"{key}={name_of(value)}" for key, value in sorted(given) if value != known[key].default]
    return f"{type(splitter).__name__}({', '.join(shown)})"


def digests() -> dict[str, dict[str, dict[str, Any]]]:
    """Return for each class each case's version and digests, for strategies that are the same on every machine."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for splitter in CASES:
        if splitter.portable:
            pinned = {"version": splitter.version, **{str(n): digest(splitter, n) for n in SIZES}}
            found.setdefault(type(splitter).__name__, {})[name_of(splitter)] = pinned
    return found


def pinned() -> dict[str, dict[str, dict[str, Any]]]:
    """Return what the golden files hold."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(GOLDEN.glob("*.json"))}


def write() -> None:
    """Write a golden file per class, and remove those of classes that are gone."""
    current = digests()
    for path in GOLDEN.glob("*.json"):
        if path.stem not in current:
            path.unlink()
    for name, cases in current.items():
        (GOLDEN / f"{name}.json").write_text(json.dumps(cases, indent=2, sort_keys=True) + "\n")


def identities() -> dict[str, dict[str, str]]:
    """Return fingerprint, plan_id and split_id of manifests of one made-up table with columns of every type."""
    import pandas as pd
    from evenfold.manifests import decide, extend

    rows = np.arange(240)
    frame = pd.DataFrame(
        {
            "key": [f"k\u00e9y-{i:03d}" if i % 2 else f"ke\u0301y-{i:03d}" for i in rows],
            "number": np.where(rows % 7 == 0, -0.0, (rows * 37 % 101) / 8),
            "label": np.resize(["a", "b", "a", "c"], 240),
            "group": pd.Timestamp("2024-01-01") + pd.to_timedelta(rows // 6, unit="D"),
        }
    )
    specs: dict[str, dict[str, Any]] = {
        "plain": {"columns": {"key": "key"}, "strategy": "KFold"},
        "numbers": {"columns": {"key": "key", "target": "number"}},
        "classes": {"columns": {"key": "key", "target": "label"}, "holdout": {"fraction": 0.25}},
        "groups": {"columns": {"key": "key", "target": "label", "group": "group"}},
        "draws": {"columns": {"key": "key"}, "strategy": "PoissonBootstrap", "params": {"n_splits": 5}},
    }
    made = {name: decide(spec, frame) for name, spec in specs.items()}
    for name in ("plain", "numbers", "classes", "groups"):
        made[f"{name}, grown"] = extend(decide(specs[name], frame[:150]), frame).manifest
    return {
        name: {"fingerprint": each.fingerprint, "plan_id": each.plan_id, "split_id": each.split_id}
        for name, each in made.items()
    }


IDENTITIES = Path(__file__).parent / "golden_identities.json"


def differences() -> list[str]:
    """Return what differs from what is pinned."""
    current, known = (
        digests() | {"identities": identities()},
        pinned() | {"identities": json.loads(IDENTITIES.read_text())},
    )
    cases = {(name, case) for found in (current, known) for name, each in found.items() for case in each}
    return [f"{n} {c}" for n, c in sorted(cases) if current.get(n, {}).get(c) != known.get(n, {}).get(c)]


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
        IDENTITIES.write_text(json.dumps(identities(), indent=2, sort_keys=True) + "\n")
    elif "--check" in sys.argv:
        found = differences()
        sys.stdout.write("\n".join(["different:", *found] if found else [f"{len(CASES)} cases as pinned"]) + "\n")
        sys.exit(bool(found))
    else:
        sys.stdout.write(json.dumps(digests()))
