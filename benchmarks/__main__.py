"""Run every benchmark against its peers in this one run, print the table, and write docs/benchmarks.md.

``python -m benchmarks [name ...]`` runs the named modules only and leaves the others' results as they were.
"""

from __future__ import annotations

import json
import platform
import sys
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent
MODULES = sorted(
    path.stem if path.is_file() else path.name
    for path in (*HERE.glob("[a-z]*.py"), *(folder.parent for folder in HERE.glob("[a-z]*/__init__.py")))
)
RESULTS = ROOT / "docs" / "results" / "benchmarks.json"
PEERS = ("numpy", "scikit-learn", "iterative-stratification", "prefect", "mlflow")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| work | evenfold | peer | ratio | to reach | reached |", "|---|---|---|---|---|---|"]
    for row in rows:
        reached = "yes" if row["met"] else "**no**"
        lines.append(
            f"| {row['work']} | {row['ours']} | {row['peer']} | {row['ratio']} | {row['target']} | {reached} |"
        )
    return "\n".join(lines)


def main(names: list[str]) -> None:
    """Run the benchmarks, print their tables, and write the results; those that were not run stay as they were."""
    told = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"results": {}, "notes": {}}
    for name in names or MODULES:
        module = import_module(f"benchmarks.{name}")
        print(f"{name} ...", file=sys.stderr, flush=True)
        told["results"][name] = module.rows()
        told["notes"][name] = module.notes() if hasattr(module, "notes") else ""
        print(f"{table(told['results'][name])}\n\n{told['notes'][name]}\n", flush=True)
    if not names or "date" not in told:  # the date is that of the last run of them all
        told |= {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "versions": {name: version(name) for name in PEERS},
        }
    _write(told)


def _write(about: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(about, indent=1) + "\n")
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    head = (
        "# Benchmarks\n\nWritten by `make bench`; every row compares with its peer in the same run.\n"
        f"{about['date']}, {about['machine']}; {versions}.\n"
    )
    results, notes = about["results"], about["notes"]
    body = [f"## {name.replace('_', ' ')}\n\n{table(results[name])}\n\n{notes[name]}".rstrip() for name in results]
    (ROOT / "docs" / "benchmarks.md").write_text(head + "\n" + "\n\n".join(body) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
