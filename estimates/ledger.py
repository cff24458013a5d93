"""The ledger of looks at a holdout: a chain of digests in a file, which fails closed and can be verified."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from evenfold.splitters.errors import SplitError

START = "0" * 64


class LookLine(TypedDict):
    """A line of the ledger: a look that somebody is about to take, the digest of the line before it, and its own."""

    holdout: str
    before: str
    look: int
    by: str
    when: str
    reason: str
    model: Mapping[str, object]
    budget: int | None
    digest: str


def level_of_look(number: int, level: float = 0.95, budget: int | None = None) -> float:
    """Return the level at which the interval of look ``number`` (from 1) is to be computed, so that all hold together.

    A ``budget`` of looks shares the error 1 - level evenly (Bonferroni); without one it is spent as 1 / (k (k + 1)),
    which sums to one. All intervals hold at once with probability ``level`` for models that were not chosen in view of
    earlier looks. Looks under different budgets: see ``Ledger.sharing``.
    """
    if number < 1 or not 0 < level < 1:
        raise SplitError(f"look {number} at level {level:g}; looks count from 1, and a level is between 0 and 1.")
    # 1 / (1 x 2) + 1 / (2 x 3) + ... = 1; a look beyond the budget goes by that series too.
    return 1.0 - (1.0 - level) / (budget if budget and number <= budget else number * (number + 1))


@dataclass(frozen=True)
class Ledger:
    """The looks at one holdout, one JSON line each, in ``folder``; ``holdout``, a digest of the locked rows, names it.

    Each look holds the digest of the one before, so that changing, removing or inserting a look breaks the chain. That
    its last looks were cut off it cannot show alone: see ``missing``.
    """

    folder: Path
    holdout: str

    @property
    def path(self) -> Path:
        """The file of the looks."""
        return self.folder / f"{self.holdout}.jsonl"

    def looks(self) -> list[LookLine]:
        """Return the looks, oldest first, verified; raises SplitError that names the first look that does not fit."""
        looks: list[LookLine] = []
        if self.path.exists():
            # A byte that is no text becomes a sign that no digest was made of.
            for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
                looks.append(self._checked(line, looks))
        return looks

    def missing(self, digests: Mapping[str, str]) -> list[str]:
        """Return the names of looks that another record knows and this one lacks; ``digests``: names by digest."""
        held = {look["digest"] for look in self.looks()}
        return [name for digest, name in digests.items() if digest not in held]

    def open_look(
        self, by: str, when: str, reason: str, model: Mapping[str, object], budget: int | None, elsewhere: int = 0
    ) -> LookLine:
        """Record that somebody is about to look, and return the look, with its ``look`` number and ``digest``.

        The look is on disk before this returns; SplitError is raised, and nobody looks, where it cannot be written, the
        chain is broken or the ``budget`` is spent. ``elsewhere``: how many looks another record knows of; the larger
        number counts. A budget can be lowered and never raised. Callers hold a lock over the ledger. O(looks).
        """
        looks = self.looks()
        last, before = (looks[-1]["look"], looks[-1]["digest"]) if looks else (0, START)
        number = max(last, elsewhere) + 1
        budgets = [budget, *(look["budget"] for look in looks)]
        least = min((limit for limit in budgets if limit is not None), default=None)
        if least is not None and number > least:
            times = "once" if number == 2 else f"{number - 1} times"
            remedy = "lock fresh rows away (split new data with a holdout of their own)"
            raise SplitError(f"the holdout was looked at {times} and its budget is {least}; {remedy}.")
        look: LookLine = {
            "holdout": self.holdout, "look": number, "before": before, "by": by, "when": when, "reason": reason,
            "model": dict(model), "budget": least, "digest": "",
        }  # fmt: skip
        self._append(look)
        return look

    def sharing(self, look: LookLine) -> int | None:
        """Return the budget among whose looks a look shares the error evenly; None for the series without a budget.

        The series goes on after a look without a budget, or that is not in this file: k equal parts of n and
        then the series spend at most k/n + 1/(k + 1) of the error. O(looks).
        """
        earlier = [each for each in self.looks() if each["look"] < look["look"]]
        complete = len(earlier) == look["look"] - 1 and all(each["budget"] is not None for each in earlier)
        return look["budget"] if complete else None

    def _append(self, line: LookLine) -> None:
        """Give a line its digest, and write it to the disk."""
        line["digest"] = digest_of(line)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                if file.tell():  # a file that lost its last line break holds whole lines all the same
                    file.seek(-1, os.SEEK_END)
                    file.write(b"" if file.read(1) == b"\n" else b"\n")
                file.write(json.dumps(line, sort_keys=True).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            why = error.strerror or str(error)
            what = f"cannot be written to {self.path} ({why}), so the holdout stays closed"
            raise SplitError(f"the look {what}; make it writable.") from None

    def _checked(self, line: str, earlier: Sequence[LookLine]) -> LookLine:
        where = f"line {len(earlier) + 1} of {self.path}"
        number, before = (earlier[-1]["look"], earlier[-1]["digest"]) if earlier else (0, START)
        try:
            look = json.loads(line)
        except json.JSONDecodeError:
            look = None
        if not isinstance(look, dict) or set(look) != LookLine.__required_keys__:
            what = "is not a whole record; the ledger was cut, or something else wrote to it"
            raise SplitError(f"{where} {what}: restore it from a copy.")
        if look["digest"] != digest_of(look) or look["holdout"] != self.holdout:
            what = "was changed: its digest is not that of what it says"
            raise SplitError(f"{where} {what}; restore the ledger from a copy.")
        if look["before"] != before or look["look"] <= number:
            raise SplitError(f"a look is missing before {where}, which follows another; restore it from a copy.")
        return cast(LookLine, look)


def digest_of(look: Mapping[str, object]) -> str:
    """Return the SHA-256 of a look's canonical JSON, its digest aside."""
    plain = {name: value for name, value in look.items() if name != "digest"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
