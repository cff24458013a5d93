from .audits.audit import audit as audit
from .audits.findings import GATES as GATES, Audit as Audit, Finding as Finding, Gate as Gate
from .balance import measure as measure
from .exchange.adopt import adopt as adopt
from .exchange.diff import Change as Change, Difference as Difference, RowsMoved as RowsMoved, diff as diff
from .exchange.export import Exported as Exported, export as export, json_schemas as json_schemas
from .exchange.partition import (
    Partitions as Partitions,
    as_cv as as_cv,
    join_rows as join_rows,
    partition as partition,
    write_join as write_join,
)
from .exchange.warehouse import warehouse_sql as warehouse_sql
from .fields import explain as explain
from .figures import FIGURES as FIGURES, BalanceFigure as BalanceFigure, BalanceReport as BalanceReport
from .growth.arrivals import check_arrival as check_arrival
from .growth.extend import Extension as Extension, extend as extend, further_folds as further_folds
from .growth.newcomers import Snapshot as Snapshot
from .manifest import Manifest as Manifest, ManifestCV as ManifestCV
from .plan import Plan as Plan, decide as decide, planned as planned, specification as specification
from .spec import Columns as Columns, SplitSpec as SplitSpec, name_of as name_of, read_spec as read_spec
from .store.header import Header as Header, prove_files as prove_files, read_header as read_header
from .store.state import is_numeric_target as is_numeric_target
from .store.stored import (
    StoredManifest as StoredManifest,
    describe as describe,
    read_manifest as read_manifest,
    write_manifest as write_manifest,
)
from .store.verify import Damage as Damage, Verification as Verification, verify as verify
from .tables.canonical import (
    canonical_table as canonical_table,
    column_types as column_types,
    digests_of as digests_of,
    fingerprint as fingerprint,
    require_columns as require_columns,
)
from .tables.keys import canonical_json as canonical_json, digest_json as digest_json
from .tables.read import (
    NoRoomError as NoRoomError,
    data_files as data_files,
    fits_in_memory as fits_in_memory,
    from_anywhere as from_anywhere,
    read_table as read_table,
    require_place as require_place,
    require_room as require_room,
    source_of as source_of,
    write_whole as write_whole,
)
