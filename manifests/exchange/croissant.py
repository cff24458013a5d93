"""Croissant's description of a data set, with a record for each row."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.attributes import PARTS
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED
from evenfold.splitters import SplitError

from .kept import folds_of_kept, kept_keys, kept_rows, labels_of
from .parts import COLUMN, parts_of

SPLIT_URLS = {"train": "cr:TrainingSplit", "validation": "cr:ValidationSplit", "test": "cr:TestSplit"}


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
