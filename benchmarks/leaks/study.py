"""Every kind of leak, planted in small and wide tables of classes and numbers, and what each audit says of them.

A leak counts as found when the audit says something that it does not say of the same table without the leak.
``python -m benchmarks leaks`` writes planted.json beside this file; the clean tables are clean.py's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from .kinds import KINDS
from .ours import alarms, frame_alarms
from .real import tables
from .tables import SIZES, Table, clean

HERE = Path(__file__).parent
RESULTS = HERE / "planted.json"
PEERS_PYTHON = Path(os.environ.get("EVENFOLD_PEERS_PYTHON", ".venv-peers/bin/python"))
SEED, CLEAN_SEEDS, REAL = 11, range(101, 106), 100
GROWN, UNTOUCHED = "grown without a leak", "nothing planted"
Planted = tuple[str, str, str, Table]  # name, kind, name of the table without it, table


def planted() -> Iterator[Planted]:
    """Yield each kind in each table, after the tables without a leak that they are compared with."""
    for size in SIZES:
        for numeric in (False, True):
            where = f"{size} {'numbers' if numeric else 'classes'}"
            yield f"{where} clean", "", "", clean(size, numeric, SEED)
            grown = clean(size, numeric, SEED)
            grown.grown = grown.n // 5
            yield f"{where} {GROWN}", "", "", grown
            for kind, plant in KINDS.items():
                table = clean(size, numeric, SEED)
                plant(table)
                yield f"{where} {kind}", kind, f"{where} {GROWN if table.grown else 'clean'}", table


def untouched() -> Iterator[Planted]:
    """Yield further tables in which nothing was planted."""
    for seed in CLEAN_SEEDS:
        for size in SIZES:
            for numeric in (False, True):
                name = f"{UNTOUCHED} {seed} {size} {'numbers' if numeric else 'classes'}"
                yield name, "", "", clean(size, numeric, seed)


def main() -> None:
    """Audit all tables with every tool, and write what was found."""
    cases = [*planted(), *untouched()]
    told: dict[str, Any] = {"evenfold": {"seconds": 0.0, "alarms": {}, "errors": {}}}
    with TemporaryDirectory() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder, about = Path(made), {}
        for name, _, _, table in cases:
            started = time.process_time()
            told["evenfold"]["alarms"][name] = sorted(alarms(table))
            told["evenfold"]["seconds"] += time.process_time() - started
            print(name, told["evenfold"]["alarms"][name], flush=True)
            about[name] = {"key": "id", "target": "y", "roles": table.roles, "planted": not name.startswith(UNTOUCHED)}
            folds = (table.frame.index >= table.n - table.grown).astype(int) if table.grown else table.folds
            table.frame.assign(fold=folds).to_parquet(folder / f"{name}.parquet")
        (folder / "tables.json").write_text(json.dumps(about), encoding="utf-8")
        told |= _peers(folder)
    told["real"] = _real()
    told["about"] = {
        "date": datetime.now(UTC).date().isoformat(),
        "kinds": {name: kind for name, kind, _, _ in cases},
        "without": {name: without for name, _, without, _ in cases if without},
    }
    RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _peers(folder: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("peers.py")
    subprocess.run([PEERS_PYTHON, script, folder], stdout=sys.stderr, check=True)
    told: dict[str, Any] = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    return told


def _real() -> dict[str, Any]:
    """Return the real tables of which each tool says something, of those whose alarms are not true of the data."""
    deserved = yaml.safe_load((HERE / "deserved.yaml").read_text(encoding="utf-8"))["deserved"]
    ours: dict[str, int] = {}
    with TemporaryDirectory() as made:
        folder, about = Path(made), {}
        for place, (name, frame, target) in enumerate(tables(0, REAL)):
            if name in deserved:
                continue
            ours[name] = len(frame_alarms(frame, target, "rownames"))
            about[f"table {place}"] = {"key": "rownames", "target": target, "roles": {}, "planted": False}
            frame = frame.drop(columns="rownames")
            frame.assign(fold=[row % 5 for row in range(len(frame))]).to_parquet(folder / f"table {place}.parquet")
        (folder / "tables.json").write_text(json.dumps(about), encoding="utf-8")
        peers = _peers(folder)
    alarmed = {"evenfold": sum(count > 0 for count in ours.values())}
    return {
        "tables": len(ours),
        "alarmed": alarmed | {tool: sum(map(bool, told["alarms"].values())) for tool, told in peers.items()},
    }


def audited(told: dict[str, Any]) -> set[str]:
    """Return the tables that every tool has audited: all, unless a run was stopped before its end."""
    return set.intersection(*(set(each["alarms"]) for each in told.values() if "alarms" in each))


def found(told: dict[str, Any], tool: str) -> dict[str, list[bool]]:
    """Return for each kind whether the tool found it, table by table of those that every tool has audited."""
    said, every = {name: set(alarmed) for name, alarmed in told[tool]["alarms"].items()}, audited(told)
    results: dict[str, list[bool]] = {}
    for name, without in told["about"]["without"].items():
        if name in every:
            results.setdefault(told["about"]["kinds"][name], []).append(bool(said[name] - said[without]))
    return results


def warned(told: dict[str, Any], tool: str) -> list[bool]:
    """Return of each table in which nothing was planted whether the tool warned of something."""
    every = audited(told)
    return [bool(said) for name, said in told[tool]["alarms"].items() if name.startswith(UNTOUCHED) and name in every]
