"""Folds in the forms that other tools read, and the JSON Schemas of what others read and write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.audits.findings import Audit
from evenfold.manifests.balance import PARTS, WORDS
from evenfold.manifests.fields import WRITTEN, Dialect, Format, Strict
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED, LOCKED, NEVER_TESTED, Labels, Ranks, resample_counts
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.store.header import SCHEMA, Header
from evenfold.manifests.store.stored import in_memory
from evenfold.manifests.tables.canonical import ColumnType, amount, listed, verb
from evenfold.manifests.tables.keys import key_values
from evenfold.manifests.tables.read import TABLES, read_table, require_place, source_of, write_whole
from evenfold.splitters import SplitError
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, TypeAdapter, with_config

from .partition import kept_rows, labels_of, rows_of
from .warehouse import DIALECTS, DialectWords, warehouse_sql

Json = dict[str, Any]
FOLD, PART = "fold", "split"  # the columns of exports


def folds_of(manifest: Manifest, repeat: int, to: str, least: int) -> NDArray[Any]:
    """Return the fold of every row that is kept; SplitError where a code is below ``least``."""
    labels = labels_of(manifest, to)
    manifest.split_number(0, repeat)
    folds = np.asarray(labels.column(repeat)[kept_rows(manifest)])
    if (unfit := folds[folds < least]).size:
        which = listed(f"{labels.code_name(code)} ({code})" for code in np.unique(unfit)[::-1].tolist())
        why = f"{to} has no word for {amount(unfit.size, 'row')} {which}; it would train on or test them"
        raise SplitError(f"{why}. Export to csv, and pass on the rows with a fold of 0 or more.")
    return folds


def parts_of(manifest: Manifest, to: str) -> list[str | None]:
    """Return train, validation, test or None of each row that is kept; SplitError where the manifest holds more."""
    labels = labels_of(manifest, to)
    if labels.n_splits != 1:
        tests = f"{manifest.name} {manifest.version} tests {labels.n_splits:,} {labels.unit}s"
        cure = "split with parts (HashSplit, BalancedGroupSplit), or take train_test(frame, fold)"
        raise SplitError(f"{to} takes one split into training, validation and test, and {tests}; {cure}.")
    part_of = {code: part for part, code in labels.parts.items()}
    if not part_of or not set(labels.parts) <= set(PARTS):  # parts of no such names are what their codes mean
        tested = "validation" if labels.locked.size else "test"
        part_of = {NEVER_TESTED: "train", labels.tested[0]: tested, LOCKED: "test"}
    return [part_of.get(code) for code in labels.column()[kept_rows(manifest)].tolist()]


def kept_keys(manifest: Manifest) -> pa.Table:
    """Return the keys of the rows that were not deleted; the position, as ``row``, where there is no key."""
    keys = manifest.keys if manifest.keys is not None else pa.table({"row": np.arange(manifest.n)})
    return keys.take(pa.array(kept_rows(manifest)))


def sides(manifest: Manifest, data: Any) -> Iterator[tuple[Ranks, Ranks, Ranks]]:
    """Yield the ranks that each split trains on, tests, and sets apart by a share to calibrate, as ``data`` say."""
    apart = data is not None and manifest.spec.calibration is not None
    cv = manifest.as_cv(read_table(data, types=manifest.key_types), calibration=True) if apart else None
    for i, (train, test) in enumerate(map(manifest.in_use.pair, range(manifest.n_splits))):
        left, held_out = (train, train[:0]) if cv is None else cv.parted(i, train)
        yield left, test, held_out


def sides_of(manifest: Manifest, data: Any = None) -> pa.Table:
    """Return the keys with every column of folds; of draws and pairs, and to calibrate, with a column a split.

    It says how often the split trains on each row, -1 where it tests, 0 for neither, -2 for what ``data`` set apart.
    """
    table, rows = kept_keys(manifest), kept_rows(manifest)
    if isinstance(manifest.in_use, Labels):
        for name, codes in manifest.in_use.columns(rows).items():
            table = table.append_column(name, codes)
        if manifest.spec.calibration is None:
            return table
    for i, (train, test, apart) in enumerate(sides(manifest, data)):
        counts = resample_counts(train, test, manifest.n)
        counts[apart] = -2
        table = table.append_column(f"split_{i}", pa.array(counts[rows], pa.int16()))
    return table


def _for_croissant(manifest: Manifest, repeat: int, **_: Any) -> tuple[str, str]:
    """Return Croissant 1.1 JSON-LD with a record a row: its key, and its split (of parts) or its fold; what is lost."""
    keys, kind = kept_keys(manifest), FOLD
    values = pa.array(folds_of(manifest, repeat, "croissant", least=EXCLUDED))
    if labels_of(manifest, "croissant").n_splits == 1:
        values, kind = pa.array(parts_of(manifest, "croissant"), pa.string()), PART
    if kind in keys.column_names:
        raise SplitError(f"the key has a column {kind!r} already; rename it: records have their {kind} by that name.")
    table = keys.append_column(kind, values).filter(values.is_valid())
    types = [field.type if pa.types.is_integer(field.type) else pa.large_string() for field in table.schema]
    table = table.cast(pa.schema(zip(table.column_names, types, strict=True)))
    kinds = ["sc:Integer" if pa.types.is_integer(each) else "sc:Text" for each in types]
    fields = [_field("rows", name, each) for name, each in zip(table.column_names, kinds, strict=True)]
    if kind == PART:
        fields[-1] |= {"dataType": ["sc:Text", "cr:Split"], "references": {"field": {"@id": "splits/name"}}}
    rows = table.rename_columns([f"rows/{name}" for name in table.column_names]).to_pylist()
    sets, used = [_record_set("rows", fields, rows)], [part for part in PARTS if part in values.unique().to_pylist()]
    if used:
        names = [_field("splits", "name", "sc:Text"), _field("splits", "url", "sc:URL")]
        of_part = {"train": "cr:TrainingSplit", "validation": "cr:ValidationSplit", "test": "cr:TestSplit"}
        urls = [{"splits/name": part, "splits/url": of_part[part]} for part in used]
        sets.insert(0, _record_set("splits", names, urls, dataType="cr:Split", key={"@id": "splits/name"}))
    about = f"{manifest.n:,} rows split by {manifest.algorithm['name']}; split_id {manifest.split_id}."
    document = CROISSANT | {"name": manifest.name, "version": f"{manifest.version}.0", "description": about}
    lost = "strategy and seed" + ("" if used else "; Croissant has no word for folds, so `fold` is a column of numbers")
    content = json.dumps(document | {"recordSet": sets}, ensure_ascii=False)
    return content, f"mlcroissant's records('rows') reads it. Lost: {lost}."


def _field(record_set: str, name: str, kind: str) -> Json:
    return {"@type": "cr:Field", "@id": f"{record_set}/{name}", "name": name, "dataType": kind}


def _record_set(name: str, fields: list[Json], rows: list[Json], **more: Any) -> Json:
    return {"@type": "cr:RecordSet", "@id": name, "name": name, **more, "field": fields, "data": rows}


CROISSANT: Json = {
    "@context": {
        "@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/", "dct": "http://purl.org/dc/terms/", "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        **{term: f"cr:{term}" for term in ("field", "key", "recordSet", "references")},
    },
    "@type": "sc:Dataset", "conformsTo": "http://mlcommons.org/croissant/1.1",
}  # fmt: skip


class Exported(Strict):
    """A file that was written for another tool: how many rows it has, and how it is read there."""

    path: str
    to: Format
    rows: int
    note: str


def export(
    manifest: Any, to: Format, path: str | Path, data: Any = None, *,
    repeat: int = 0, dialect: Dialect = "duckdb", table: str = "rows", memory: str | int | None = None,
) -> Exported:  # fmt: skip
    """Write the folds of ``manifest`` to ``path`` in the form that a tool reads, and return what was written.

    - ``sklearn``: .npy of PredefinedSplit's ``test_fold``, in the order of the rows of ``data``, which are needed.
    - ``h2o``, ``autogluon``: .csv or .parquet with the key and a column ``fold`` (0..k-1), for ``fold_column`` and
      ``groups="fold"``; ``spark``: .parquet of these (INT32), for ``foldCol`` once joined by key.
    - ``vertex``, ``databricks``, ``bigquery``: .csv or .parquet with the key and a column ``split`` of their three
      words, of a split into parts; ``adopt`` reads it again. These six hold all columns of ``data`` where it is given.
    - ``nnunet``: splits_final.json, a list of {"train": keys, "val": keys}, keys as text.
    - ``torch``: .json, the same of positions in ``data``, which are needed; ``adopt`` reads either again.
    - ``csv``: the key (or ``row``, the position) and every column of folds, with all their codes; of draws and pairs a
      column a split: how often it trains on the row, -1 where it is tested.
    - ``groups``: .parquet or .csv of the groups and their folds, and no rows: a split that may leave the building.
      ``adopt`` gives each row its group's fold again.
    - ``croissant``: .json, Croissant 1.1 with a record a row: key and split (of parts) or fold.
    - ``sql``: .sql in a ``dialect``, which gives each row of ``table`` its fold where it lies: see ``warehouse_sql``.

    ``note`` says how the file is taken, and what the form has no word for. Deleted rows are left out everywhere. The
    first four hold the folds of one ``repeat``, as croissant does, and have no word for rows that are locked or
    excluded; where a form cannot say what the manifest does, a SplitError says so. Rows that the specification's
    ``calibration`` sets apart have a list of their own in torch and nnunet, and -2 in a column a split in csv, which
    need the data then; the other forms are refused. The file appears whole or not at all. Columns of ``data`` that take
    more than ``memory`` are read several times; SplitError where the manifest's rows take more.
    """
    if to not in FORMS:
        raise SplitError(f"there is no export to {to!r}; choose {listed(FORMS, most=99)}.")
    form, whole = FORMS[to], in_memory(manifest, memory)
    require_place(path, form.suffixes)
    form.require_sayable(to, repeat, whole.spec.calibration, data)
    content, note = form.write(whole, to=to, data=data, repeat=repeat, dialect=dialect, table=table, memory=memory)
    return Exported(path=str(write_whole(path, content)), to=to, rows=kept_rows(whole).size, note=note)


Content = Any  # an array, an Arrow table or text


def _for_sklearn(manifest: Manifest, data: Any, repeat: int, **_: Any) -> tuple[Content, str]:
    folds_of(manifest, repeat, "sklearn", least=NEVER_TESTED)
    labels = labels_of(manifest, "sklearn")
    if labels.parts and labels.n_bins > 1:
        tested = listed(labels.code_name(code) for code in labels.tested)
        tests = f"{manifest.name} {manifest.version} tests {labels.n_bins} parts ({tested})"
        cure = "give scikit-learn as_cv(data), whose splits train on the train part alone, or export to nnunet"
        raise SplitError(f"{tests}, and PredefinedSplit trains on every part but the one it tests; {cure}.")
    folds = manifest.fold_of(data, repeat)
    if without := int(np.count_nonzero(folds < NEVER_TESTED)):
        what = f"{amount(without, 'row')} of the data {verb(without, 'has', 'have')} no fold in the manifest"
        cure = "leave them out of the data, or extend the manifest"
        raise SplitError(f"{what} (they wait, or were deleted); {cure}.")
    reads = "PredefinedSplit(numpy.load(...)) tests folds 0, 1, ... and never -1."
    return folds, f"rows in the order of the data's rows; {reads}"


def _for_sql(manifest: Manifest, dialect: Dialect, table: str, **_: Any) -> tuple[Content, str]:
    sql = warehouse_sql(manifest, dialect, table)
    note = f"{dialect} SQL; its last statement selects the rows with folds: NULL for a group without one."
    as_it_is = " Text in the table must be in Unicode's NFC form, which it cannot make."
    return sql, note + as_it_is * (DIALECTS[dialect].normal == DialectWords.normal)


def _for_column(
    manifest: Manifest, data: Any, to: str, repeat: int, memory: str | int | None, **_: Any
) -> tuple[Content, str]:
    """Return the keys of the kept rows that are in a part, or all columns of the data, in key order, with a column."""
    if to in WORDS:
        words = dict(zip(PARTS, WORDS[to], strict=True))
        name, column = PART, pa.array([words.get(str(part)) for part in parts_of(manifest, to)], pa.string())
        without = f" {amount(column.null_count, 'row')} in no part left out." if column.null_count else ""
        note = f"{FORMS[to].taken_by}{without} Lost: strategy, seed and every fold but this one."
    else:
        name, note = FOLD, FORMS[to].taken_by
        column = pa.array(folds_of(manifest, repeat, to, least=0), pa.int32())
    keys, source = kept_keys(manifest), None if data is None else source_of(data, manifest.key_types)
    if name in (keys.column_names if source is None else source.names):
        raise SplitError(f"the data have a column {name!r} already; rename it, or export without the data.")
    tables = iter([keys])
    if source is not None:
        tables = rows_of(source, manifest.positions(source)[kept_rows(manifest)], memory)

    def beside() -> Iterator[pa.Table]:
        start = 0
        for table in tables:
            here = column[start : start + table.num_rows]
            yield table.append_column(name, here).filter(here.is_valid())
            start += table.num_rows

    return beside(), note


def _for_groups(manifest: Manifest, **_: Any) -> tuple[Content, str]:
    if manifest.group_table is None:
        raise SplitError(f"{manifest.name} {manifest.version} keeps no groups whole, so its folds are those of rows.")
    names = [name for name in manifest.group_table.column_names if name.startswith(("entity", "group", "fold"))]
    nameless = " Rows without a group are in none of them." if manifest.spec.missing_group == "alone" else ""
    groups = amount(manifest.group_table.num_rows, "group")
    return manifest.group_table.select(names), f"{groups} and no rows.{nameless}"


def _lists(manifest: Manifest, data: Any, names: Callable[[Ranks], NDArray[Any]]) -> list[Json]:
    roles = ("train", "val", "calibration") if manifest.spec.calibration else ("train", "val")
    splits = (zip(roles, split, strict=False) for split in sides(manifest, data))
    return [{role: names(ranks).tolist() for role, ranks in split} for split in splits]


def _for_nnunet(manifest: Manifest, data: Any, **_: Any) -> tuple[Content, str]:
    if manifest.kind == "draws":
        raise SplitError(f"nnunet has no word for {amount(manifest.n_splits, 'draw')}; export folds, parts or pairs.")
    keys = manifest.keys if manifest.keys is not None else pa.table({"row": np.arange(manifest.n)})
    # As adopt makes text of them; numpy's text ends before a NUL.
    values = key_values(keys) if keys.num_columns > 1 else keys.column(0).to_pylist()
    names = np.array(list(map(str, values)), dtype=object)
    splits = _lists(manifest, data, lambda ranks: names[ranks])
    note = "nnU-Net reads splits_final.json in its folder of preprocessed data."
    return json.dumps(splits, indent=1, ensure_ascii=False), f"{amount(len(splits), 'split')}; {note}"


def _for_csv(manifest: Manifest, data: Any, **_: Any) -> tuple[Content, str]:
    note = "0 and above: tested in that fold; -1 never tested, -2 locked, -3 excluded."
    if manifest.kind != "labels" or manifest.spec.calibration is not None:
        apart = ", -2 set apart to calibrate by" if manifest.spec.calibration is not None else ""
        note = f"each split: how often it trains on a row; -1 tested, 0 neither{apart}."
    return sides_of(manifest, data), note


def _for_torch(manifest: Manifest, data: Any, **_: Any) -> tuple[str, str]:
    position = manifest.positions(read_table(data, types=manifest.key_types))
    splits, n = _lists(manifest, data, lambda ranks: np.sort(position[ranks])), manifest.in_use.locked.size
    lock = f", and the lock of {amount(n, 'row')}, which {verb(n, 'is', 'are')} on no side" if n else ""
    lost = f"Lost: keys, strategy and seed{lock}; the positions hold for this order of rows alone."
    return json.dumps(splits), f"Subset(dataset, split['train']) takes them, in Lightning's data modules too. {lost}"


@dataclass(frozen=True)
class Form:
    """A form that folds leave in: its writer (of content, and a note), and the endings that its files may have."""

    write: Callable[..., tuple[Content, str]]
    suffixes: tuple[str, ...] = TABLES[::-1]
    by_position: bool = False  # it is of the data's rows in their order
    calibrates: bool = False  # it can say of a row that it is set apart in a split
    of_one_repeat: bool = False  # the others hold every repeat, or parts, which have none
    taken_by: str = ""  # how a column of folds, or of words for parts, is taken

    def require_sayable(self, to: str, repeat: int, share: float | None, data: Any) -> None:
        """Raise SplitError for a ``repeat``, or rows to calibrate by, that it has no word for, and where data lack."""
        if repeat and not self.of_one_repeat:
            those = listed(name for name, form in FORMS.items() if form.of_one_repeat)
            why = f"repeat (--repeat) is for {those}, which hold one; {to} holds all that there are"
            raise SplitError(f"{why}: leave it out.")
        if share is not None and not self.calibrates:
            why = f"{to} has no word for the rows that calibration: {share:g} sets apart in each split, and would train"
            cure = "export to csv, nnunet or torch, or decide the split without it, which has the same folds"
            raise SplitError(f"{why} on them; {cure}.")
        if data is None and (share is not None or self.by_position):
            what = "rows by their position" if self.by_position else f"which rows calibration: {share:g} sets apart"
            raise SplitError(f"{to} tells {what}, and the data alone say that; give data (--data FILE).")


FORMS: dict[str, Form] = {
    "sklearn": Form(_for_sklearn, (".npy",), by_position=True, of_one_repeat=True),
    "h2o": Form(_for_column, of_one_repeat=True, taken_by="h2o takes fold_column='fold'."),
    "spark": Form(_for_column, (".parquet",), of_one_repeat=True, taken_by="CrossValidator takes foldCol='fold'."),
    "nnunet": Form(_for_nnunet, (".json",), calibrates=True),
    "csv": Form(_for_csv, (".csv",), calibrates=True),
    "groups": Form(_for_groups, TABLES),
    "autogluon": Form(_for_column, of_one_repeat=True, taken_by="AutoGluon takes TabularPredictor(groups='fold')."),
    "torch": Form(_for_torch, (".json",), by_position=True, calibrates=True),
    "vertex": Form(_for_column, taken_by="vertex takes predefined_split_column_name='split'."),
    "databricks": Form(_for_column, taken_by="databricks takes split_col='split'."),
    "bigquery": Form(
        _for_column, taken_by="bigquery takes DATA_SPLIT_METHOD='CUSTOM', DATA_SPLIT_COL='split', with NUM_TRIALS."
    ),
    "croissant": Form(_for_croissant, (".json",), of_one_repeat=True),
    "sql": Form(_for_sql, (".sql",)),
}
VERSION = SCHEMA.rpartition("/")[2]


@with_config(ConfigDict(**WRITTEN, title="Header"))
class _Header(Header):
    spec: SplitSpec  # type: ignore[misc]
    types: dict[str, ColumnType | Annotated[str, Field(pattern="^hmac-sha256-(64|128):2-[0-9a-f]{32}$")]]


_Header.__doc__ = Header.__doc__


def json_schemas() -> dict[str, Json]:
    """Return each schema by its file name, ``evenfold-<what>-<version>.schema.json``: spec, manifest and audit.

    JSON Schema 2020-12, made from the very models that read and write. The number is that of the format: what a reader
    of it relies on does not change under it.
    """
    dialect, schemas = "https://json-schema.org/draft/2020-12/schema", dict[str, Json]()
    for name, model in (("spec", SplitSpec), ("manifest", _Header), ("audit", Audit)):
        about = {"$schema": dialect, "$id": f"urn:evenfold:{name}:{VERSION}"}
        schemas[f"evenfold-{name}-{VERSION}.schema.json"] = about | TypeAdapter(model).json_schema()
    return schemas
