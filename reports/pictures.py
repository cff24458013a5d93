"""The pages and pictures that a record holds, made from what a step is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenfold.estimates.results import Estimate, FoldScore
from evenfold.manifests import Audit, BalanceReport, StoredManifest, audit
from evenfold.manifests.joined import Joined
from evenfold.manifests.store.stored import in_memory

from .evaluations.pictures import score_pictures
from .page import Origin, Page
from .splits.data import see
from .splits.page import split_page
from .splits.pictures import split_pictures


@dataclass(frozen=True)
class SplitPages:
    """The page of a split, the files beside it by name, and the audit, None where rows are missing."""

    page: Page
    files: dict[str, Any]
    audit: Audit | None


def split_pages(
    uri: str,
    balance: BalanceReport,
    data: str,
    run_id: str = "",
    memory: str | None = None,
    audited: Callable[[], Audit] | None = None,
) -> SplitPages:
    """Return the page of the manifest in a folder, its pictures as SVG files, and the audit.

    ``audited`` returns the audit, where somebody has it already. A manifest that grew by a batch lacks its older
    rows: the balance then has no target, and the audit and pictures of rows are left out. Raises SplitError where
    the rows take more than ``memory``.
    """
    manifest = in_memory(StoredManifest(uri), memory)
    columns = manifest.spec.columns
    is_complete = balance.target is not None or (columns.target is None and manifest.generation == 0)
    rows = Joined.of(manifest, data) if is_complete else None
    audit_of_rows = None if rows is None else audited() if audited else audit(manifest, rows)
    seen = see(manifest, balance, rows)
    page = split_page(seen, audit_of_rows, Origin(Path(data).name, run_id))
    files: dict[str, Any] = {"report.html": page.html()}
    files |= {f"{name}.svg": picture.file() for name, picture in split_pictures(seen).items()}
    if audit_of_rows is not None:
        files["audit.json"] = audit_of_rows.model_dump(mode="json")
    return SplitPages(page, files, audit_of_rows)


def scores_figures(estimates: Sequence[Estimate], scores: Sequence[FoldScore]) -> dict[str, str]:
    """Return the picture of each metric as an SVG file, by file name."""
    return {f"scores/{metric}.svg": picture.file() for metric, picture in score_pictures(scores, estimates).items()}
