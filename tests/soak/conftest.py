"""What the soak tests found, kept in docs/soak.json and docs/soak.md with the seeds they used."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "tasks")]
FOUND: dict[str, dict[str, Any]] = {}
KNOWN = ("prefect", "mlflow", "sqlalchemy", "fastapi", "scikit-learn", "numpy")


@pytest.fixture
def found(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return what notes figures and seeds of this test for the results file."""

    def note(**figures: Any) -> None:
        FOUND.setdefault(request.node.name, {}).update(figures)

    return note


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
    path = ROOT / "docs" / "soak.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
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
    for name, each in sorted(results.items()):
        rest = {key: value for key, value in each.items() if key not in ("date", "outcome", "seconds")}
        figures = "; ".join(f"{key.replace('_', ' ')} {value}" for key, value in rest.items())
        lines.append(
            f"| {name.replace('_', ' ')} | {each['date']} | {each['outcome']} | {each['seconds']} | {figures} |"
        )
    return "\n".join([head, *lines]) + "\n"
