"""What was decided: specification, identity, manifest and balance. Pure."""

from ._balance import BalanceReport, measure
from ._columns import canonical_table, column_types, require_columns, require_complete
from ._cv import ManifestCV
from ._decide import Plan, decide, is_numeric_target
from ._extend import Extension, extend, moved_rows
from ._identity import canonical_json, digest_json, fingerprint
from ._load import read_header, read_manifest
from ._manifest import Manifest
from ._read import column_names, data_files, read_table
from ._spec import Columns, SplitSpec, explain, read_spec
from ._storage import describe, write_manifest

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
    "column_names",
    "column_types",
    "data_files",
    "decide",
    "describe",
    "digest_json",
    "explain",
    "extend",
    "fingerprint",
    "is_numeric_target",
    "measure",
    "moved_rows",
    "read_header",
    "read_manifest",
    "read_spec",
    "read_table",
    "require_columns",
    "require_complete",
    "write_manifest",
]
