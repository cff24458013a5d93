"""What the soak tests found, kept in docs/results/soak.json and docs/soak.md with the seeds they used."""

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in (".", "soak", "tasks/runtime", "security")]
OUTAGES = "test_a_retraining_outlives_a_server["
PHASES = ("split", "fit", "aggregate", "record", "register")
FOUND: dict[str, dict[str, Any]] = {}
KNOWN = ("prefect", "mlflow", "sqlalchemy", "fastapi", "scikit-learn", "numpy")


@pytest.fixture
def found(request: pytest.FixtureRequest) -> Callable[..., None]:
    def note(**figures: Any) -> None:
        FOUND.setdefault(request.node.name, {}).update(figures)

    return note


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of its own with room for 20 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if item.get_closest_marker("soak") and (report.when == "call" or report.skipped):
        told = FOUND.setdefault(item.name, {})
        told |= {"outcome": report.outcome, "seconds": round(report.duration, 1)}
        if report.skipped:
            told["why"] = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not FOUND:
        return
    path = ROOT / "docs" / "results" / "soak.json"
    earlier = json.loads(path.read_text())["results"] if path.exists() else {}
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    results = {name: each for name, each in earlier.items() if f"def {name.partition('[')[0]}(" in tests}
    today = datetime.now(UTC).date().isoformat()
    results |= {name: {"date": today, **told} for name, told in FOUND.items()}
    versions = {name: version(name) for name in KNOWN}
    about = {"machine": f"{platform.machine()}, Python {platform.python_version()}", "versions": versions}
    path.write_text(json.dumps({**about, "results": dict(sorted(results.items()))}, indent=1) + "\n")
    (ROOT / "docs" / "soak.md").write_text(_markdown(about, results))


def _markdown(about: dict[str, Any], results: dict[str, dict[str, Any]]) -> str:
    told = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    head = f"# Soak\n\nWritten by `make soak`: real servers, real kills. {about['machine']}; {told}.\n"
    lines = ["| test | date | outcome | seconds | figures |", "|---|---|---|---|---|"]
    outages = {name: each for name, each in results.items() if name.startswith(OUTAGES)}
    for name, each in sorted(results.items()):
        if name in outages:
            continue
        rest = {key: value for key, value in each.items() if key not in ("date", "outcome", "seconds")}
        figures = "; ".join(f"{key.replace('_', ' ')} {value}" for key, value in rest.items())
        lines.append(
            f"| {name.replace('_', ' ')} | {each['date']} | {each['outcome']} | {each['seconds']} | {figures} |"
        )
    return "\n".join([head, *lines, "", *_matrix(outages)]) + "\n"


def _matrix(outages: dict[str, dict[str, Any]]) -> list[str]:
    cells = {tuple(name.removeprefix(OUTAGES).strip("[]").split("-")): each for name, each in outages.items()}
    across = sorted({(how, server) for server, _, how in cells}, reverse=True)
    told = [
        "## A server that is killed in a phase of a deployed retraining\n",
        f"Restarted at once, or gone for 120 s, {' and '.join(sorted({each['date'] for each in cells.values()}))}: how "
        "many seconds after the server was back the run had completed by itself. Then every run was FINISHED and there "
        "once, one version was registered, and the manifest was intact.\n",
        f"| phase | {' | '.join(f'{server} {how}' for how, server in across)} |",
        "|---" * (len(across) + 1) + "|",
    ]
    for phase in PHASES:
        row = [cells.get((server, phase, how), {"outcome": "not run"}) for how, server in across]
        seconds = [f"{each['seconds_until_completed']:.0f}" if each["outcome"] == "passed" else each["outcome"]
                   for each in row]  # fmt: skip
        told.append(f"| {phase} | {' | '.join(seconds)} |")
    return told
