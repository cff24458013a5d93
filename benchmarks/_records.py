"""What a record costs: 100 evaluations of 5 folds on SQLite and PostgreSQL, before and after folds had models.

``python -m benchmarks._records BEFORE`` measures the version that is installed in the folder BEFORE
(``pip install --no-deps --target BEFORE``) and this one in turns, and writes its results and their table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .written import write

ROOT = Path(__file__).parent.parent
EVALUATIONS, ROUNDS = 100, 3
RECORD = """
import json, sys, time
import numpy as np, pandas as pd, sqlalchemy
from evenfold.tasks import Home, prepare_environment
prepare_environment()
from evenfold.estimates import ModelSpec
from evenfold.tasks.fits import fit_fold
from evenfold.tasks.record.evaluations import record_evaluation
from evenfold.tasks.record.splits import record_split
from evenfold.tasks.scores import aggregate
from evenfold.tasks.splits import split
draw = np.random.default_rng(0)
frame = pd.DataFrame({"id": range(500), **{f"x{i}": draw.normal(size=500) for i in range(4)}})
frame["y"] = frame["x0"] + draw.normal(size=500)
ref = split.fn(frame, key="id", target="y", strategy="KFold", name="rows")
run = record_split.fn(ref)
made = []
for i in range(int(sys.argv[1]) + 1):
    recipe = ModelSpec(estimator="sklearn.linear_model:Ridge", params={"alpha": 0.1 * (i + 1)})
    made.append(aggregate.fn(ref, [fit_fold.fn(ref, fold, recipe) for fold in ref.splits()]))
record_evaluation.fn(ref, made.pop(), split_run_id=run.run_id)  # what is made once per process

def stored():
    engine = sqlalchemy.create_engine(Home.here().tracking_store)
    with engine.connect() as at:
        names = [name for name in sqlalchemy.inspect(engine).get_table_names() if name != "alembic_version"]
        return sum(at.execute(sqlalchemy.text(f'SELECT count(*) FROM "{name}"')).scalar_one() for name in names)

before, wall, cpu = stored(), time.perf_counter(), time.process_time()
for evaluation in made:
    record_evaluation.fn(ref, evaluation, split_run_id=run.run_id)
each = {"ms": (time.perf_counter() - wall) * 1e3, "cpu_ms": (time.process_time() - cpu) * 1e3}
each["rows"] = stored() - before
print(json.dumps({name: value / len(made) for name, value in each.items()}))
"""


def recorded(version: Path | None, store: str | None) -> dict[str, float]:
    """Return what one evaluation's record takes in milliseconds, of the CPU too, and rows, in a new store."""
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("EVENFOLD", "MLFLOW", "PREFECT", "PYTHONPATH"))}
        env |= {"EVENFOLD_HOME": f"{folder}/home", "OMP_NUM_THREADS": "1"}
        env |= {"PYTHONPATH": str(version)} if version else {}
        env |= {"MLFLOW_TRACKING_URI": store} if store else {}
        command = [sys.executable, "-c", RECORD, str(EVALUATIONS)]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return told


@contextmanager
def stores() -> Iterator[dict[str, Any]]:
    """Yield what makes a new store of each kind; PostgreSQL only where it is installed."""
    sys.path.insert(0, str(ROOT / "tests"))
    from servers import postgres

    made: dict[str, Any] = {"SQLite": lambda: None}
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        yield made
        return
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as port:
        address, number = f"postgresql://evenfold@127.0.0.1:{port}", iter(range(10_000))

        def database() -> str:
            name = f"mlflow{next(number)}"
            query = f"CREATE DATABASE {name}"
            subprocess.run(["psql", f"{address}/postgres", "-qc", query], check=True, capture_output=True)
            return f"{address}/{name}"

        yield made | {"PostgreSQL": database}


def main(before: Path) -> None:
    """Measure both versions in turns, keep the median of each figure, and write the results."""
    figures: dict[str, dict[str, list[dict[str, float]]]] = {}
    with stores() as made:
        for _ in range(ROUNDS):
            for kind, store in made.items():
                for name, version in (("before", before), ("after", None)):
                    figures.setdefault(kind, {}).setdefault(name, []).append(recorded(version, store()))
                    print(kind, name, figures[kind][name][-1], file=sys.stderr, flush=True)
    medians = {
        kind: {
            name: {each: round(sorted(one[each] for one in taken)[len(taken) // 2], 1) for each in taken[0]}
            for name, taken in versions.items()
        }
        for kind, versions in figures.items()
    }
    told = {"date": datetime.now(UTC).date().isoformat(), "evaluations": EVALUATIONS, "rounds": ROUNDS}
    told["per evaluation"] = medians
    write("records", told, "operations.md", table(told))


def table(told: dict[str, Any]) -> str:
    """Return the results as Markdown: a row for each store and version."""
    lines = ["| store | version | rows | ms | ms of this process's CPU |", "|---|---|---|---|---|"]
    for store, versions in told["per evaluation"].items():
        for version, figures in versions.items():
            numbers = f"{figures['rows']:.0f} | {figures['ms']:.0f} | {figures['cpu_ms']:.0f}"
            lines.append(f"| {store} | {version} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
