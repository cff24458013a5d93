"""Documents that carry rows inside: splitGraph's split_spec and Croissant's records; both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED
from evenfold.manifests.spec import SplitSpec, read_spec
from evenfold.manifests.tables.canonical import canonical_table, to_numpy
from evenfold.manifests.tables.keys import key_names, key_values, with_keys
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import SplitError

from .kept import folds_of_kept, kept_keys, kept_rows, labels_of
from .load_folds import import_folds
from .parts import COLUMN, PARTS, import_parts, parts_of

SPLIT_URLS = {"train": "cr:TrainingSplit", "validation": "cr:ValidationSplit", "test": "cr:TestSplit"}


def for_split_graph(manifest: Manifest, data: Any, repeat: int) -> tuple[str, str]:
    """Return splitGraph's split_spec of the data's rows (which belong together, in what order), and what is lost.

    Where the manifest holds pseudonyms of keys and groups, so does the file.
    """
    columns = manifest.spec.columns
    if data is None or columns.group is None or manifest.keys is None:
        raise SplitError("splitgraph says which rows belong together; give data, and split with a key and a group.")
    table = read_table(data, types=manifest.spec.types)
    table = table.take(pa.array(manifest.positions(table)[kept_rows(manifest)]))
    plain = canonical_table(table, [*columns.key, columns.group], {**manifest.types, **manifest.spec.types})
    named = with_keys(plain, manifest.spec, manifest.types)
    rows = {"sample_id": _text(named, key_names(manifest.spec)), "group_id": _text(named, [columns.group])}
    if columns.time:
        times = to_numpy(canonical_table(table, [columns.time], manifest.types).column(columns.time))
        rows["order_rank"] = (np.unique(times, return_inverse=True)[1] + 1).tolist()
    stratum = columns.stratify[0] if columns.stratify else columns.target
    if stratum and manifest.types.get(stratum) in ("text", "bool"):
        rows["stratum"] = _text(canonical_table(table, [stratum], manifest.types), [stratum])
    document = {
        "splitGraph_object": "split_spec",
        "schema_version": "0.3.0",
        "group_var": "group_id",
        "block_vars": [],
        "time_var": "order_rank" if columns.time else None,
        "stratum_var": "stratum" if "stratum" in rows else None,
        "ordering_required": bool(columns.time),
        "metadata": {"source_mode": "evenfold", "relations_used": [columns.group], "split_id": manifest.split_id},
        "sample_data": [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)],
    }
    note = (
        "load_split_spec(path) of splitGraph reads it. Lost: the folds, strategy and seed; it says what stays together."
    )
    return json.dumps(document, ensure_ascii=False), note


def _text(table: pa.Table, names: list[str]) -> list[str]:
    return [str(value) for value in key_values(table.select(names)).tolist()]


def read_split_spec(path: str | Path, *, name: str = "imported") -> tuple[SplitSpec, pa.Table]:
    """Return the specification that splitGraph's split_spec stands for, and its samples as a table to decide on.

    Rows of one group stay together (BalancedGroupKFold); where an order is required, folds train on the past
    (ForwardChaining over order_rank). Raises SplitError for a file of another kind or major version.
    """
    document = _json(path)
    version = str(document.get("schema_version", "0")).partition(".")[0]
    if document.get("splitGraph_object") != "split_spec" or version != "0":
        raise SplitError(f"{path} is not a split_spec of splitGraph with schema 0.x; write one by write_split_spec.")
    samples, group = document.get("sample_data") or [], document.get("group_var", "group_id")
    if not samples or any("sample_id" not in row or group not in row for row in samples):
        raise SplitError(f"{path} lacks sample_data with a sample_id and a {group} in each row; derive it again.")
    ordered = bool(document.get("ordering_required"))
    columns = {"key": "sample_id", "group": group, "stratify": document.get("stratum_var") or []}
    columns |= {"time": "order_rank", "stratify": []} if ordered else {}
    strategy = "ForwardChaining" if ordered else "BalancedGroupKFold"
    fields = dict.fromkeys(field for row in samples for field in row)
    table = pa.table({field: [row.get(field) for row in samples] for field in fields})
    return read_spec({"name": name, "columns": columns, "strategy": strategy}), table


def for_croissant(manifest: Manifest, data: Any, repeat: int) -> tuple[str, str]:
    """Return Croissant 1.1 JSON-LD with a record a row: its key, and its split (of parts) or its fold; what is lost."""
    labels, keys = labels_of(manifest, "croissant"), kept_keys(manifest)
    values, kind = folds_of_kept(manifest, repeat, "croissant", least=EXCLUDED).tolist(), "fold"
    if labels.n_splits == 1:
        values, kind = parts_of(manifest, "croissant")[kept_rows(manifest)].tolist(), COLUMN
    if kind in keys.column_names:
        raise SplitError(f"the key has a column {kind!r} already; rename it: records have their {kind} by that name.")
    fields = {name: _plain(keys.column(name)) for name in keys.column_names} | {kind: values}
    rows = [
        {f"rows/{name}": value for name, value in zip(fields, row, strict=True)}
        for row in zip(*fields.values(), strict=True)
        if row[-1] is not None
    ]
    whole = {name for name, column in fields.items() if all(isinstance(value, int) for value in column)}
    described = [_field("rows", name, "sc:Integer" if name in whole else "sc:Text") for name in fields]
    if kind == COLUMN:
        described[-1] |= {"dataType": ["sc:Text", "cr:Split"], "references": {"field": {"@id": "splits/name"}}}
    rows_set = {"@type": "cr:RecordSet", "@id": "rows", "name": "rows", "field": described, "data": rows}
    used = [part for part in PARTS if part in values]
    document = _croissant(manifest) | {"recordSet": [*([_splits(used)] if used else []), rows_set]}
    lost = "strategy and seed" + ("" if used else "; Croissant has no word for folds, so `fold` is a column of numbers")
    return json.dumps(document, ensure_ascii=False), f"mlcroissant's records('rows') reads it. Lost: {lost}."


def _plain(column: pa.ChunkedArray) -> list[Any]:
    plain = pa.types.is_integer(column.type) or pa.types.is_large_string(column.type)
    values: list[Any] = column.to_pylist() if plain else pc.cast(column, pa.string()).to_pylist()
    return values


def _field(record_set: str, name: str, kind: Any) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": f"{record_set}/{name}", "name": name, "dataType": kind}


def _splits(used: list[str]) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [_field("splits", "name", "sc:Text"), _field("splits", "url", "sc:URL")],
        "data": [{"splits/name": part, "splits/url": SPLIT_URLS[part]} for part in used],
    }


def _croissant(manifest: Manifest) -> dict[str, Any]:
    terms = ("conformsTo", "data", "dataType", "field", "key", "recordSet", "references")
    context: dict[str, Any] = {"@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/"}
    context |= {"cr": "http://mlcommons.org/croissant/", "dct": "http://purl.org/dc/terms/"}
    context |= {term: f"cr:{term}" for term in terms} | {"conformsTo": "dct:conformsTo"}
    context |= {"data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"}}
    return {
        "@context": context,
        "@type": "sc:Dataset",
        "name": manifest.name,
        "version": f"{manifest.version}.0",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "description": f"{manifest.n:,} rows split by {manifest.algorithm['name']}; split_id {manifest.split_id}.",
    }


def import_croissant(path: str | Path, data: Any, key: str, *, name: str = "imported") -> Manifest:
    """Return a manifest of ``data`` by the records that a Croissant file holds inside: a key, and a split or a fold.

    Records are joined by key as text. Raises SplitError for a file without such records, and for rows that have none.
    """
    record_sets: list[dict[str, Any]] = _json(path).get("recordSet", [])
    rows: list[dict[str, Any]] = next((of.get("data", []) for of in record_sets if of.get("@id") == "rows"), [])
    kind = next((kind for kind in (COLUMN, "fold") if rows and f"rows/{kind}" in rows[0]), None)
    if kind is None or f"rows/{key}" not in rows[0]:
        raise SplitError(f"{path} holds no records with rows/{key} and a split or a fold; export it to croissant.")
    known = {str(row[f"rows/{key}"]): row[f"rows/{kind}"] for row in rows}
    table = read_table(data)
    names = [str(value) for value in _plain(canonical_table(table, [key], {}).column(key))]
    absent = [name for name in names if name not in known]
    if absent:
        raise SplitError(f"{len(absent):,} rows of the data have no record in {path} (first {absent[0]!r}).")
    values = pa.array([known[name] for name in names])
    if kind in table.column_names:
        table = table.drop_columns([kind])
    of_rows = table.append_column(kind, values)
    return import_parts(of_rows, key, name=name) if kind == COLUMN else import_folds(of_rows, key, kind, name=name)


def _json(path: str | Path) -> dict[str, Any]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SplitError(f"{path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise SplitError(f"{path} is no JSON ({error}); correct it.") from None
    if not isinstance(document, dict):
        raise SplitError(f"{path} holds no object; pass the file that was written for this.")
    return document
