"""The ledger of looks at a holdout: a chain of digests in a file, which fails closed and can be verified."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast, final

from evenfold.splitters.errors import SplitError

START = "0" * 64
SECRET_BYTES = 32


class _Chained(TypedDict):
    """A line of the ledger: whose rows, the digest of the line before it, and its own."""

    holdout: str
    before: str
    digest: str


class _Looked(_Chained):
    look: int
    by: str
    when: str
    reason: str
    model: Mapping[str, object]
    budget: int | None


@final
class LookLine(_Looked, total=False):
    """Somebody is about to look; ``policy`` stands there where one answers instead of showing the score."""

    policy: str


class _Answered(_Chained):
    answers: int
    told: dict[str, float]
    spent: bool


@final
class AnswerLine(_Answered, total=False):
    """What look ``answers`` was told under a policy; ``noise`` names the secret that the noise followed from."""

    noise: str


_WHOLE = (LookLine.__required_keys__, AnswerLine.__required_keys__)
_MAY = LookLine.__optional_keys__ | AnswerLine.__optional_keys__


def level_of_look(number: int, level: float = 0.95, budget: int | None = None) -> float:
    """Return the level at which the interval of look ``number`` (from 1) is to be computed, so that all hold together.

    With a ``budget`` of looks each has an equal part of the error 1 - level (Bonferroni); without one it is spent as
    1 / (k (k + 1)), which sums to one however many looks there will be. Intervals of all looks hold at once with
    probability ``level``, for models that were not chosen in view of earlier looks. For models that were, see Ladder
    and Thresholdout; the interval is then a lower bound of what is not known. Where looks were under different budgets,
    ``budget`` is what ``Ledger.sharing`` says.
    """
    if number < 1 or not 0 < level < 1:
        raise SplitError(f"look {number} at level {level:g}; looks count from 1, and a level is between 0 and 1.")
    # 1 / (1 x 2) + 1 / (2 x 3) + ... = 1; a look beyond the budget goes by that series too.
    return 1.0 - (1.0 - level) / (budget if budget and number <= budget else number * (number + 1))


@dataclass(frozen=True)
class Ledger:
    """The looks at one holdout, one JSON line each, in ``folder``.

    The file is named by ``holdout``, a digest of which rows are locked: another name, another strategy or another split
    of the same data that locks the same rows has the same ledger. Each look holds the digest of the look before it, so
    a look that is changed, removed or put in between breaks the chain. What no ledger can show alone is that its last
    looks were cut off: compare ``head`` with a copy elsewhere, as the tracker's record of each look is.
    """

    folder: Path
    holdout: str

    @property
    def path(self) -> Path:
        """The file of the looks."""
        return self.folder / f"{self.holdout}.jsonl"

    def looks(self) -> list[LookLine]:
        """Return the looks, oldest first, verified; raises SplitError that names the first look that does not fit."""
        return [record for record in self._records() if "look" in record]

    def answers(self) -> list[AnswerLine]:
        """Return what was told of looks under a policy, oldest first, verified like ``looks``."""
        return [record for record in self._records() if "answers" in record]

    def _records(self) -> list[LookLine | AnswerLine]:
        records: list[LookLine | AnswerLine] = []
        if self.path.exists():
            # A byte that is no text becomes a sign that no digest was made of.
            for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
                records.append(self._checked(line, records))
        return records

    def missing(self, digests: Mapping[str, str]) -> list[str]:
        """Return what another record knows and this one lacks: ``digests`` of looks and what each is called."""
        held = {look["digest"] for look in self.looks()}
        return [name for digest, name in digests.items() if digest not in held]

    def head(self) -> str:
        """Return the digest of the last look: of all of them, as each holds the one before."""
        records = self._records()
        return records[-1]["digest"] if records else START

    def open_look(
        self,
        by: str,
        when: str,
        reason: str,
        model: Mapping[str, object],
        budget: int | None,
        elsewhere: int = 0,
        policy: str = "refuse",
        known_as: Collection[str] = (),
    ) -> LookLine:
        """Record that somebody is about to look, and return the look, with its ``look`` number and ``digest``.

        It is on disk before this returns: where it cannot be written, or the chain is broken, or the ``budget`` is
        spent, SplitError is raised and nobody looks. ``elsewhere`` is how many looks another record knows of: where
        that is more, as after this file was deleted, they count. A budget that an earlier look was under holds for all
        later ones, so it can be lowered and never raised. A ``policy`` that answers instead of showing the score is
        that of every look at these rows, of those that ``elsewhere`` knows too (``known_as``), and needs them all.
        Callers hold a lock over the ledger. O(looks).
        """
        looks = self.looks()
        self._require_policy(policy, {*known_as, *(look.get("policy", "refuse") for look in looks)})
        if policy != "refuse" and elsewhere > len(looks):
            raise SplitError(
                f"these locked rows were looked at {_times(elsewhere)}, and the ledger {self.path} holds {len(looks)} "
                "of that; what was told then decides what may be told now, so restore the ledger from a copy."
            )
        number = max(looks[-1]["look"] if looks else 0, elsewhere) + 1
        budgets = [budget, *(look["budget"] for look in looks)]
        least = min((limit for limit in budgets if limit is not None), default=None)
        self._require_left(policy, number, least)
        look: LookLine = {
            "holdout": self.holdout, "look": number, "before": self.head(), "by": by, "when": when, "reason": reason,
            "model": dict(model), "budget": least, "digest": "",
        }  # fmt: skip
        if policy != "refuse":
            look["policy"] = policy
        self._append(look)
        return look

    def sharing(self, look: LookLine) -> int | None:
        """Return the budget among whose looks a look shares the error evenly; None for the series without a budget.

        The series goes on where an earlier look was without a budget, or is not in this file: k equal parts of n and
        then the series spend at most k/n + 1/(k + 1) of the error, never more than all of it. O(looks).
        """
        earlier = [each for each in self.looks() if each["look"] < look["look"]]
        known = len(earlier) == look["look"] - 1 and all(each["budget"] is not None for each in earlier)
        return look["budget"] if known else None

    def answered(self, look: int, told: Mapping[str, float], spent: bool, noise: str = "") -> None:
        """Record what look ``look`` was told, and whether the holdout answered for itself; as ``open_look`` does.

        ``noise`` names the secret that the answer's noise followed from.
        """
        line: AnswerLine = {
            "holdout": self.holdout, "answers": look, "before": self.head(), "told": dict(told), "spent": spent,
            "digest": "",
        }  # fmt: skip
        if noise:
            line["noise"] = noise
        self._append(line)

    def noise(self) -> tuple[int, str]:
        """Return the seed of the noise of this holdout's answers, and what names the secret that it follows from.

        The secret is random, made with the first answer, and lies beside the ledger for its owner alone: neither the
        locked rows nor anything that is recorded tells the noise. The same secret gives the same noise. Raises
        SplitError where it cannot be made, others may read it, or it is not that of earlier answers.
        """
        earlier = {answer["noise"] for answer in self.answers() if "noise" in answer}
        secret = _secret_in(self.folder / "secret", made_before=bool(earlier))
        name = hmac.digest(secret, b"evenfold noise", "sha256").hex()[:16]
        if earlier - {name}:
            raise SplitError(
                f"the noise of earlier answers followed from another secret than that in {self.folder / 'secret'}; "
                "restore it from a copy, or lock fresh rows away."
            )
        return int.from_bytes(hmac.digest(secret, self.holdout.encode(), "sha256")[:6], "big"), name

    def spent(self) -> int:
        """Return how many answers of its own the holdout gave; a look that broke off before its answer is one."""
        answers = self.answers()
        return sum(answer["spent"] for answer in answers) + len(self.looks()) - len(answers)

    def _require_policy(self, policy: str, earlier: set[str]) -> None:
        other = sorted(earlier - {policy})
        if other:
            raise SplitError(
                f"these locked rows were looked at under the policy {other[0]!r}, and {policy!r} is asked for now; a "
                f"holdout keeps its policy: write policy: {other[0]}, or lock fresh rows away."
            )

    def _require_left(self, policy: str, number: int, budget: int | None) -> None:
        used = self.spent() if policy == "thresholdout" else number - 1
        if budget is not None and used >= budget:
            done = "gave answers of its own" if policy == "thresholdout" else "was looked at"
            raise SplitError(
                f"the holdout {done} {_times(used)} and its budget is {budget}; lock fresh rows away (split new data "
                "with a holdout of their own)."
            )

    def _append(self, line: LookLine | AnswerLine) -> None:
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
            raise SplitError(
                f"the look cannot be written to {self.path} ({why}), so the holdout stays closed; make it writable."
            ) from None

    def _checked(self, line: str, earlier: Sequence[LookLine | AnswerLine]) -> LookLine | AnswerLine:
        where = f"line {len(earlier) + 1} of {self.path}"
        before = earlier[-1]["digest"] if earlier else START
        number = max((look["look"] for look in earlier if "look" in look), default=0)
        try:
            look = json.loads(line)
        except json.JSONDecodeError:
            look = None
        if not isinstance(look, dict) or set(look) - _MAY not in _WHOLE:
            raise SplitError(
                f"{where} is not a whole record; the ledger was cut, or something else wrote to it: restore it from a "
                "copy."
            )
        if look["digest"] != digest_of(look) or look["holdout"] != self.holdout:
            raise SplitError(
                f"{where} was changed: its digest is not that of what it says; restore the ledger from a copy."
            )
        in_turn = look["look"] > number if "look" in look else look["answers"] <= number
        if look["before"] != before or not in_turn:
            raise SplitError(
                f"a look is missing before {where}, which follows another than the one above it; restore the ledger "
                "from a copy."
            )
        return cast(LookLine | AnswerLine, look)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def digest_of(look: Mapping[str, object]) -> str:
    """Return the SHA-256 of a look's canonical JSON, its digest aside."""
    plain = {name: value for name, value in look.items() if name != "digest"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _secret_in(path: Path, made_before: bool) -> bytes:
    """Return the secret in a file that its owner alone may read, which is made where there was none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # One that was lost is not made anew: with other noise, asking again would tell what the first noise hid.
        if not made_before and not path.exists():
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
                made.write(secrets.token_bytes(SECRET_BYTES))
                made.flush()
                os.fsync(made.fileno())
        mode, secret = path.stat().st_mode & 0o777, path.read_bytes()
    except OSError as error:
        why = error.strerror or str(error)
        raise SplitError(
            f"the secret {path} cannot be read or made ({why}), so the holdout stays closed; restore it from a copy."
        ) from None
    if mode & 0o077 or len(secret) != SECRET_BYTES:
        fault = f"others may read it (mode {mode:o}); chmod 600 it" if mode & 0o077 else "it was cut; restore it"
        raise SplitError(f"the secret {path} cannot be used: {fault}.")
    return secret
