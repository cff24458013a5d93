"""What was decided: specification, identity, manifest, balance and audit. Pure."""

from evenfold.manifests.audits.audit import audit
from evenfold.manifests.audits.findings import GATES, Audit, Finding, Gate
from evenfold.manifests.exchange.diff import Change, Difference, Rows, diff
from evenfold.manifests.exchange.export import Exported, export, join_rows, openml_view
from evenfold.manifests.exchange.load_folds import import_folds, import_groups, import_nnunet
from evenfold.manifests.growth.extend import Extension, extend, moved_rows
from evenfold.manifests.store.load import read_header, read_manifest
from evenfold.manifests.store.verify import Damage, Verification, verify
from evenfold.manifests.store.write import describe, write_manifest
from evenfold.manifests.tables.canonical import canonical_table, column_types, require_columns, require_complete
from evenfold.manifests.tables.read import column_names, data_files, read_table, write_whole

from .balance import BalanceReport, measure
from .identity import canonical_json, digest_json, fingerprint
from .manifest import Manifest, ManifestCV
from .plan import Plan, decide, is_numeric_target
from .spec import Columns, SplitSpec, explain, read_spec

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
    "require_columns",
    "require_complete",
    "verify",
    "write_manifest",
    "write_whole",
]
