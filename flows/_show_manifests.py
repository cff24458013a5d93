"""What people read on a terminal of an audit, a verification, a difference and an export."""

from __future__ import annotations

from evenfold.manifests import Audit, Difference, Exported, Verification
from pydantic import BaseModel, ConfigDict
from rich.console import Console

_STYLES = {"error": "bold red", "warning": "yellow", "note": ""}


class Joined(BaseModel):
    """Rows that were written for one side of one split."""

    model_config = ConfigDict(frozen=True)

    path: str
    rows: int
    fold: int
    repeat: int
    role: str


class Imported(BaseModel):
    """A manifest that was made of folds decided elsewhere."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    version: str
    strategy: str
    n_rows: int
    n_splits: int
    split_id: str
    uri: str


def show_audit(console: Console, made: Audit) -> None:
    """Print every finding, errors first, then how many checks passed and which were not asked."""
    features = ", ".join(made.features) or "none"
    _say(console, f"{made.name} {made.version}: {made.n_rows:,} rows; features: {features}")
    for each in made.findings:
        mark = "failed " if each.gate == "failed" else each.severity
        console.print(f"  {mark:8} {each.check}: {each.message}", style=_STYLES[each.severity], markup=False)
    _say(console, f"  {len(made.passed)} checks passed{'' if made.findings else ', nothing was found'}")
    for name, reason in made.not_asked.items():
        _say(console, f"  not asked {name}: {reason}")
    if made.off:
        _say(console, f"  off: {', '.join(made.off)}")


def show_verification(console: Console, found: Verification) -> None:
    """Print what is damaged, or what was proved."""
    _say(console, f"{found.folder}: {'intact' if found.intact else 'damaged'}")
    for damage in found.damages:
        console.print(f"  damaged  {damage.message}", style=_STYLES["error"], markup=False)
    for said in found.proved:
        _say(console, f"  proved   {said}")
    for said in found.not_proved:
        _say(console, f"  not proved: {said}")


def show_difference(console: Console, found: Difference) -> None:
    """Print which rows went where and which fields differ."""
    _say(console, f"{found.a} -> {found.b}: {'the same split' if found.same else 'another split'}")
    for said in found.sentences:
        _say(console, f"  {said}")


def show_export(console: Console, made: Exported) -> None:
    """Print what was written and how it is read."""
    _say(console, f"{made.path}: {made.rows:,} rows; {made.note}")


def show_join(console: Console, made: Joined) -> None:
    """Print what was written."""
    of = f" of repeat {made.repeat}" if made.repeat else ""
    _say(console, f"{made.path}: the {made.rows:,} rows that fold {made.fold}{of} has for {made.role}")


def show_import(console: Console, made: Imported) -> None:
    """Print the identity of the manifest and where it lies."""
    _say(console, f"{made.name} {made.version}: {made.strategy}, {made.n_rows:,} rows, {made.n_splits:,} splits")
    _say(console, f"  split_id {made.split_id[:16]}\n  manifest {made.uri}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False)
