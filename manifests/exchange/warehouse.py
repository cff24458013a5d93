"""Folds as SQL that a warehouse runs on its own rows: a rule where there is one, else a table of groups and a join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, islice
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.fields import Dialect
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import fold_columns
from evenfold.manifests.tables.canonical import amount, listed
from evenfold.manifests.tables.keys import key_values
from evenfold.splitters import HashSplit, SplitError

MOST_FOLDS = 2**11 - 1  # so that the product of 52 bits and a number of folds is a 64-bit integer in every engine

TYPES = {"int": "BIGINT", "text": "VARCHAR", "float": "DOUBLE", "date": "DATE", "bool": "BOOLEAN"}


@dataclass(frozen=True)
class DialectWords:
    """The words of a dialect of SQL; ``types`` of columns, where they are not those of ``TYPES``."""

    bits: str  # the first 52 bits of SHA-256 of a text, as an integer
    types: dict[str, str]
    halved: str = "({}) >> 52"  # an integer shifted right by 52
    normal: str = "{}"  # a text in Unicode's NFC form, or itself where the dialect cannot make it
    quote: str = '"'  # around names
    escapes: bool = False  # a backslash in a text is written twice


DIALECTS: dict[str, DialectWords] = {
    "duckdb": DialectWords("CAST('0x' || left(sha256({}), 13) AS BIGINT)", {}, normal="nfc_normalize({})"),
    "spark": DialectWords(
        "CAST(conv(left(sha2({}, 256), 13), 16, 10) AS BIGINT)",
        {"text": "STRING"}, "shiftright({}, 52)", quote="`", escapes=True,
    ),
    "bigquery": DialectWords(
        "CAST(CONCAT('0x', SUBSTR(TO_HEX(SHA256({})), 1, 13)) AS INT64)",
        {"int": "INT64", "text": "STRING", "float": "FLOAT64", "bool": "BOOL"},
        normal="NORMALIZE({}, NFC)", quote="`", escapes=True,
    ),
    "snowflake": DialectWords(
        "TO_NUMBER(LEFT(SHA2({}, 256), 13), 'XXXXXXXXXXXXX')", {}, "BITSHIFTRIGHT({}, 52)", escapes=True
    ),
    "postgres": DialectWords(
        "CAST(CAST('x' || left(encode(sha256(convert_to({}, 'UTF8')), 'hex'), 13) AS BIT(52)) AS BIGINT)",
        {"text": "TEXT", "float": "DOUBLE PRECISION"}, normal="normalize({}, NFC)",
    ),
}  # fmt: skip


def warehouse_sql(manifest: Manifest, dialect: Dialect, table: str = "rows") -> str:
    """Return SQL that gives each row of ``table`` its fold, in one SELECT at the end.

    HashSplit is one expression of the key, the 52-bit rule of its docstring. Strategies that keep groups whole become
    a table ``<name>_folds`` of groups and folds (every repeat), and a join; a row whose group is not in it has NULL.
    Text is compared in Unicode's NFC form; Spark and Snowflake cannot make it, so there the table must be in it.
    Codes are the manifest's: -2 is locked. Rows of merged groups that were accepted follow their group here.
    Raises SplitError for splits that follow from neither, for keys without a text that all engines agree on, for groups
    that are times, and for rows that are quarantined, left out or waiting, which no rule knows.
    """
    words = DIALECTS.get(dialect)
    if words is None:
        raise SplitError(f"there is no dialect {dialect!r}; choose {listed(DIALECTS, most=9)}.")
    if manifest.status.any() or manifest.waiting is not None:
        raise _beyond_rules("deleted or quarantined rows, or some that wait")
    if manifest.spec.missing_group == "alone":
        raise _beyond_rules("rows that may lack a group, each in a fold of its own")
    if manifest.group_table is not None and manifest.spec.columns.group:
        return _by_group(manifest, manifest.group_table, words, table)
    if isinstance(manifest.splitter, HashSplit) and manifest.spec.holdout is None:
        return _by_key(manifest, manifest.splitter, words, table)
    why = f"the folds of {manifest.algorithm['name']} follow from no rule and no table of groups"
    raise SplitError(f"{why}; export to csv or spark, load that file, and join it by key.")


def _beyond_rules(rows: str) -> SplitError:
    return SplitError(f"the manifest holds {rows}, which no rule knows; export to csv and join by key.")


def _by_key(manifest: Manifest, splitter: HashSplit, words: DialectWords, table: str) -> str:
    columns = manifest.spec.columns.key
    kinds = [manifest.types.get(name, "") for name in columns]
    if manifest.spec.key_encoding or set(kinds) - {"int", "text"}:
        raise SplitError("only keys of whole numbers and text have a text that every engine agrees on; export to csv.")
    assert manifest.keys is not None
    texts = [column for column in manifest.keys.columns if len(columns) > 1 and not pa.types.is_integer(column.type)]
    if ended := sum(pc.sum(pc.ends_with(text, "\0")).as_py() for text in texts):  # it is hashed without, and SQL is not
        raise _beyond_rules(f"{amount(ended, 'key')} of several parts of which one ends in NUL")
    if left_out := int(np.count_nonzero(manifest.codes != splitter.labels_of(key_values(manifest.keys)))):
        raise _beyond_rules(f"{amount(left_out, 'row')} whose fold is not that of the key")
    cells = (_known(_name(name, words), kind, words) for name, kind in zip(columns, kinds, strict=True))
    values = f", {_text('|', words)}, ".join(f"CAST({value} AS {_type('text', words)})" for value in cells)
    bits = words.bits.format(f"CONCAT({_text(f'{splitter.salt}|', words)}, {values})")
    return f"SELECT *, {_label(splitter, bits, words)} AS fold\nFROM {table};\n"


def _known(column: str, kind: str, words: DialectWords) -> str:
    """Return a column as the manifest knows it, whatever type it has in the table."""
    value = f"CAST({column} AS {_type(kind, words)})" if kind in ("int", "text") else column
    return words.normal.format(value) if kind == "text" else value


def _type(kind: str, words: DialectWords) -> str:
    return words.types.get(kind, TYPES[kind])


def _label(splitter: HashSplit, bits: str, words: DialectWords) -> str:
    if not splitter.parts:
        if splitter.n_splits > MOST_FOLDS:
            raise SplitError(f"n_splits={splitter.n_splits:,} is too many for 64-bit SQL; choose 2 to {MOST_FOLDS:,}.")
        return words.halved.format(f"{bits} * {splitter.n_splits}")
    edges = [ceil(share * 2.0**52) for share in accumulate(splitter.bin_shares().tolist())][:-1]
    *codes, last = splitter.part_codes().values()
    cases = " ".join(f"WHEN {bits} < {edge} THEN {code}" for edge, code in zip(edges, codes, strict=True))
    return f"CASE {cases} ELSE {last} END"


def _by_group(manifest: Manifest, groups: pa.Table, words: DialectWords, table: str) -> str:
    column = str(manifest.spec.columns.group)
    if column in manifest.spec.pseudonyms():
        raise SplitError(f"the groups of {column!r} are pseudonyms, which SQL cannot make; export to csv.")
    kind, folds = manifest.types[column], fold_columns(groups.column_names)
    if kind not in LITERALS:
        why = "which a warehouse compares by the zone of its session; export to csv, and join by key"
        raise SplitError(f"the groups of {column!r} are {kind}s, {why}.")
    place = _name(f"{manifest.name}_folds", words)
    columns = ", ".join([f"group_value {_type(kind, words)}", *(f"{name} {_type('int', words)}" for name in folds)])
    lines = zip(*(groups.column(name).to_pylist() for name in ("group", *folds)), strict=True)
    rows = (f"({', '.join([LITERALS[kind](value, words), *map(str, codes)])})" for value, *codes in lines)
    statements = [f"CREATE TABLE {place} ({columns})"]
    while batch := list(islice(rows, 1_000)):
        statements.append(f"INSERT INTO {place} VALUES\n" + ",\n".join(batch))
    chosen, ours = ", ".join(f"f.{name}" for name in folds), _known(f"r.{_name(column, words)}", kind, words)
    statements.append(f"SELECT r.*, {chosen}\nFROM {table} AS r LEFT JOIN {place} AS f ON {ours} = f.group_value")
    return "".join(f"{statement};\n" for statement in statements)


def _name(name: str, words: DialectWords) -> str:
    return words.quote + name.replace(words.quote, words.quote * 2) + words.quote


def _text(value: str, words: DialectWords) -> str:
    escaped = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "'": "\\'"} if words.escapes else {"'": "''"})
    return f"'{value.translate(escaped)}'"


LITERALS: dict[str, Callable[[Any, DialectWords], str]] = {
    "int": lambda value, _: str(value), "text": _text, "float": lambda value, _: repr(float(value)),
    "bool": lambda value, _: str(bool(value)).upper(), "date": lambda value, _: f"DATE '{value.isoformat()}'",
}  # fmt: skip
