"""How even a split of any size is: the report that ``measure`` makes in memory, of what was counted by fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.attributes import levels_of
from evenfold.manifests.balance import asked_rows, attribute_balance, filled, shared_out, with_figures, worst_share
from evenfold.manifests.engines.deciding import rows_of_kept, strata_of
from evenfold.manifests.engines.engine import DuckDB
from evenfold.manifests.engines.groups import Groups
from evenfold.manifests.engines.ordered import Ordered, ShardWriter, stored
from evenfold.manifests.engines.stored import StoredManifest
from evenfold.manifests.figures import (
    AttributeBalance,
    BalanceReport,
    Distributed,
    Figures,
    FoldBalance,
    PartBalance,
    Reach,
)
from evenfold.manifests.membership import LOCKED, MOST_MEASURED, Labels
from evenfold.manifests.store.rows import codes_in_use
from evenfold.manifests.tables.canonical import require_columns, whole
from evenfold.splitters import GroupPacker, SplitError

from .beside import Beside, labels_of
from .counted import Counted

ATTRIBUTE_BYTES = 64  # a row of one column with its codes
Place = tuple[int, int]  # a repeat and a code


def measured(beside: Beside) -> BalanceReport:
    """Return how even the manifest is on the data; SplitError where they are not its rows, and for holes.

    One reading counts classes and groups by fold; a numeric target is sorted once more, out of core.
    """
    beside.require_exact()
    columns, labels = beside.columns, beside.labels
    balanced = [name for name in dict.fromkeys([columns.target, *columns.stratify]) if name]
    seen = Counted.of(beside)
    seen.require_complete([*balanced, *([columns.group] if columns.group else [])])
    report, places = _by_size(beside.manifest, labels, seen.rows)
    overall, figures = _of_places(seen, beside, places)
    update = {
        "target": columns.target,
        "largest_group": _largest_group(seen) if columns.group and beside.splitter.needs.groups else None,
        "strata": {name: worst_share(*_distribution(seen, name, places)) for name in columns.stratify},
        "attributes": {name: _attribute(beside, name, places) for name in columns.balance_on},
        "reach": _reach(seen),
    }
    return with_figures(filled(report, figures).model_copy(update={**overall, **update}))


def _of_places(seen: Counted, beside: Beside, places: list[Place]) -> Distributed:
    """Return the target's figures of all rows in use, and those of each place with the number of its groups."""
    columns = beside.columns
    overall, by_place = _distribution(seen, columns.target, places)
    if not columns.group:
        return overall, by_place
    groups = [seen.groups_in(columns.group, repeat) for repeat in range(beside.n_repeats)]
    return overall, [
        {**figures, "groups": groups[repeat].get(code, 0)}
        for figures, (repeat, code) in zip(by_place, places, strict=True)
    ]


def sizes_of(manifest: StoredManifest) -> BalanceReport:
    """Return how even a manifest is by the sizes of its folds alone. One reading of the manifest."""
    labels = labels_of(manifest)
    counts: list[dict[int, int]] = [{} for _ in range(labels.n_repeats)]
    for part in manifest.members():
        for repeat, column in enumerate(codes_in_use(part).T):
            for code, rows in zip(*np.unique(column, return_counts=True), strict=True):
                counts[repeat][int(code)] = counts[repeat].get(int(code), 0) + int(rows)
    return with_figures(_by_size(manifest, labels, counts)[0])


def _by_size(
    manifest: StoredManifest, labels: Labels, counts: Sequence[Mapping[int, int]]
) -> tuple[BalanceReport, list[Place]]:
    """Return what sizes alone say, and the place of each fold and part; ``counts``: rows of each code, by repeat."""
    in_use, tested = (sum(rows for code, rows in counts[0].items() if code >= least) for least in (LOCKED, 0))
    asked = asked_rows(labels, manifest.spec, in_use, tested)
    n_measured = min(labels.n_splits, MOST_MEASURED)
    splits = [(repeat, labels.tested[fold]) for repeat, fold in map(labels.split_name, range(n_measured))]
    others = [code for code in asked if code not in {code for _, code in splits}]
    report = BalanceReport(
        split_id=manifest.split_id,
        target=None,
        n_rows=in_use,
        n_splits=labels.n_splits,
        n_measured=n_measured,
        n_folds=labels.n_bins if not labels.parts and manifest.splitter.shares_out else None,
        folds=[
            FoldBalance(split=i, rows=counts[r].get(code, 0), wanted=asked.get(code))
            for i, (r, code) in enumerate(splits)
        ],
        parts=[PartBalance(name=labels.code_name(c), rows=counts[0].get(c, 0), wanted=asked[c]) for c in others],
    )
    return report, [*splits, *((0, code) for code in others)]


def _distribution(seen: Counted, name: str | None, places: list[Place]) -> Distributed:
    """Return how a column is distributed over all rows in use, and over those of each place."""
    if name is None:
        return {}, [{} for _ in places]
    if name in seen.numeric:
        distances = seen.distances[name]
        overall: Figures = {"mean": distances.mean, "sd": distances.sd}
        return overall, [distances.of.get(place, {}) for place in places]
    levels = seen.values(name)
    tables = [seen.table(name, repeat) for repeat in range(seen.beside.n_repeats)]
    everywhere = np.sum([rows for code, rows in tables[0].items() if code >= LOCKED], axis=0)
    counts = [tables[r].get(code, np.zeros(len(levels), dtype=np.int64)) for r, code in places]
    return shared_out(levels, everywhere, counts)


def _attribute(beside: Beside, name: str, places: list[Place]) -> AttributeBalance:
    """Return how a column that decides nothing is shared out: it is read as a whole, with the folds beside it."""
    require_columns([name], beside.ordered.types)
    needed = beside.ordered.n * ATTRIBUTE_BYTES
    if needed > beside.memory:
        raise SplitError(
            f"column {name!r} to balance on takes about {needed / 2**30:.1f} GB at {beside.ordered.n:,} rows, and "
            f"{beside.memory / 2**30:.1f} GB are allowed; allow more memory, or leave it out of balance_on."
        )
    codes = np.concatenate([codes.astype(np.int32) for codes, _ in beside.stretches([])])
    of, levels = levels_of(beside.ordered.columns([name]).column(name))
    ranks = [np.flatnonzero(codes[:, repeat] == code) for repeat, code in places]
    return attribute_balance(of, levels, np.flatnonzero(codes[:, 0] >= LOCKED), ranks)


def _largest_group(seen: Counted) -> int:
    codes, levels, rows = seen.by_code[0, str(seen.beside.columns.group)].triples
    return int(np.bincount(levels[codes >= 0], weights=rows[codes >= 0]).max(initial=0))


def _reach(seen: Counted) -> Reach | None:
    """Return how even a grouped split is and could be; None where ``measure`` in memory says nothing of it."""
    beside = seen.beside
    splitter, columns, labels = beside.splitter, beside.spec.columns, beside.labels
    if not isinstance(splitter, GroupPacker) or columns.group is None:
        return None
    tested = list(labels.parts.values()) or np.arange(labels.n_splits).tolist()
    if sum(seen.rows[0].get(code, 0) for code in tested) < 2:
        return None
    codes, levels, _ = seen.by_code[0, columns.group].triples
    each_in_one = np.unique(levels).size == levels.size and set(seen.rows[0]) <= {*tested, LOCKED}
    ordered = beside.ordered if each_in_one else _rows_of(beside, tested)
    used = np.isin(codes, [*tested, LOCKED] if each_in_one else tested)
    codes, levels = codes[used], levels[used]
    if np.unique(levels).size < levels.size:
        return None
    engine = DuckDB(beside.memory)
    groups = Groups.of(ordered, columns.group, engine)
    number = pc.index_in(groups.values, value_set=seen.levels[columns.group].values).to_numpy(zero_copy_only=False)
    code_of = np.full(len(seen.levels[columns.group]), LOCKED, dtype=np.int64)
    # Numbered by their appearance in all data; Groups may have read fewer rows, and numbers them in its own way.
    code_of[levels] = codes
    code_of = code_of[number]
    kept = np.isin(code_of, tested)
    strata = strata_of(groups, columns, splitter.needs)
    rows = rows_of_kept(groups, strata, groups.tables(engine, strata), kept, engine)
    return Reach(**asdict(splitter.judge(rows, code_of[kept])))


def _rows_of(beside: Beside, wanted: list[int]) -> Ordered:
    """Return the rows of the data that have some codes: those that are deleted or quarantined are in no figure."""
    names = list(beside.ordered.types)
    folder = beside.folder / "in-use"
    folder.mkdir()
    writer = ShardWriter(folder)
    for codes, table in beside.stretches(names):
        kept = table.filter(pa.array(np.isin(codes[:, 0], wanted)))
        writer.add(pa.table({name: stored(whole(kept.column(name))) for name in names}))
    writer.close()
    return Ordered(tuple(writer.shards), beside.ordered.types, beside.ordered.key)
