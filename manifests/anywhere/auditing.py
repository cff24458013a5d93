"""The audit of a split of any size: the checks that counts answer, and why each of the others was not asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
from evenfold.manifests.audits.audit import COUNTED_CHECKS
from evenfold.manifests.audits.findings import GATES, Audit, Check, Found, NotAsked, Outcome, gates_with, reasons_of
from evenfold.manifests.audits.judging import judged
from evenfold.manifests.audits.rows import DELETED_SAID, QUARANTINED_SAID, with_status
from evenfold.manifests.fields import Columns
from evenfold.manifests.joined import Counts, JoinedLabels
from evenfold.manifests.membership import LOCKED, MOST_MEASURED, NEVER_TESTED, Labels
from evenfold.manifests.tables.canonical import amount, verb
from evenfold.splitters import SplitError

from .beside import Beside, Fit
from .counted import Counted

ROW_BY_ROW = "it compares rows with one another, and they do not fit into memory; ask it of a table that does"
ALL_FIT = "rows are joined by position"


class CountedLabels(JoinedLabels):
    """Data beside folds of which counts alone are known: what the checks that take no single row look at."""

    def __init__(self, seen: Counted) -> None:
        object.__setattr__(self, "seen", seen)
        object.__setattr__(self, "manifest", seen.beside)  # it has the specification and the strategy, and no rows

    seen: Counted

    @property
    def columns(self) -> Columns:
        """The roles that are looked at."""
        return self.seen.beside.columns

    @property
    def labels(self) -> Labels:
        """The folds and parts, of no rows."""
        return self.seen.beside.labels

    @property
    def n(self) -> int:
        """The number of rows of the data."""
        return self.seen.n

    @property
    def n_looked_at(self) -> int:
        """All splits."""
        return self.labels.n_splits

    @property
    def looked_at(self) -> str:
        """Nothing is left out."""
        return ""

    def shares(self) -> dict[int, float]:
        """Return the share of all rows that each code should hold: as recorded, or equal."""
        recorded = (self.seen.beside.manifest.header["state"] or {}).get("shares")
        if recorded:
            return {int(code): float(share) for code, share in recorded}
        return dict.fromkeys(self.labels.tested, 1.0 / self.labels.n_bins)

    @cached_property
    def n_learnt(self) -> int:
        """The number of rows that a model of all rows learns from."""
        return sum(rows for code, rows in self.seen.rows[0].items() if code >= NEVER_TESTED)

    def is_numeric(self, name: str) -> bool:
        """Return whether a column is a number to predict."""
        self._require(name)
        return name in self.seen.numeric

    def levels(self, name: str) -> list[Any]:
        """Return the different values of a column of classes or groups."""
        self._require(name)
        return self.seen.values(name)

    def _require(self, name: str) -> None:
        if name not in self.seen.beside.ordered.types:
            raise SplitError(f"the data have no column {name!r}; name one that they have.")

    def level_rows(self, name: str) -> Counts:
        """Return the rows of each level."""
        return np.asarray(np.sum([*self.seen.table(name).values()], axis=0))

    def fold_table(self, repeat: int, name: str | None = None) -> Counts:
        """Return the rows of each code from -2 up and each class of a column; rows alone without one."""
        counts = self.seen.rows[repeat]
        tables = (
            {code: np.array([rows]) for code, rows in counts.items()} if name is None else self.seen.table(name, repeat)
        )
        width = 1 if name is None else len(self.seen.levels[name])
        table = np.zeros((max(*counts, *self.labels.tested) - LOCKED + 1, width), dtype=np.int64)
        for code, rows in tables.items():
            if code >= LOCKED:
                table[code - LOCKED] = rows
        return table

    def class_tables(self, name: str) -> tuple[Counts, Counts]:
        """Return the rows of each class of a column that each split trains on and tests."""
        return self.sides_of([self.fold_table(repeat, name) for repeat in range(self.labels.n_repeats)])

    def units(self, name: str) -> None:
        """Return None: single rows are not at hand."""

    def empty_places(self) -> list[str]:
        """Return the names of tested folds or parts that have no row in the data."""
        empty = []
        for repeat, counts in enumerate(self.seen.rows):
            of = f" of repeat {repeat}" if self.labels.n_repeats > 1 else ""
            empty += [f"fold {code}{of}" for code in self.labels.tested if not counts.get(code)]
        return empty

    def distances(self, name: str) -> list[tuple[float, int]]:
        """Return the KS distance of a numeric column in each fold from all rows in use, with the fold's code."""
        tested, of = set(self.labels.tested), self.seen.distances[name].of
        return [(float(figures["ks"] or 0.0), code) for (_, code), figures in of.items() if code in tested]

    def group_table(self, group: str, name: str | None = None) -> tuple[Counts, Counts, Counts]:
        """Return groups, classes of a column and their rows, of pairs that rows in use have; class 0 without one."""
        if name is not None:
            return self.seen.by_group[name].triples
        codes, groups, rows = self.seen.by_code[0, group].triples
        used = codes >= LOCKED
        totals = np.bincount(groups[used], weights=rows[used]).astype(np.int64)
        present = np.flatnonzero(totals)
        return present, np.zeros_like(present), totals[present]

    def crossing_groups(self, name: str) -> tuple[Counts, int, dict[str, int]]:
        """Return the groups that cross, how many rows they have that do, and how many of these are where."""
        self._require(name)
        crosses = np.zeros(len(self.seen.levels[name]), dtype=np.bool_)
        for repeat in range(self.labels.n_repeats):
            codes, groups, _ = self.seen.by_code[repeat, name].triples
            crosses |= np.bincount(groups[codes >= LOCKED], minlength=crosses.size) > 1
        codes, groups, rows = self.seen.by_code[0, name].triples
        placed = (codes >= LOCKED) & crosses[groups]
        in_use = np.unique(codes[placed])
        places = {self.labels.code_name(int(c)): int(rows[placed & (codes == c)].sum()) for c in in_use}
        return np.flatnonzero(crosses), int(rows[placed].sum()), places


def audited(
    beside: Beside, *, gates: Mapping[str, Any] | None = None, ignore: Mapping[str, str] | None = None
) -> Audit:
    """Return what counts say is wrong with a split of any size; a check of single rows says that it was not asked.

    Its figures are those of ``audit`` in memory; where that names the place of a row, this one names its key.
    """
    spec = beside.spec
    limits = gates_with({**spec.gates, **(gates or {})})
    fit = beside.fit()
    seen = Counted.of(beside)
    folds = CountedLabels(seen)
    checks: dict[str, Check] = dict.fromkeys(GATES, partial(NotAsked, ROW_BY_ROW))
    checks |= {check.__name__: partial(check, folds) for check in COUNTED_CHECKS}
    checks |= {
        "rows_without_fold": lambda: _without_fold(fit),
        "absent_rows": lambda: _absent(fit),
        "repeated_keys": lambda: _repeats(fit) if beside.ordered.key else NotAsked(ALL_FIT),
        "deleted_rows": lambda: with_status(fit.deleted, beside.manifest.n, DELETED_SAID),
        "quarantined_rows": lambda: with_status(fit.quarantined, beside.manifest.n, QUARANTINED_SAID),
    }
    if beside.labels.n_splits > MOST_MEASURED:
        checks["target_deviation"] = partial(NotAsked, f"there are {beside.labels.n_splits:,} folds")
    reasons = reasons_of({**spec.ignore, **(ignore or {})})
    return judged(limits, checks, beside.manifest, n_rows=seen.n, features=[], reasons=reasons)


def _without_fold(fit: Fit) -> Outcome:
    if not fit.new and not fit.back:
        return None
    amounts = [f"{amount(fit.new, 'row')} {verb(fit.new, 'has', 'have')} no fold"] if fit.new else []
    if fit.back:
        amounts.append(
            f"{amount(fit.back, 'row')} {verb(fit.back, 'was', 'were')} deleted and {verb(fit.back, 'is', 'are')} back"
        )
    return Found(fit.new + fit.back, f"{' and '.join(amounts)}: run extend.", {"new": fit.new, "back": fit.back})


def _absent(fit: Fit) -> Outcome:
    if not fit.absent:
        return None
    message = f"{amount(fit.absent, 'row')} of the manifest {verb(fit.absent, 'is', 'are')} not in the data"
    return Found(
        fit.absent, f"{message}: run `evenfold extend`, which marks them as deleted, or pass the data that were split."
    )


def _repeats(fit: Fit) -> Outcome:
    if not fit.repeats:
        return None
    message = f"{amount(fit.repeats, 'row')} {verb(fit.repeats, 'repeats', 'repeat')} the key of an earlier row"
    return Found(fit.repeats, f"{message}; drop the repeats, or name a key that is unique.")
