"""What there is: splits, evaluations, tunings and models, with the short ids and names that every command accepts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from .busy import answer, busy
from .flags import Json

SHOWN = 20


def list_(
    every: Annotated[bool, typer.Option("--all", help="Every one, not the newest of each kind alone.")] = False,
    as_json: Json = False,
) -> None:
    """List splits, evaluations, tunings and models, with the short ids and names that commands accept.

    Example: evenfold list
    """
    with busy("looking for what was recorded") as home:
        from evenfold.tasks.record.runs import recorded_models, recorded_runs
        from evenfold.tasks.references import recorded_splits

        looks = home.is_recorded  # looking makes no store
        listed = {"splits": recorded_splits(home)}
        listed |= {kind: recorded_runs(home, kind[:-1]) if looks else [] for kind in ("evaluations", "tunings")}
        listed |= {"models": recorded_models(home) if looks else []}

        from .console import lined_up

    def show(out: Any, _: object) -> None:
        for kind, rows in listed.items():
            newest = rows if every else rows[:SHOWN]
            if newest:
                cells = [[kind, *list(newest[0])[1:]], *([_cell(*each) for each in row.items()] for row in newest)]
                out.print("\n".join(lined_up(cells, left=len(newest[0]), indent=0)), soft_wrap=True)
                if len(rows) > len(newest):
                    out.say(f"and {len(rows) - len(newest):,} older {kind}: evenfold list --all")
                out.print()
        if not any(listed.values()):
            out.say(f"nothing below {home.path} yet; begin with: evenfold split FILE")

    answer(listed, as_json, show)


def _cell(name: str, value: str | int) -> str:
    if name in ("id", "run"):
        return str(value)[:8]
    if name == "when":
        return datetime.fromisoformat(str(value)).strftime("%d %b %Y %H:%M")
    return f"{value:,}" if isinstance(value, int) else str(value)
