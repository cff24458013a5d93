"""The commands that show a manifest and that list what a store holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from evenfold.manifests import Header

from .flags import Json, answer, busy
from .manifests import ManifestFolder

MEANINGS = {-1: "never tested", -2: "locked", -3: "excluded"}


def show(
    manifest: ManifestFolder,
    report: Annotated[Path | None, typer.Option(help="Write the split's page to this file too.")] = None,
    data: Annotated[str | None, typer.Option(help="The rows that were split, for the page's pictures.")] = None,
    as_json: Json = False,
) -> None:
    """Show a MANIFEST: what was asked, its identity, and how many rows are where.

    Example: evenfold show .evenfold/splits/flights/1.0
    """
    from evenfold.manifests import prove_files, read_header
    from evenfold.splitters import SplitError

    if data is not None and report is None:
        raise SplitError("--data is for the page that --report writes; give --report FILE.html too, or leave it out.")
    with busy(f"reading {manifest}"):
        header = read_header(manifest)
        prove_files(header, manifest)
        sizes = [] if as_json or header["counts"] else _sizes(manifest)
        if report is not None:
            from evenfold.manifests import StoredManifest, audit, measure, read_manifest, write_whole
            from evenfold.manifests.tables.read import require_place
            from evenfold.reports import Origin, report_html

            require_place(report, read=[data, *StoredManifest(manifest).files])
            split = read_manifest(manifest)
            findings = audit(split, data) if data else None
            origin = Origin(Path(data).name if data else "")
            write_whole(report, report_html(split, measure(split, data), data, findings, origin))

    def show(out: Any, header: Header) -> None:
        _print_look(out, header, sizes)
        if report is not None:
            out.print(f"  page: {report}")

    answer(header, as_json, show)


def _sizes(folder: Path) -> list[list[str]]:
    """Return how many rows folds have that are too many for a header to count each: lines of the table of counts."""
    import numpy as np
    from evenfold.manifests import read_manifest
    from evenfold.manifests.membership import Labels

    labels = read_manifest(folder).in_use
    assert isinstance(labels, Labels), "of draws and pairs a header counts each"
    values, numbers = np.unique(labels.column(), return_counts=True)
    counts = dict(zip(values.tolist(), numbers.tolist(), strict=True))
    rows = sorted(counts.get(code, 0) for code in labels.tested)  # of some every row may be gone
    spread = f"{rows[0]:,} to {rows[-1]:,}, median {rows[len(rows) // 2]:,}" if rows[0] < rows[-1] else f"{rows[0]:,}"
    beside = [[MEANINGS[code], f"{n:,}"] for code, n in sorted(counts.items()) if code < 0]
    return [*beside, [f"each of {len(rows):,}", spread]]


def _print_look(out: Any, header: Header, sizes: Sequence[list[str]] = ()) -> None:
    from .console import lined_up

    spec = header["spec"]
    what = "draws" if header["kind"] == "draws" else "splits"
    amount = f"{header['n_rows']:,} rows, {header['n_splits']:,} {what}"
    out.styled("[bold]{} {}[/]: {}, {}", header["name"], header["version"], header["algorithm"]["name"], amount)
    columns = [f"{role} {'+'.join(v) if isinstance(v, list) else v}" for role, v in spec.get("columns", {}).items()]
    params = ", ".join(f"{name}={value}" for name, value in spec.get("params", {}).items()) or "default parameters"
    held = spec.get("holdout")
    locked = ""
    if held is not None:
        from evenfold.estimates.results import in_percent  # with the metrics, which a header without it does not need

        locked = f"; holdout {in_percent(held.get('fraction', 0.2))}"
    locked = f"; group_mode {spec['group_mode']}{locked}" if spec.get("group_mode", "merge") != "merge" else locked
    out.print(f"  asked: {', '.join(columns) or 'no columns'}; {params}; seed {spec.get('seed', 0)}{locked}")
    for name in ("split_id", "plan_id", "fingerprint", "parent_split_id"):
        if header[name]:
            out.print(f"  {name.replace('parent_split_id', 'parent'):<11} {header[name]}")
    names = {part["code"]: part["name"] for part in header["parts"]}
    meanings = MEANINGS | names
    meanings |= {"draws": {0: "may be drawn"}, "pairs": {0: "in use"}}.get(header["kind"], {})
    counts = [[str(meanings.get(int(code), f"fold {code}")), f"{rows:,}"] for code, rows in header["counts"].items()]
    out.print("\n".join(lined_up([["fold or part", "rows"], *counts, *sizes])), soft_wrap=True)
    if len(header["generations"]) > 1:
        joined = ", ".join(f"{generation['n']}: {generation['rows']:,}" for generation in header["generations"])
        out.print(f"  rows that joined with each generation: {joined}")


SHOWN = 20


def list_(
    every: Annotated[bool, typer.Option("--all", help="Every one, not the newest of each kind alone.")] = False,
    as_json: Json = False,
) -> None:
    """List splits, evaluations, tunings, scores of later rows and models, with the short ids that commands accept.

    Example: evenfold list
    """
    with busy("looking for what was recorded") as home:
        from evenfold.tasks.record.runs import recorded_models, recorded_runs
        from evenfold.tasks.references import recorded_splits

        looks = home.is_recorded  # looking makes no store
        listed = {"splits": recorded_splits(home)}
        kinds = {"evaluations": "evaluation", "tunings": "tuning", "later rows": "later rows"}
        listed |= {title: recorded_runs(home, kind) if looks else [] for title, kind in kinds.items()}
        listed |= {"models": recorded_models(home) if looks else []}

        from .console import lined_up

    def show(out: Any, _: object) -> None:
        for kind, rows in listed.items():
            newest = rows if every else rows[:SHOWN]
            if newest:
                cells = [[kind, *list(newest[0])[1:]], *([_cell(*each) for each in row.items()] for row in newest)]
                out.print("\n".join(lined_up(cells, left=len(newest[0]), indent=0)), soft_wrap=True)
                if len(rows) > len(newest):
                    out.say(f"and {len(rows) - len(newest):,} older {kind}: evenfold list --all")
                out.print()
        if not any(listed.values()):
            out.say(f"nothing below {home.path} yet; begin with: evenfold split FILE")

    answer(listed, as_json, show)


def _cell(name: str, value: str | int) -> str:
    if name in ("id", "run"):
        return str(value)[:8]
    if name == "when":
        return datetime.fromisoformat(str(value)).strftime("%d %b %Y %H:%M")
    return f"{value:,}" if isinstance(value, int) else str(value)
