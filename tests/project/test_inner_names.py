"""Which inner names of Prefect stand in the room of the tasks: what is not documented changes with any release."""

from __future__ import annotations

import re
from pathlib import Path

ROOM = Path(__file__).resolve().parents[2] / "tasks"
INNER = re.compile(
    r"prefect\.(?:_(?!_)|results|server)|\b(?:ResultRecord|__var__|_max_workers)\b|^class \w+\((?:Task|Flow)\b", re.M
)
LEFT = {"runtime/server.py": 4}  # how often; it may only fall


def test_no_inner_name_of_prefect_comes_in() -> None:
    counted = {file.relative_to(ROOM).as_posix(): len(INNER.findall(file.read_text())) for file in ROOM.rglob("*.py")}
    assert {file: times for file, times in counted.items() if times} == LEFT
