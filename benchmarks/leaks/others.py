"""What the audit finds in cases of others: ``python -m benchmarks.leaks.others FOLDER [NAME ...]``.

The folder (or ``EVENFOLD_CASES``) holds Python files. ``CASES`` are functions that return a dictionary (``leak``,
``control`` or None, ``spec``), ``C`` maps names to functions that return (leak, control, roles), ``tables()`` yields
(name, frame, target) of tables in which nothing is wrong. A leak is found where a check warns that does not warn of its
control. Each clean table is asked about as it is, and with its target shuffled. Without names all of it is written to
others.json.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests import audit, decide
from evenfold.splitters import SplitError

RESULTS = Path(__file__).parent / "others.json"
OF_THE_SPLIT = {"class_deviation", "size_deviation", "target_deviation", "missing_classes", "attribute_deviation"}
Case = tuple[str, Any, Any, dict[str, Any], dict[str, Any]]


def alarms(frame: pd.DataFrame, roles: dict[str, Any]) -> dict[str, str]:
    """Return the sentences of the checks that warn of the data, whatever the folds."""
    found = audit(decide({"columns": roles}, frame), frame).findings
    return {f.check: f.message for f in found if f.severity != "note" and f.check not in OF_THE_SPLIT}


def leaks(module: dict[str, Any]) -> Iterator[Case]:
    for make in module.get("CASES", []):
        case = make()
        yield make.__name__, case["leak"], case["control"], case["spec"], case["control_spec"]
    for name, make in module.get("C", {}).items():
        leak, control, roles = make()
        yield name, leak, control, roles, roles


def clean(module: dict[str, Any]) -> Iterator[Case]:
    for place, (name, frame, target) in enumerate(
        module["tables"]() if "tables" in module and "LIST" in module else ()
    ):
        random = np.random.default_rng(place)
        rows = frame[frame[target].notna()].sample(frac=1, random_state=place).reset_index(drop=True)
        rows.insert(0, "key_", random.permutation(len(rows)) * 3 + 100)
        shuffled, roles = rows.assign(**{target: random.permutation(rows[target])}), {"key": "key_", "target": target}
        yield name, rows, shuffled.astype({target: rows[target].dtype}), roles, roles


def main(folder: str, names: list[str]) -> None:
    told: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "leaks": {}, "clean": {}, "shuffled": {}}
    for file in sorted(Path(folder).glob("*.py")):
        module, here = runpy.run_path(str(file)), names or [""]
        for name, leak, control, roles, others in leaks(module):
            if any(each in name or each == file.stem for each in here):
                started, found = time.process_time(), alarms(leak, roles)
                before = {} if control is None else alarms(control, others)
                new = {check: message for check, message in found.items() if check not in before}
                told["leaks"][f"{file.stem} {name}"] = sorted(new)
                said = "; ".join(new.values())[:300] if names else ""
                seconds = time.process_time() - started
                print(
                    "found " if new else "MISSED",
                    name,
                    sorted(new),
                    "| control",
                    sorted(before),
                    f"{seconds:.1f} s",
                    said,
                    flush=True,
                )
        for name, rows, shuffled, roles, _ in clean(module):
            if any(each in name or each == file.stem for each in here):
                for kind, frame in (("clean", rows), ("shuffled", shuffled)):
                    try:
                        told[kind][name] = sorted(found := alarms(frame, roles))
                    except SplitError as error:
                        print("not split:", name, error)
                        continue
                    if found:
                        print(kind, name, [message[:200] for message in found.values()], flush=True)
    print(
        {kind: f"{sum(map(bool, told[kind].values()))} of {len(told[kind])}" for kind in ("leaks", "clean", "shuffled")}
    )
    if not names:
        RESULTS.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main((sys.argv[1:] or [os.environ["EVENFOLD_CASES"]])[0], sys.argv[2:])
