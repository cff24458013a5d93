"""New rows beside the earlier ones: the summary of a table that the next one is compared with, and oddities."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from evenfold.manifests.audits.columns import Array, Column, column_of, count_pairs, ranks_of
from evenfold.manifests.audits.findings import CheckOutcome, Found, NotAsked, needed
from evenfold.manifests.audits.sample import types_in
from evenfold.manifests.joined import Joined
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.store.header import read_header
from evenfold.manifests.tables.aside import write_aside
from evenfold.manifests.tables.canonical import amount, canonical_table, listed
from evenfold.manifests.tables.keys import waiting_rows
from evenfold.manifests.tables.source import Source
from evenfold.splitters import SplitError
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A table when it was last learnt from: enough to see what became of it.

    ``target``: of each row of the manifest of ``plan_id``, in key order, null where the table lacked the row.
    ``categories``: digests of the values of each column of text that plays no role and has at most 1,000 of them.
    """

    plan_id: str
    target: pa.Array | None
    types: dict[str, str]
    categories: dict[str, list[str]]
    generation: int | None = None  # of the manifest that the table was learnt from; None where it is the newest

    @classmethod
    def of(cls, manifest: Manifest, data: Any) -> Snapshot:
        """Return the snapshot of ``data``, the table that ``manifest`` is a split of."""
        joined, columns = Joined.of(manifest, data), manifest.spec.columns
        types = types_of(joined.source)
        texts = [name for name, kind in types.items() if kind == "text" and name not in columns.roles()]
        digests = ((name, digests_of(joined.source, name)) for name in texts)  # one at a time
        categories = {name: sorted(of_values) for name, of_values in digests if len(of_values) <= 1000}
        rows = pa.array(joined.lookup.row, mask=joined.lookup.row < 0)
        target = joined.column(columns.target).take(rows).combine_chunks() if columns.target else None
        return cls(manifest.plan_id, target, types, categories)

    def grown(self, manifest: Manifest, generation: int) -> Snapshot:
        """Return the snapshot of an earlier generation as one of the manifest; of later rows no target is known."""
        older = manifest.generations <= generation
        # The snapshot is in the key order of its own generation: a row's place there is its rank among those kept.
        rows = np.cumsum(older) - 1
        target = None if self.target is None else self.target.take(pa.array(rows, mask=~older))
        return replace(self, plan_id=manifest.plan_id, target=target, generation=generation)

    @classmethod
    def newest(cls, manifest: Manifest, versions: Path, snapshots: Path) -> Snapshot | None:
        """Return the snapshot of the table last learnt from; a table that was stopped left none, the one before did.

        ``versions``: the folder of the versions of the manifest's name; ``snapshots``: where they are kept.
        """
        line = manifest.version.partition(".")[0]
        for generation in range(manifest.generation, -1, -1):
            version = versions / f"{line}.{generation}"
            if not (version / "manifest.json").exists():
                return None
            header = read_header(version)
            for identity in ("plan_id", "split_id"):  # the latter is what 0.1.0 named it by
                if (path := cls.path_of(str(header[identity]), snapshots)).exists():
                    return cls.read(path).grown(manifest, generation)
        return None

    @staticmethod
    def path_of(plan_id: str, snapshots: Path) -> Path:
        """Return where the snapshot of a split's table is kept: of the same folds another may have another target."""
        return snapshots / f"{plan_id}.parquet"

    def keep(self, snapshots: Path) -> None:
        """Keep the snapshot for the next table, for the owner of the results alone."""
        snapshots.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_aside(self.path_of(self.plan_id, snapshots), self.write)

    def write(self, path: Path) -> None:
        """Write the snapshot to a Parquet file."""
        about = {"plan_id": self.plan_id, "types": self.types, "categories": self.categories}
        table = pa.table({} if self.target is None else {"target": self.target})
        pq.write_table(table.replace_schema_metadata({"evenfold": json.dumps(about)}), path)

    @classmethod
    def read(cls, path: Path) -> Snapshot:
        """Return the snapshot in a file; raises SplitError where it is damaged."""
        try:
            table = pq.read_table(path)
            about = json.loads(table.schema.metadata[b"evenfold"])
            target = table.column("target").combine_chunks() if table.num_columns else None
            return cls(about.get("plan_id", ""), target, about["types"], about["categories"])
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise SplitError(f"{path} is not a snapshot of a table ({type(error).__name__}); delete it.") from None


def types_of(source: Source) -> dict[str, str]:
    """Return the type of each column that has one: not of lists or without a value. Of most the first rows are read."""

    def empty_in(block: pa.Table) -> list[str]:
        return [name for name in block.column_names if pc.all(pc.is_null(block[name], nan_is_null=True)).as_py()]

    types = types_in(source.schema)
    once = [name for name in types if source.names.count(name) == 1]
    empty = [name for block in islice(source.batches(once), 1) for name in empty_in(block)]
    for block in source.batches(empty) if empty else ():
        empty = [name for name in empty if name in empty_in(block)]
    return {name: kind for name, kind in types.items() if name not in empty}


def digests_of(source: Source, name: str) -> set[str]:
    """Return a digest of each value of a column of text, with the column's name in it."""
    values = {value for block in source.batches([name]) for value in pc.unique(block.column(name)).to_pylist()}
    return {hashlib.sha256(f"{name}={value}".encode()).hexdigest()[:16] for value in values if value is not None}


FEWEST = 20  # new rows, or known ones, below which nothing is asked
PARTS = (3, 24)  # the least and the most parts of the known ones
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Arrived:
    """A table beside the manifest that does not know its new rows yet, and the columns that matter (None: all)."""

    joined: Joined
    snapshot: Snapshot | None
    columns: Collection[str] | None
    quarantined: int = 0  # rows that extending puts out of use

    @cached_property
    def types(self) -> dict[str, str]:
        """The types of the columns that have one."""
        return types_of(self.joined.source)

    @property
    def manifest(self) -> Manifest:
        """The manifest before it is extended."""
        return self.joined.manifest

    @property
    def kept_target(self) -> pa.Array | None:
        """The known rows' target as it was, in key order, where it was kept."""
        return self.snapshot.target if self.snapshot and self.snapshot.plan_id == self.manifest.plan_id else None

    @cached_property
    def new(self) -> Rows:
        """The rows of the table that the manifest does not hold, and that do not wait."""
        waits = waiting_rows(self.joined.table, self.manifest.spec, self.manifest.types)
        return np.flatnonzero((self.joined.lookup.rank < 0) & ~waits)

    @cached_property
    def older(self) -> Rows:
        """The rows of the table that the manifest holds, in its order."""
        return self.joined.lookup.row[self.joined.lookup.row >= 0]

    @property
    def sides(self) -> tuple[Rows, Rows]:
        """The new rows and the older ones, where both are enough to compare."""
        needed(min(self.new.size, self.older.size) >= FEWEST, "there are few new rows")
        return self.new, self.older

    @cached_property
    def parts(self) -> list[Rows]:
        """The known rows in parts of about the new ones' number, in order of time; by generation without times."""
        when = self.times(self.manifest.spec.columns.time)
        if when is not None:
            n = min(max(self.older.size // self.new.size, PARTS[0]), PARTS[1])
            return np.array_split(self.older[np.argsort(when[self.older], kind="stable")], n)
        generation = self.manifest.generations[self.joined.lookup.rank[self.older]]
        parts = [self.older[generation == each] for each in np.unique(generation)]
        return [part for part in parts if part.size >= FEWEST] or [self.older]

    def column(self, name: str) -> Column | None:
        """Return a column; None of one that holds another kind of value than it did, which is another finding."""
        try:
            if name in self.manifest.spec.columns.roles():
                return column_of(name, self.joined.column(name))
            table = self.joined.source.table([name])  # not kept: a table has more of these than fit into memory
            return column_of(name, canonical_table(table, [name], self.manifest.types).column(name))
        except SplitError:
            return None

    def codes(self, name: str) -> Rows:
        """Return a number for each row's value of a column, -1 where it has none."""
        column = self.column(name)
        return np.full(self.joined.n, -1) if column is None else column.codes

    def times(self, name: str | None) -> Array | None:
        """Return times, or whole numbers as they are; None of any other column, or with gaps."""
        column = None if name is None else self.column(name)
        if column is None or column.kind == "category" or column.fractional or np.isnan(column.values).any():
            return None
        return column.values

    def numbers(self, name: str) -> Array | None:
        """Return a column of numbers, or of two classes; None of any other."""
        column = self.column(name)
        return column.values if column and (column.kind == "number" or column.n_levels == 2) else None


def _risen(figures: Mapping[str, tuple[float, float]], by: float, form: str, before: str, after: str) -> CheckOutcome:
    """Tell, between two pieces of a sentence, of the columns whose figure is now far above the most that it was."""
    risen = {name: (now, most) for name, (now, most) in figures.items() if now - most > by}
    columns = listed(f"{name} ({now:{form}}, at most {most:{form}} before)" for name, (now, most) in risen.items())
    figure = max((now - most for now, most in risen.values()), default=0.0)
    return Found(figure, f"{before} {columns}{after}", {"columns": [*risen]}) if risen else None


def constant_columns(arrived: Arrived) -> CheckOutcome:
    """Look for columns whose commonest value, or none, has a share of the new rows that no earlier part comes near."""
    columns, shares, (new, older) = arrived.manifest.spec.columns, {}, arrived.sides
    # With few earlier parts a column that names the month is no different: then measures, of many values, are asked.
    few = len(arrived.parts) < PARTS[0]
    parts = [older] if few else arrived.parts
    roles = {*columns.key, *columns.grouped, columns.time, columns.target}
    for name in sorted({*(arrived.columns or arrived.types)} & {*arrived.types} - roles):
        codes = arrived.codes(name) + 1
        now, *before = (float(np.bincount(codes[rows]).max() / rows.size) for rows in (new, *parts))
        if not few or (before[0] <= 0.05 and np.unique(codes[older]).size >= older.size / 2):
            shares[name] = now, max(before)
    rows = amount(new.size, "new row")
    return _risen(shares, 0.35, ".0%", "one value, or none, fills most of", f" in {rows}.")


def repeated_targets(arrived: Arrived) -> CheckOutcome:
    """Look for numbers as targets that repeat more often than any earlier part's, or less often than each."""
    name, (new, _) = arrived.manifest.spec.columns.target, arrived.sides
    if name is None or not arrived.joined.is_numeric(name):
        raise NotAsked("the target is no number")
    codes, parts = arrived.codes(name) + 1, (new, *arrived.parts)
    now, *before = (2 * count_pairs(codes[part]) / (part.size * (part.size - 1)) + 1 / new.size for part in parts)
    more, less = now / max(before), min(before) / now
    what = ("more", "capped, rounded or filled") if more > less else ("less", "made of something else")
    often = f"{max(more, less):.3g} times {what[0]} often than before: {what[1]}."
    message = f"two of {amount(new.size, 'new row')} have one {name} {often}"
    return Found(max(more, less), message) if max(more, less) > 2.0 else None


def restated_target(arrived: Arrived) -> CheckOutcome:
    """Look for columns of numbers that put the new rows in their target's order, as they did in no earlier part."""
    columns, orders, (new, _) = arrived.manifest.spec.columns, {}, arrived.sides
    y = arrived.numbers(needed(columns.target, "the split has no target"))
    if y is None:  # several classes, or text
        return None
    for name in sorted({*arrived.types} - {*columns.key, columns.target}):
        x = arrived.numbers(name)
        if x is not None and (now := _order(x[new], y[new])) >= 0.95:  # as no honest one has
            orders[name] = now, max(_order(x[part], y[part]) for part in arrived.parts)
    sentence = f"{columns.target} of {amount(new.size, 'new row')} stands in the order of"
    return _risen(orders, 0.1, ".2f", sentence, ": one made from the other.")


def _order(x: Array, y: Array) -> float:
    """Return the rank correlation without its sign, as a share of the largest that the ties of both allow."""
    finite = np.isfinite(x) & np.isfinite(y)
    if finite.sum() < FEWEST or finite.mean() < 0.5:
        return 0.0
    ranks = [values - values.mean() for values in (ranks_of(x[finite]), ranks_of(y[finite]))]
    largest = float(np.sort(ranks[0]) @ np.sort(ranks[1]))
    return abs(float(ranks[0] @ ranks[1])) / largest if largest > 0 else 0.0


def copied_rows(arrived: Arrived) -> CheckOutcome:
    """Look for new rows that are known ones, or one another, under other keys, with or without times and groups.

    What known rows share with one another, for few values tell them apart, is taken off. Columns that hold nothing but
    new values, as a number of the month does, are left out too where the rest still tells known rows apart.
    """
    columns, (new, older) = arrived.manifest.spec.columns, arrived.sides
    names = [name for name in arrived.types if name not in columns.key]
    figure, moved = 0.0, {*columns.grouped, columns.time}
    coded = {name: arrived.codes(name) for name in names}
    stamps = {name for name, codes in coded.items() if not np.isin(codes[new], codes[older]).any()}
    for without in ((), moved, moved | stamps):
        compared = [name for name in names if name not in without]
        if len(compared) < 2:
            continue
        values = np.zeros(arrived.joined.n, dtype=np.uint64)
        for name in compared:
            values = pd.util.hash_array(values * np.uint64(31) + coded[name].astype(np.uint64))
        usual = _twins(values, older, older)
        if not {*without} - moved or usual < 0.1:
            figure = max(figure, _twins(values, np.r_[older, new], new) - usual)
    message = f"{figure:.0%} of {amount(int(new.size), 'new row')} are other rows under new keys"
    message += ", beyond those that are alike by chance."
    return Found(figure, message) if figure > 0.1 else None


def _twins(values: NDArray[np.uint64], among: Rows, rows: Rows) -> float:
    once, counts = np.unique(values[among], return_counts=True)
    return float(np.isin(values[rows], once[counts > 1]).mean())


def jumps_in_time(arrived: Arrived) -> CheckOutcome:
    """Look for new rows further from the known times (named, or any) than their number explains at their pace."""
    role, (new, older), jumps = arrived.manifest.spec.columns.time, arrived.sides, []
    of_times = [name for name, kind in arrived.types.items() if kind in ("timestamp", "date")]
    for name in [role] if role else of_times:
        when = arrived.times(name)
        if when is None:
            continue
        low, high = float(when[older].min()), float(when[older].max())
        away = np.maximum(np.maximum(low - when[new], when[new] - high), 0)
        usual = (high - low) * min(new.size / older.size, 1.0)
        if usual > 0:  # One date that is mistyped stops nothing: 19 of 20 rows lie as near as the quantile.
            jumps.append((float(np.quantile(away, 0.95)) / usual, float(away.max()) / usual, name))
    figure, most, name = max(needed(jumps, "no column holds different times in known rows"))
    what = f"new rows lie up to {most:.3g} times further from the known times than their number explains"
    message = f"{what} ({figure:.3g} times but for one row in 20; {name}); dates that are wrong, or a gap."
    return Found(figure, message) if most > 4.0 else None


def swallowing_groups(arrived: Arrived) -> CheckOutcome:
    """Look for a group that most new rows are of, and that is larger than any known group was."""
    worst, (new, older) = (0.0, "", 0, 0), arrived.sides
    for name in arrived.manifest.spec.columns.grouped:
        codes = arrived.codes(name) + 1
        counts, before = np.bincount(codes[new]), int(np.bincount(codes[older])[1:].max(initial=1))
        counts[0] = 0  # rows without a group are none together
        size = int(counts.max()) + int(np.count_nonzero(codes[older] == counts.argmax()))
        if counts.max() > new.size / 2:
            worst = max(worst, (size / before, name, int(counts.max()), before))
    ratio, name, largest, before = worst
    message = f"one group of {name} has {largest:,} of {new.size:,} new rows, {ratio:.3g} times the largest known one"
    return Found(ratio, f"{message} ({before:,} rows).") if ratio > 2.0 else None


# Each tells of what is odd from some figure on, and the gates say where it stops a table.
CHECKS = constant_columns, repeated_targets, restated_target, copied_rows, jumps_in_time, swallowing_groups
TELLING = [check.__name__ for check in CHECKS]
