"""Write what is generated: in the README the table of strategies, real output and benchmarks; and the picture."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from evenfold.manifests import decide
from evenfold.reports import Picture
from evenfold.splitters import all_strategies
from evenfold.splitters.conformance import CHECKS

ROOT = Path(__file__).parent.parent
# What the README shows of the results, by how a row's text begins; what missed its target is always shown.
HEADLINES = (
    "500 groups, 4 classes",
    "5,000 groups",
    "100,000 groups",
    "20 groups, 2 classes, k=5",
    "20,000 x 50 labels",
    "sorted folds, 10 M",
    "stratified folds, 10 M",
    "group draws, 200,000 rows",
    "bootstrap, 10,000 resamples",
    "500 groups, then 12 x 50 new",
    "1,000,000 groups extended",
    "10 folds of",
    "10,000 draws of",
    "10,000 resamples of 1,000 rows, logistic, 3",
    "a tree oversampled",
)
RUN_ID = re.compile(r"\b[0-9a-f]{32}\b")


def strategy_table() -> str:
    """Return the table of every strategy with its one-line idea and what it promises beside train and test apart."""
    said = {each.promise: each.name for each in CHECKS if each.promise}
    lines = ["| strategy | what it makes | what it promises |", "|---|---|---|"]
    sys.path.insert(0, str(ROOT / "tests"))
    from cases import CASES  # what a strategy around a strategy promises depends on the inner one

    promised = {type(case).__name__: case.promises for case in reversed(CASES)}
    for name, strategy in sorted(all_strategies().items()):
        idea = (strategy.__doc__ or "").strip().splitlines()[0].rstrip(".")
        promises = [said[word] for word in sorted(promised[name] - {"disjoint"})] or [said["disjoint"]]
        lines.append(f"| `{name}` | {idea} | {'; '.join(promises)} |")
    return "\n".join(lines)


def commands(text: str) -> list[str]:
    """Return the commands of the README's output block."""
    block = re.search(r"<!-- output -->\n```console\n(.*?)```", text, re.S)
    assert block is not None
    return [line.removeprefix("$ ") for line in block.group(1).splitlines() if line.startswith("$ ")]


def output_of(command: str) -> str:
    """Return what ``command`` prints in a home of its own, with the ids that differ each time named as such."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".evenfold-readme-") as home:
        environment = {**os.environ, "EVENFOLD_HOME": home}
        ran = subprocess.run(
            command.replace(".venv/bin/evenfold", f"{Path(sys.executable).parent}/evenfold"),
            shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        lines = ran.stdout.replace(f"{Path(home).name}", ".evenfold").splitlines()
    return RUN_ID.sub("<run id>", "\n".join(line.rstrip() for line in lines))


def filled(text: str) -> str:
    """Return the README's text with its generated parts made anew."""
    shown = "\n\n".join(f"$ {command}\n{output_of(command)}" for command in commands(text))
    text = _between(text, "output", f"```console\n{shown}\n```")
    text = _between(text, "benchmarks", benchmark_table())
    return _between(text, "strategies", strategy_table())


def benchmark_table() -> str:
    """Return the headlines of docs/benchmarks.json (from ``make bench``), and every row that missed its target."""
    file = ROOT / "docs" / "benchmarks.json"
    if not file.exists():
        return "`make bench` writes this table."
    told = json.loads(file.read_text(encoding="utf-8"))
    rows = [row for each in told["results"].values() for row in each]
    lines = ["| work | evenfold | peer | ratio | to reach | reached |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row['work']} | {row['ours']} | {row['peer']} | {row['ratio']} | {row['target']} | "
        f"{'yes' if row['met'] else '**no**'} |"
        for row in rows
        if row["work"].startswith(HEADLINES) or not row["met"]
    ]
    reached = sum(row["met"] for row in rows)
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    summary = f"{reached} of {len(rows)} rows reach what they should; [all of them](docs/benchmarks.md)."
    return "\n".join([*lines, "", f"{summary} {told['date']}, {told['machine']}; {versions}."])


def balance_picture() -> str:
    """Return the README's picture: how far each fold's delays are from all flights', dealt at random and sorted."""
    flights = pd.read_parquet(ROOT / "examples" / "flights.parquet")
    columns = {"key": "flight_id", "target": "arr_delay"}
    delays = flights.sort_values("flight_id")["arr_delay"].to_numpy()
    at = np.arange(-60, 181, 2)
    whole = np.searchsorted(np.sort(delays), at, side="right") / delays.size
    picture = Picture(
        "Sorted folds lie on all flights, random ones beside them", "arrival delay (minutes)",
        "flights up to that delay, fold minus all (points)", (-60, 180), (-2.4, 2.4), height=260,
    )  # fmt: skip
    for strategy, colour in (("KFold", 1), ("SortedStratifiedKFold", 0)):
        manifest = decide({"strategy": strategy, "columns": columns}, flights)
        for fold in range(5):
            mine = np.sort(delays[manifest.membership.column() == fold])
            gap = np.searchsorted(mine, at, side="right") / mine.size - whole
            picture.line(zip(at, gap * 100, strict=True), colour)
    picture.name("five random folds (KFold)", 1, "line")
    picture.name("five sorted folds (SortedStratifiedKFold)", 0, "line")
    return picture.file()


def _between(text: str, mark: str, content: str) -> str:
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.S)
    return pattern.sub(lambda found: f"{found.group(1)}{content}\n{found.group(2)}", text)


if __name__ == "__main__":
    (ROOT / "docs" / "balance.svg").write_text(balance_picture(), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")
