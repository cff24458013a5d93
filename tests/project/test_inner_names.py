"""Which inner names of Prefect stand in tasks and flows: what is not documented changes with any release."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INNER = re.compile(
    r"prefect\.(?:_(?!_)|results|server)|\b(?:ResultRecord|__var__|_max_workers|PREFECT__\w+)\b"
    r"|^class \w+\((?:Task|Flow)\b", re.M
)  # fmt: skip
LEFT = {"tasks/runtime/server.py": 1}  # how often: the application that a server runs; it may only fall


def test_no_inner_name_of_prefect_comes_in() -> None:
    files = [file for room in ("tasks", "flows") for file in (ROOT / room).rglob("*.py")]
    counted = {file.relative_to(ROOT).as_posix(): len(INNER.findall(file.read_text())) for file in files}
    assert {file: times for file, times in counted.items() if times} == LEFT
