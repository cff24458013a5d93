"""A change is tried in a copy of the repository, against the tests that run the changed function."""

import compileall
import contextlib
import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

import pytest
from parts import ROOT, Mutant, Part, changed

ROOMS = ("splitters", "manifests", "estimates", "reports", "tasks", "flows", "deployments")
SECONDS = 15.0
# Loaded once, before a process is forked for each change: they are most of what a run of few tests costs.
COMMON = (
    "numpy scipy.stats scipy.optimize scipy.special pandas pyarrow.parquet pyarrow.compute pyarrow.csv duckdb narwhals "
    "pydantic hypothesis.strategies sklearn.ensemble sklearn.model_selection sklearn.linear_model sklearn.pipeline "
    "sklearn.inspection imblearn.over_sampling skops.io threadpoolctl jinja2 polars"
)


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
        quietly = "-q --noconftest -p no:cacheprovider --hypothesis-seed=0 --basetemp"
        options = [*quietly.split(), str(place / "t")]
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
            passes = done["code"] in (0, 5)  # 5: no test of the part runs anything of the file
            before, mutant.outcome = mutant.outcome, "survived" if passes else "killed"
            mutant.test = done["failed"] or ("" if passes else "nothing could be collected")
            mutant.killed_since = before == "survived" and mutant.outcome == "killed"
            yield f"{number}/{len(chosen)} {mutant.outcome}: {mutant.name}"
