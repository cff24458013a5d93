"""Our audit of a table."""

from __future__ import annotations

import pandas as pd
from evenfold.manifests import adopt, audit, decide, extend

from .tables import Table


def alarms(table: Table) -> set[str]:
    """Return the checks that warn or fail, each with the columns it names."""
    data, roles = table.frame, table.roles
    if table.grown:
        first = data.iloc[: -table.grown]
        manifest = extend(decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, first), data).manifest
    else:
        manifest = adopt(data, table.folds, "id", name="leaks", target="y")
    made = audit(manifest, data, time=roles.get("time"), group=roles.get("group"))
    found = set()
    for finding in made.findings:
        if finding.severity != "note":
            named = [name for name in data if any(name in str(figure) for figure in finding.figures.values())]
            found.add(" ".join([finding.check, *named]))
    return found


def frame_alarms(data: pd.DataFrame, target: str, key: str) -> list[str]:
    """Return the sentences of what warns or fails of a table that is split as we would split it."""
    manifest = decide({"columns": {"key": key, "target": target}, "seed": 1}, data)
    return [f"{found.check}: {found.message}" for found in audit(manifest, data).findings if found.severity != "note"]
