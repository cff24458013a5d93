"""Change one place of the source at a time and see whether a test fails: ``python tests/mutation.py [part ...]``.

Places are drawn with a seed, from the source as it is; each is changed in a copy of the repository, and the tests of
the part that run the changed function, quickest first and 15 seconds of them, are run there until one fails. What came
of it is kept in docs/mutation.json, and docs/mutation.md is written from that and from the verdicts in
docs/mutation.yaml. With ``--again`` only what survived is tried, against two minutes of the tests of now; a
place that is no longer in it is gone.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import copy
import importlib
import io
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ROOMS = ("splitters", "manifests", "estimates", "reports", "tasks", "flows", "deployments")
RESULTS, VERDICTS, PAGE = (ROOT / "docs" / f"mutation.{kind}" for kind in ("json", "yaml", "md"))
SEED = 20261122
SECONDS = 15.0
# Loaded once, before a process is forked for each change: they are most of what a run of few tests costs.
COMMON = (
    "numpy scipy.stats scipy.optimize scipy.special pandas pyarrow.parquet pyarrow.compute pyarrow.csv duckdb narwhals "
    "pydantic hypothesis.strategies sklearn.ensemble sklearn.model_selection sklearn.linear_model sklearn.pipeline "
    "sklearn.inspection imblearn.over_sampling skops.io threadpoolctl jinja2 polars"
)


@dataclass(frozen=True)
class Part:
    """Files to change, the tests that should notice, and how many places are drawn; None: every one."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    sample: int | None = 60
    without: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        """Return the source files below ROOT, in order."""
        found = [path for name in self.sources for path in _python(ROOT / name)]
        left_out = {path for name in self.without for path in _python(ROOT / name)}
        return sorted(set(found) - left_out)


def _python(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))


PARTS = {
    "splitters": Part(
        ("splitters",),
        ("tests/splitters",),
        sample=240,
        without=("splitters/conformance",),
    ),
    "growth": Part(
        ("manifests/growth",),
        (
            "tests/manifests/growth/test_extend.py",
            "tests/manifests/growth/test_arrivals.py",
            "tests/manifests/test_membership.py",
            "tests/manifests/growth/test_entities.py",
            "tests/manifests/growth/test_crossing.py",
            "tests/manifests/growth/test_waiting.py",
            "tests/splitters/test_filling.py",
        ),
    ),
    "estimates": Part(("estimates",), ("tests/estimates",), sample=120, without=("estimates/promotion.py",)),
    "promotion": Part(
        ("estimates/promotion.py",),
        ("tests/estimates/test_promotion.py", "tests/estimates/test_comparison.py"),
        sample=None,
    ),
}


@dataclass
class Mutant:
    """One change of one place; ``test`` failed of it, or none did."""

    file: str
    function: str
    place: int
    change: int
    before: str
    after: str
    outcome: str = ""
    test: str = ""
    killed_since: bool = False

    @property
    def name(self) -> str:
        """What its verdict stands under."""
        return f"{self.file} {self.function}: {self.before} -> {self.after}"


# ---------------------------------------------------------------- changes

COMPARISONS = {
    ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.GtE], ast.Gt: [ast.GtE, ast.Lt], ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.In: [ast.NotIn], ast.NotIn: [ast.In], ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
}  # fmt: skip
ARITHMETIC = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div, ast.Add], ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Div, ast.Mult], ast.Mod: [ast.FloorDiv], ast.Pow: [ast.Mult], ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd], ast.BitXor: [ast.BitAnd], ast.LShift: [ast.RShift], ast.RShift: [ast.LShift],
}  # fmt: skip
NAMES = {
    "any": "all", "all": "any", "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "argmin": "argmax",
    "argmax": "argmin", "minimum": "maximum", "maximum": "minimum",
}  # fmt: skip


def changes(node: ast.AST) -> list[Callable[[Any], ast.AST]]:
    """Return the changes that fit a node; each is given a copy of it and returns what takes its place."""
    kinds: list[Callable[[Any], ast.AST]] = []
    if isinstance(node, ast.Compare):
        kinds = [_with("ops", [kind(), *node.ops[1:]]) for kind in COMPARISONS[type(node.ops[0])]]
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and not _text(node):
        kinds = [_with("op", kind()) for kind in ARITHMETIC.get(type(node.op), [])]
    elif isinstance(node, ast.BoolOp):
        kinds = [_with("op", ast.Or() if isinstance(node.op, ast.And) else ast.And())]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        kinds = [lambda same: same.operand]
    elif isinstance(node, ast.Constant):
        kinds = [_with("value", value) for value in _others(node.value)]
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        kinds = [_with("test", ast.UnaryOp(ast.Not(), node.test))]
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        kinds = [lambda _: ast.Pass()]
    elif isinstance(node, (ast.Continue, ast.Break)):
        kinds = [lambda same: ast.Break() if isinstance(same, ast.Continue) else ast.Continue()]
    elif isinstance(node, ast.Call):
        kinds = _renamed(node.func)
    return kinds


def _with(name: str, value: Any) -> Callable[[Any], ast.AST]:
    def change(node: Any) -> ast.AST:
        setattr(node, name, value)
        return node  # type: ignore[no-any-return]

    return change


def _others(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    return [2 * value if value else 1.0] if isinstance(value, float) else []


def _renamed(function: ast.expr) -> list[Callable[[Any], ast.AST]]:
    if isinstance(function, ast.Name) and function.id in NAMES:
        return [_with("func", ast.Name(NAMES[function.id]))]
    if isinstance(function, ast.Attribute) and function.attr in NAMES:
        return [_with("func", ast.Attribute(function.value, NAMES[function.attr]))]
    return []


def _text(node: ast.BinOp | ast.AugAssign) -> bool:
    sides = [node.value] if isinstance(node, ast.AugAssign) else [node.left, node.right]
    return any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str) for side in sides)


def places(tree: ast.AST, inside: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes that can be changed, each with the function that it stands in; no annotations, no messages."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "exc", "keys", "type_comment"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not _typing_only(node):
                named = isinstance(node, (ast.FunctionDef, ast.ClassDef))
                within = f"{inside}.{node.name}".strip(".") if named else inside  # type: ignore[attr-defined]
                if changes(node):
                    yield node, inside
                yield from places(node, within)


def _typing_only(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    targets = getattr(node, "targets", [])
    # An alias of types, such as Block = tuple[int, int] | None, is an annotation by another name.
    return (
        bool(targets)
        and isinstance(node, ast.Assign)
        and isinstance(node.value, (ast.Subscript, ast.BinOp))
        and (isinstance(targets[0], ast.Name) and targets[0].id[:1].isupper() and not targets[0].id.isupper())
    )


def mutants(part: Part, seed: int) -> tuple[int, list[Mutant]]:
    """Return how many places a part has, and a change of each that was drawn."""
    found = [
        Mutant(str(path.relative_to(ROOT)), inside or "(module)", number, 0, "", "")
        for path in part.files()
        for number, (_, inside) in enumerate(places(ast.parse(path.read_text(encoding="utf-8"))))
    ]
    draw = random.Random(seed)
    drawn = found if part.sample is None else draw.sample(found, min(part.sample, len(found)))
    for mutant in drawn:
        node, _ = list(places(ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))))[mutant.place]
        mutant.change = draw.randrange(len(changes(node)))
        mutant.before, mutant.after = _line(node), _line(changes(node)[mutant.change](copy.deepcopy(node)))
    return len(found), drawn


def _line(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]
    return text if len(text) <= 90 else f"{text[:87]}..."


def changed(source: str, mutant: Mutant) -> str:
    """Return the source with the change in it."""
    tree = ast.parse(source)
    node, _ = list(places(tree))[mutant.place]
    new = changes(node)[mutant.change](copy.deepcopy(node))

    class Put(ast.NodeTransformer):
        def generic_visit(self, other: ast.AST) -> ast.AST:
            return new if other is node else super().generic_visit(other)

    return ast.unparse(ast.fix_missing_locations(Put().visit(tree)))


# ---------------------------------------------------------------- trials


@dataclass
class Trial:
    """A pytest plugin: which tests are run, quickest first, and what became of each and which functions it ran."""

    chosen: dict[str, float] | None = None
    watched: Path | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    failed: str = ""
    ran: dict[str, set[str]] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.chosen is not None:
            items[:] = sorted((i for i in items if i.nodeid in self.chosen), key=lambda i: self.chosen[i.nodeid])  # type: ignore[index]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed:
            self.failed = report.nodeid
            self.passed.discard(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        if self.watched is None:
            return (yield)
        here, prefix = self.ran.setdefault(item.nodeid, set()), str(self.watched)

        def called(frame: Any, event: str, _: Any) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(prefix):
                name = frame.f_code.co_qualname.replace(".<locals>", "")
                here.add(f"{frame.f_code.co_filename[len(prefix) + 1 :]} {name}")

        sys.setprofile(called)
        try:
            return (yield)
        finally:
            sys.setprofile(None)


def copied(place: Path) -> None:
    """Copy what belongs to the project, with the rooms inside the package: so nothing installed stands before it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    for room in ROOMS:
        (place / room).rename(place / "evenfold" / room)
        (place / room).symlink_to(place / "evenfold" / room)
    # Compiled once, for every process; by content, for a change may be as long as what it changes.
    compileall.compile_dir(place / "evenfold", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


def tried(place: Path, tests: tuple[str, ...], trial: Trial, cpu_seconds: int) -> dict[str, Any]:
    """Return what a forked process reports of these tests, stopped at the first that fails unless all are watched."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
        os.chdir(place)
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(place / ".hypothesis")
        sys.path[:0] = [str(place), str(place / "tests")]
        sys.dont_write_bytecode = True
        options = [
            "-q",
            "--noconftest",
            "-p",
            "no:cacheprovider",
            "--hypothesis-seed=0",
            "--basetemp",
            str(place / "t"),
        ]
        with (place / "log.txt").open("w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            code = pytest.main([*options, *([] if trial.watched else ["-x"]), *tests], plugins=[trial])
        told = {"code": int(code), "failed": trial.failed, "passed": sorted(trial.passed), "seconds": trial.seconds}
        with os.fdopen(write, "w") as answer:
            json.dump(told | {"ran": {name: sorted(ran) for name, ran in trial.ran.items()}}, answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return dict(json.loads(said)) if said else {"code": -1, "failed": "the time that it may take", "seconds": {}}


def noticing(mutant: Mutant, passed: dict[str, float], ran: dict[str, list[str]], most: float) -> dict[str, float]:
    """Return the seconds of the tests that run the changed function, quickest first, as far as ``most`` seconds reach.

    For what is run on import: the tests that run anything of the file.
    """
    function = f"{mutant.file} {mutant.function}"
    mine = [name for name in passed if function in ran[name]]
    mine = mine or [name for name in passed if any(run.startswith(f"{mutant.file} ") for run in ran[name])]
    chosen, spent = {}, 0.0
    for name in sorted(mine, key=passed.__getitem__):
        spent += passed[name]
        if chosen and spent > most:
            break
        chosen[name] = passed[name]
    return chosen


def try_all(part: Part, chosen: list[Mutant]) -> Iterator[str]:
    """Note on each mutant what came of it, and yield it in a line."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name in COMMON.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        place = Path(folder)
        copied(place)
        usual = tried(place, part.tests, Trial(watched=place / "evenfold"), 1_800)
        passed = {name: usual["seconds"][name] for name in usual["passed"]}
        yield f"{len(passed)} tests pass unchanged; {len(usual['seconds']) - len(passed)} need what is not here"
        for number, mutant in enumerate(chosen, 1):
            mine = noticing(mutant, passed, usual["ran"], 8 * SECONDS if mutant.outcome else SECONDS)
            path, source = place / "evenfold" / mutant.file, (ROOT / mutant.file).read_text(encoding="utf-8")
            path.write_text(changed(source, mutant), encoding="utf-8")
            limit = int(20 + 4 * sum(mine.values()))
            done = tried(place, tuple(sorted({name.partition("::")[0] for name in mine})), Trial(mine), limit)
            path.write_text(source, encoding="utf-8")
            before, mutant.outcome = mutant.outcome, "survived" if done["code"] == 0 else "killed"
            mutant.test = done["failed"] or ("" if done["code"] == 0 else "nothing could be collected")
            mutant.killed_since = before == "survived" and mutant.outcome == "killed"
            yield f"{number}/{len(chosen)} {mutant.outcome}: {mutant.name}"


# ---------------------------------------------------------------- results


def main() -> None:
    """Run the parts that are named, all if none is, and write the results and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts; all of them if none is named")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--again", action="store_true", help="only what survived, against the tests of now")
    parser.add_argument("--page", action="store_true", help="only write the page")
    asked = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [] if asked.page else asked.parts or PARTS:
        if asked.again:
            kept = [Mutant(**known) for known in results[name]["mutants"]]
            for mutant in kept:
                _find_again(mutant)
            chosen, n_places = [mutant for mutant in kept if mutant.outcome == "survived"], results[name]["places"]
        else:
            n_places, chosen = mutants(PARTS[name], asked.seed)
            kept = chosen
        seed = results[name]["seed"] if asked.again else asked.seed
        about = {"date": datetime.now(UTC).date().isoformat(), "places": n_places, "seed": seed}
        for line in try_all(PARTS[name], chosen):
            tried = [vars(mutant) for mutant in kept if mutant.outcome]
            results[name] = about | {"mutants": tried}  # after each, so that a run may be ended at any time
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            sys.stderr.write(f"{name}: {line}\n")
            sys.stderr.flush()
    made = tables(results, yaml.safe_load(VERDICTS.read_text()) if VERDICTS.exists() else {})
    mark = re.compile(r"(<!-- results -->\n).*?(<!-- /results -->)", re.S)
    PAGE.write_text(mark.sub(lambda found: f"{found[1]}{made}{found[2]}", PAGE.read_text()))


def _find_again(mutant: Mutant) -> None:
    """Note which place a change that survived is of now: the nearest in its function that reads the same."""
    source = ROOT / mutant.file
    here = enumerate(places(ast.parse(source.read_text(encoding="utf-8"))) if source.exists() else ())
    alike = [i for i, (node, inside) in here if (inside or "(module)", _line(node)) == (mutant.function, mutant.before)]
    if mutant.outcome == "survived":
        mutant.place = min(alike, key=lambda i: abs(i - mutant.place), default=mutant.place)
        mutant.outcome = "survived" if alike else "gone"


def tables(results: dict[str, Any], verdicts: dict[str, str]) -> str:
    """Return a row for each part, and a row for each change that nobody noticed."""
    out = io.StringIO()
    out.write(HEAD)
    for name, found in results.items():
        outcomes = [Mutant(**known) for known in found["mutants"]]
        survived, killed, gone = (
            [mutant for mutant in outcomes if mutant.outcome == what] for what in ("survived", "killed", "gone")
        )
        equal = sum(verdicts.get(mutant.name, "").startswith("equal") for mutant in survived)
        since = sum(mutant.killed_since for mutant in outcomes)
        share = f"{100 * len(killed) / max(1, len(outcomes) - len(gone) - equal):.0f} %"
        drawn = f"{len(outcomes)}" + ("" if PARTS[name].sample is None else f" (seed {found['seed']})")
        cells = [found["date"], name, f"{found['places']:,}", drawn, len(killed), since, len(gone)]
        cells += [len(survived), equal, share]
        out.write(f"| {' | '.join(map(str, cells))} |\n")
    if any(mutant["outcome"] == "survived" for found in results.values() for mutant in found["mutants"]):
        out.write("\nWhat survived:\n\n| place | change | verdict |\n|---|---|---|\n")
    for found in results.values():
        for mutant in (Mutant(**known) for known in found["mutants"]):
            if mutant.outcome == "survived":
                before, after = (text.replace("|", "\\|") for text in (mutant.before, mutant.after))
                verdict = verdicts.get(mutant.name, "open")
                out.write(f"| `{mutant.file}`, `{mutant.function}` | `{before}` to `{after}` | {verdict} |\n")
    return out.getvalue()


HEAD = """| date | part | places | tried | killed | of these since | gone | survived | equal | score |
|---|---|---|---|---|---|---|---|---|---|
"""

if __name__ == "__main__":
    main()
