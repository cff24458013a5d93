"""Run every benchmark against its peers in this one run, print the table, and write docs/benchmarks.md.

``python -m benchmarks [name ...]`` runs the named modules only, and prints without writing.
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
MODULES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
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
    """Run the benchmarks, and write results where all of them ran."""
    results, notes = {}, {}
    for name in names or MODULES:
        module = import_module(f"benchmarks.{name}")
        print(f"{name} ...", file=sys.stderr, flush=True)
        results[name] = module.rows()
        notes[name] = module.notes() if hasattr(module, "notes") else ""
        print(f"{table(results[name])}\n\n{notes[name]}\n", flush=True)
    if not names:
        _write(results, notes)


def _write(results: dict[str, list[dict[str, Any]]], notes: dict[str, str]) -> None:
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "versions": {name: version(name) for name in PEERS},
    }
    (ROOT / "docs" / "benchmarks.json").write_text(json.dumps({**about, "results": results}, indent=1) + "\n")
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    head = (
        "# Benchmarks\n\nWritten by `make bench`; every row compares with its peer in the same run.\n"
        f"{about['date']}, {about['machine']}; {versions}.\n"
    )
    body = [f"## {name.replace('_', ' ')}\n\n{table(results[name])}\n\n{notes[name]}".rstrip() for name in results]
    (ROOT / "docs" / "benchmarks.md").write_text(head + "\n" + "\n\n".join(body) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
