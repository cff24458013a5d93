"""What was decided: specification, identity, manifest, balance and audit. Pure."""

from ._audit import audit
from ._balance import BalanceReport, measure
from ._columns import canonical_table, column_types, require_columns, require_complete
from ._cv import ManifestCV
from ._decide import Plan, decide, is_numeric_target
from ._diff import Change, Difference, diff
from ._diff_rows import Rows
from ._export import Exported, export
from ._extend import Extension, extend, moved_rows
from ._finding import Audit, Finding
from ._gates import GATES, Gate
from ._identity import canonical_json, digest_json, fingerprint
from ._import import import_folds, import_groups, import_nnunet
from ._load import read_header, read_manifest
from ._manifest import Manifest
from ._read import column_names, data_files, read_table
from ._report import report_html
from ._report_png import split_figures
from ._spec import SplitSpec, explain, read_spec
from ._spec_parts import Columns
from ._storage import describe, write_manifest
from ._take import join_rows
from ._verify import Verification, verify
from ._verify_files import Damage
from ._view import openml_view
from ._write import write_whole

__all__ = [
    "GATES",
    "Audit",
    "BalanceReport",
    "Change",
    "Columns",
    "Damage",
    "Difference",
    "Exported",
    "Extension",
    "Finding",
    "Gate",
    "Manifest",
    "ManifestCV",
    "Plan",
    "Rows",
    "SplitSpec",
    "Verification",
    "audit",
    "canonical_json",
    "canonical_table",
    "column_names",
    "column_types",
    "data_files",
    "decide",
    "describe",
    "diff",
    "digest_json",
    "explain",
    "export",
    "extend",
    "fingerprint",
    "import_folds",
    "import_groups",
    "import_nnunet",
    "is_numeric_target",
    "join_rows",
    "measure",
    "moved_rows",
    "openml_view",
    "read_header",
    "read_manifest",
    "read_spec",
    "read_table",
    "report_html",
    "require_columns",
    "require_complete",
    "split_figures",
    "verify",
    "write_manifest",
    "write_whole",
]
