"""What was decided: specification, identity, manifest, balance and audit. Pure."""

from ._audit import audit
from ._balance import BalanceReport, measure
from ._columns import canonical_table, column_types, require_columns
from ._cv import ManifestCV
from ._decide import Plan, decide, is_numeric_target
from ._extend import Extension, extend, moved_rows
from ._finding import Audit, Finding
from ._gates import GATES, Gate
from ._identity import canonical_json, digest_json, fingerprint
from ._manifest import Manifest
from ._read import read_table
from ._spec import Columns, SplitSpec, explain, read_spec
from ._storage import describe, read_manifest, write_manifest

__all__ = [
    "GATES",
    "Audit",
    "BalanceReport",
    "Columns",
    "Extension",
    "Finding",
    "Gate",
    "Manifest",
    "ManifestCV",
    "Plan",
    "SplitSpec",
    "audit",
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
    "require_columns",
    "write_manifest",
]
