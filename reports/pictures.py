"""The pages and pictures that a record holds, made from what a step is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from evenfold.estimates.results import Estimate, FoldScore
from evenfold.manifests import Audit, BalanceReport, audit, read_manifest, read_table

from .evaluations.pictures import score_pictures
from .page import Origin
from .splits.data import see
from .splits.page import split_page
from .splits.pictures import split_pictures


def pictures_of(
    uri: str, report: dict[str, Any], data: str, run_id: str = "", audited: Callable[[], Audit] | None = None
) -> dict[str, Any]:
    """Return the report of the manifest in a folder, its pictures as SVG files, and the audit, by file name.

    ``audited`` returns the audit, where somebody has it already.

    Where a manifest grew by a batch its older rows are not at hand: then the balance has no target, and the audit and
    the pictures that need the rows are left out.
    """
    manifest, balance = read_manifest(uri), BalanceReport.model_validate(report)
    columns = manifest.spec.columns
    known = balance.target is not None or (columns.target is None and manifest.generation == 0)
    rows = read_table(data, types=manifest.spec.types) if known else None
    found = None if rows is None else audited() if audited else audit(manifest, rows)
    seen = see(manifest, balance, rows)
    page = split_page(seen, found, Origin(Path(data).name, run_id))
    pages: dict[str, Any] = {"report.html": page.html()}
    pages |= {f"{name}.svg": picture.file() for name, picture in split_pictures(seen).items()}
    return pages if found is None else pages | {"audit.json": found.model_dump(mode="json")}


def scores_figures(estimates: Sequence[dict[str, Any]], children: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the picture of each metric as an SVG file, by file name; a figure that no score has is passed over."""
    known = [field.name for field in fields(FoldScore)]
    scores = [FoldScore.from_json({name: child[name] for name in known}) for child in children]
    pictures = score_pictures(scores, [Estimate.from_json(estimate) for estimate in estimates])
    return {f"scores/{metric}.svg": picture.file() for metric, picture in pictures.items()}


def split_note(split: dict[str, Any], report: BalanceReport, run_id: str) -> str:
    """Return in Markdown what a split came to and where its report lies."""
    worst = "".join(f"| {figure.title} | {figure.text(value)} |\n" for figure, value, _ in report.shown())
    return (
        f"**{split['name']} {split['version']}**, {split['strategy']}: {split['n_rows']:,} rows, {split['n_splits']:,} "
        f"splits\n\n| balance | value |\n|---|---|\n{worst}\n"
        f"split_id `{split['split_id']}`\n\nReport: MLflow run `{run_id}`, artifact `split/report.html`\n"
    )
