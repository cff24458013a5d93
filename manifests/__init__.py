"""What was decided: specification, identity, manifest and balance. Pure."""

from ._balance import BalanceReport, measure
from ._columns import canonical_table, column_types, require_columns
from ._cv import ManifestCV
from ._decide import Plan, decide, is_numeric_target
from ._extend import Extension, extend, moved_rows
from ._identity import canonical_json, digest_json, fingerprint
from ._manifest import Manifest
from ._read import read_table
from ._report import report_html
from ._report_png import split_figures
from ._spec import Columns, SplitSpec, explain, read_spec
from ._storage import describe, read_manifest, write_manifest

__all__ = [
    "BalanceReport",
    "Columns",
    "Extension",
    "Manifest",
    "ManifestCV",
    "Plan",
    "SplitSpec",
    "canonical_json",
    "canonical_table",
    "column_types",
    "decide",
    "describe",
    "digest_json",
    "explain",
    "extend",
    "fingerprint",
    "is_numeric_target",
    "measure",
    "moved_rows",
    "read_manifest",
    "read_spec",
    "read_table",
    "report_html",
    "require_columns",
    "split_figures",
    "write_manifest",
]
