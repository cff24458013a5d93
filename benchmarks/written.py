"""What studies write: their figures, a row a line, and a table of them on a page of the docs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"


def write(name: str, told: dict[str, Any], page: str, table: str) -> None:
    """Write docs/results/NAME.json and, between the marks of that name on a page of the docs, its table; print it."""
    rows = json.dumps(told).replace(", {", ",\n{").replace("[{", "[\n{")
    (DOCS / "results" / f"{name}.json").write_text(rows + "\n", encoding="utf-8")
    mark, text = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S), (DOCS / page).read_text("utf-8")
    (DOCS / page).write_text(mark.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text), encoding="utf-8")
    print(table)
