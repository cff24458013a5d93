"""Every kind of leak, planted in small and wide tables of classes and numbers, and what each audit says of them.

A leak counts as found when the audit says something that it does not say of the same table without the leak.
``python -m benchmarks leaks`` writes planted.json beside this file; the clean tables are clean.py's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import yaml

from .kept import Kept
from .kinds import KINDS
from .ours import alarms, frame_alarms
from .real import CLEAN, tables
from .tables import SIZES, Table, clean

HERE = Path(__file__).parent
RESULTS = HERE / "planted.json"
PEERS_PYTHON = Path(os.environ.get("EVENFOLD_PEERS_PYTHON", ".venv-peers/bin/python"))
# Others' answers change with their versions alone, and take hours together; ours with every change of the audit.
THEIRS, OURS = HERE / "answers.jsonl", HERE.parent.parent / ".bench" / "leaks.jsonl"
PEERS_SECONDS = os.environ.get("EVENFOLD_PEERS_SECONDS", "1200")
SEED, CLEAN_SEEDS = 11, range(101, 106)
GROWN, UNTOUCHED, REAL = "grown without a leak", "nothing planted", "real table"
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


@dataclass(frozen=True)
class Case:
    """A table as it is shown: a frame with the column ``fold``, what is said of it, and what we find in it."""

    name: str
    frame: pd.DataFrame
    about: dict[str, Any]
    ours: Callable[[], Iterable[str]]

    @cached_property
    def digest(self) -> str:
        """The same for the same rows, folds and roles, whatever the versions of what writes them."""
        rows = pd.util.hash_pandas_object(self.frame, index=False).to_numpy().tobytes()
        columns = json.dumps([list(map(str, self.frame)), self.about], sort_keys=True).encode()
        return sha256(rows + columns).hexdigest()[:32]


def main() -> None:
    """Audit all tables with every tool, and write what was found once all have answered.

    Answers are kept as they come, those of small tables first, the others' in ``answers.jsonl``: a run that was stopped
    goes on where it was, and asks again only what is new, changed, or of another version of the tool. Each other tool
    gets ``EVENFOLD_PEERS_SECONDS`` of processor time in a run (default 1,200), and is judged by what it answered.
    """
    made = [*planted(), *untouched()]
    cases = sorted([*_made(made), *_real()], key=lambda case: case.frame.size)
    OURS.parent.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            case.frame.to_parquet(Path(folder) / f"{case.name}.parquet")
        shown = {case.name: case.about | {"digest": case.digest} for case in cases}
        (Path(folder) / "tables.json").write_text(json.dumps(shown), encoding="utf-8")
        subprocess.run([PEERS_PYTHON, HERE / "peers.py", folder, THEIRS, PEERS_SECONDS], stdout=sys.stderr, check=True)
        ours, code = Kept(OURS), _version_of_ours()
        for case in cases:
            told = ours.ask("evenfold", code, case.digest, lambda case=case: [(sorted(case.ours()), "")])
            print(case.name, told["alarms"], flush=True)
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "kinds": {name: kind for name, kind, _, _ in made},
        "without": {name: without for name, _, without, _ in made if without},
    }
    theirs = Kept(THEIRS)
    told = _told(ours.known | theirs.known, cases, {"evenfold": code} | _versions(theirs))
    RESULTS.write_text(json.dumps(told | {"about": about}, indent=1) + "\n", encoding="utf-8")


def _made(made: list[Planted]) -> Iterator[Case]:
    for name, _, _, table in made:
        about = {"key": "id", "target": "y", "roles": table.roles, "planted": not name.startswith(UNTOUCHED)}
        folds = (table.frame.index >= table.n - table.grown).astype(int) if table.grown else table.folds
        yield Case(name, table.frame.assign(fold=folds), about, partial(alarms, table))


def _real() -> Iterator[Case]:
    """Yield the real tables, of those whose alarms are not true of the data."""
    deserved = yaml.safe_load((HERE / "deserved.yaml").read_text(encoding="utf-8"))["deserved"]
    for place, (name, frame, target) in enumerate(tables(0, CLEAN)):
        if name not in deserved:
            about = {"key": "rownames", "target": target, "roles": {}, "planted": False}
            ours = partial(frame_alarms, frame, target, "rownames")
            shown = frame.drop(columns="rownames").assign(fold=np.arange(len(frame)) % 5)
            yield Case(f"{REAL} {place}", shown, about, ours)


def _version_of_ours() -> str:
    """Return what changes whenever anything does that our audit may depend on."""
    root = HERE.parent.parent
    files = sorted([*(root / "manifests").rglob("*.py"), *(root / "splitters").rglob("*.py"), HERE / "ours.py"])
    return sha256(b"".join(sha256(file.read_bytes()).digest() for file in files)).hexdigest()[:16]


def _versions(kept: Kept) -> dict[str, str]:
    """Return the version of each other tool that answered last."""
    return {tool: version for tool, version, _ in kept.known}


def _told(
    known: dict[tuple[str, str, str], dict[str, Any]], cases: list[Case], versions: dict[str, str]
) -> dict[str, Any]:
    """Return what each tool says of the made tables, and how many of the real ones it says something of."""
    answers = {
        tool: {case.name: known[tool, version, case.digest] for case in cases if (tool, version, case.digest) in known}
        for tool, version in versions.items()
    }
    real = {tool: [each for name, each in said.items() if name.startswith(REAL)] for tool, said in answers.items()}
    told: dict[str, Any] = {}
    for tool, said in answers.items():
        made = {name: each for name, each in said.items() if not name.startswith(REAL)}
        told[tool] = {
            "version": versions[tool],
            "seconds": sum(each["seconds"] for each in made.values()),
            "alarms": {name: each["alarms"] for name, each in made.items()},
            "errors": {name: each["error"] for name, each in made.items() if each["error"]},
        }
    alarmed = {tool: sum(bool(each["alarms"]) for each in said) for tool, said in real.items()}
    tables = {tool: len(said) for tool, said in real.items()}
    return told | {"real": {"tables": tables, "alarmed": alarmed}}


def found(told: dict[str, Any], tool: str) -> dict[str, list[bool]]:
    """Return for each kind whether the tool found it, table by table of those that it has answered for."""
    said = {name: set(alarmed) for name, alarmed in told[tool]["alarms"].items()}
    results: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for name, without in told["about"]["without"].items():
        if name in said and without in said:
            results.setdefault(told["about"]["kinds"][name], []).append(bool(said[name] - said[without]))
    return results


def warned(told: dict[str, Any], tool: str) -> list[bool]:
    """Return of each table in which nothing was planted whether the tool warned of something."""
    return [bool(said) for name, said in told[tool]["alarms"].items() if name.startswith(UNTOUCHED)]
