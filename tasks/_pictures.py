"""The pages and pictures that a record holds, made from what a step is given."""

from __future__ import annotations

from typing import Any

from evenfold.manifests import BalanceReport, read_manifest, read_table, report_html, split_figures


def pictures_of(uri: str, report: dict[str, Any], data: str) -> dict[str, Any]:
    """Return the report of the manifest in a folder and its main pictures, by file name.

    Where a manifest grew by a batch its older rows are not at hand: then the balance has no target, and the pictures
    that need the rows are left out.
    """
    manifest, balance = read_manifest(uri), BalanceReport.model_validate(report)
    columns = manifest.spec.columns
    known = balance.target is not None or columns.target is None
    rows = read_table(data, types=manifest.spec.types) if known and (columns.target or columns.group) else None
    figures = {f"{name}.png": figure for name, figure in split_figures(manifest, balance, rows).items()}
    return {"report.html": report_html(manifest, balance, rows)} | figures


def split_note(split: dict[str, Any], report: BalanceReport, run_id: str) -> str:
    """Return in Markdown what a split came to and where its report lies."""
    worst = "".join(f"| worst {name} | {value:.4g} |\n" for name, value in report.worst.items())
    return (
        f"**{split['name']} {split['version']}**, {split['strategy']}: {split['n_rows']:,} rows, {split['n_splits']:,} "
        f"splits\n\n| balance | value |\n|---|---|\n{worst}\n"
        f"split_id `{split['split_id']}`\n\nReport: MLflow run `{run_id}`, artifact `split/report.html`\n"
    )
