"""The commands that show manifests, check and compare them, and carry folds to other tools and back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

from evenfold.manifests.fields import Dialect, Format
from evenfold.reports.terminal import Words
from evenfold.splitters.errors import SplitError, amount
from evenfold.tasks import Home, parameters as of
from evenfold.tasks.references import manifest_folder
from evenfold.tasks.requests import AdoptFields

from evenfold import flows, manifests, reports

from .terminal import OUTPUT_FLAGS, Output, option, show_json

Pairs = dict[str, Any] | None
NAMED = "A split's name (NAME@1.0), or the folder of its manifest."
ManifestFolder = Annotated[Path, option(NAMED, argument="MANIFEST", read=manifest_folder)]
DataFile = Annotated[str, option("Parquet or CSV file, a folder or a glob of them.", argument="FILE")]
Out = Annotated[Path, option("File to write.", names=OUTPUT_FLAGS)]
Repeat = Annotated[int, option("Which repeat, from 0, of a file that holds one.")]
Memory = Annotated[str | None, option("Memory to take, such as 2GB; DuckDB works on disk above.", "SIZE")]

LIMIT, REASON = "A limit, as NAME=NUMBER or NAME=off; repeatable.", "Why a check is ignored, as EF205=REASON; repeat."
Gates = Annotated[Pairs, of.mapping("--gate", "NAME=NUMBER", "duplicate_rows=0, or NAME=off", LIMIT, "")]
Ignored = Annotated[Pairs, of.mapping("--ignore", "CODE=REASON", "EF205='no new shops will open'", REASON, "")]
Unseen = Annotated[of.SomeNames, option("A column that the model does not see; repeat for several.", "COLUMN")]
Pipeline = Annotated[str | None, option("Audit as well the code that makes features of FILE.", "MODULE:NAME")]


def audit(
    manifest: ManifestFolder, data: DataFile,
    features: Annotated[of.SomeNames, option("A column that a model sees; repeat for several.", "COLUMN")] = None,
    exclude: Unseen = None,
    target: Annotated[str | None, option("Target, where the split does not name one.", "COLUMN")] = None,
    group: Annotated[str | None, option("Look for this column's groups on both sides of a split.", "COLUMN")] = None,
    time: Annotated[str | None, option("Require that training rows are older than tested ones.", "COLUMN")] = None,
    gate: Gates = None, ignore: Ignored = None,
    impact: Annotated[bool, option("Refit with and without each leak: what it costs.")] = False,
    store: Annotated[bool, option("Write audit.json into the manifest's folder.")] = False,
    record: Annotated[bool, option("Record it in MLflow, with its page.")] = False,
    kind: Annotated[Literal["json", "md"] | None, option("Print JSON or Markdown.", names=("--format",))] = None,
    pipeline: Pipeline = None,
) -> Output:  # fmt: skip
    """Say what is wrong with a split of FILE: leaks, rows that do not fit, uneven folds. Exit code 1: a gate failed.

    Example: evenfold audit .evenfold/splits/flights/1.0 examples/flights.parquet --exclude dep_delay
    """
    audited = manifests.read_manifest(manifest)
    report = manifests.audit(
        audited, data, features=features, exclude=exclude or (), target=target, group=group, time=time,
        impact=impact, build=pipeline, gates=gate or {}, ignore=ignore or {},
    )  # fmt: skip
    if store:
        manifests.write_whole(manifest / "audit.json", report.model_dump_json(indent=1))
    if record:
        from evenfold.tasks.record.studies import record_audit

        record_audit(audited, report)

    def show_markdown(out: Words, report: manifests.Audit) -> None:
        from evenfold.reports.texts import audit_in_markdown

        out.print(audit_in_markdown(report), soft_wrap=True)  # a table of Markdown does not survive a broken line

    words = {"json": show_json, "md": show_markdown}.get(kind or "")
    return Output(report, words, failed=bool(report.failed))


def verify(manifest: ManifestFolder) -> Output:
    """Prove that a manifest is what was written, or name the file and block that is not. Exit code 1: it is damaged.

    Example: evenfold verify .evenfold/splits/flights/1.0
    """
    verification, home = manifests.verify(manifest), Home.here()
    split = manifests.read_manifest(manifest) if verification.intact else None
    # Where rows are locked, the ledger of the looks at them is read too; a home without a record has none.
    if split and split.membership.locked.size and (home.is_recorded or (home.path / "looks").exists()):
        from evenfold.tasks.record.studies import damages_of_looks

        looks, sentences = damages_of_looks(home, split)
        whole = f"the ledger of {amount(looks, 'look')} at the locked rows is whole"
        proved = [] if sentences else [whole if looks else "nobody looked at the locked rows"]
        damages = [manifests.Damage(file="looks", message=sentence) for sentence in sentences]
        update = {"intact": not damages, "damages": damages, "proved": [*verification.proved, *proved]}
        verification = verification.model_copy(update=update)
    return Output(verification, verification.summary, failed=not verification.intact)


def diff(
    a: Annotated[Path, option(NAMED, argument="A", read=manifest_folder)],
    b: Annotated[Path, option("Another.", argument="B", read=manifest_folder)],
    data: Annotated[str | None, option("File with the key and the target, to count by class.")] = None,
) -> Output:
    """Say which rows moved, joined or left from manifest A to B, and what differs in their specifications.

    Example: evenfold diff .evenfold/splits/flights/1.0 .evenfold/splits/flights/1.1
    """
    difference = manifests.diff(manifests.read_manifest(a), manifests.read_manifest(b), data)
    return Output(difference, difference.summary)


def export(
    manifest: ManifestFolder, to: Annotated[Format, option("The tool that reads the file.")], output: Out,
    data: Annotated[str | None, option("File whose rows the folds are put beside.")] = None, repeat: Repeat = 0,
    dialect: Annotated[Dialect, option("SQL of which engine, for --to sql.")] = "duckdb",
    table: Annotated[str, option("Table whose rows get folds, for --to sql.")] = "rows", memory: Memory = None,
) -> Output:  # fmt: skip
    """Write the folds of a manifest as another tool reads them.

    Example: evenfold export .evenfold/splits/flights/1.0 --to spark -o folds.parquet
    """
    if to != "sql" and (dialect, table) != ("duckdb", "rows"):
        raise SplitError(f"--table and --dialect are for --to sql, and this is an export to {to}; leave them out.")
    manifests.require_place(output, read=[data])
    stored = manifests.StoredManifest(manifest).prove()
    manifests.require_place(output, read=stored.files)
    file = manifests.export(stored, to, output, data, repeat=repeat, dialect=dialect, table=table, memory=memory)
    return Output(file, f"{file.path}: {file.rows:,} rows; {file.note}")


def join(
    manifest: ManifestFolder, data: DataFile, output: Out,
    fold: Annotated[int | None, option("Which fold, from 0.  [default: all]")] = None,
    role: Annotated[Literal["train", "test"] | None, option("The rows that are trained on, or tested.")] = None,
    repeat: Repeat = 0, memory: Memory = None,
) -> Output:  # fmt: skip
    """Write the rows of FILE that one fold trains on or tests; without a fold all, parted by folds below a folder.

    Example: evenfold join .evenfold/splits/flights/1.0 examples/flights.parquet --fold 2 --role test -o test.parquet
    """
    if (fold is None) != (role is None):
        raise SplitError("--fold and --role go together; leave both out to write every fold below a folder.")
    if fold is not None:
        manifests.require_place(output, read=[data])
    stored = manifests.StoredManifest(manifest).prove()
    of = f" of repeat {repeat}" if repeat else ""
    if fold is None or role is None:
        rows = sum(manifests.partition(stored, data, output, memory=memory, repeat=repeat).counts.values())
        words = f"{amount(rows, 'row')}, parted by the folds{of} (fold=<code>/rows.parquet)"
    else:
        manifests.require_place(output, read=stored.files)
        rows = manifests.write_join(stored, data, fold, role, output, repeat=repeat, memory=memory)
        words = f"the {rows:,} rows that fold {fold}{of} has for {role}"
    about = {"path": str(output), "rows": rows, "fold": fold, "repeat": repeat, "role": role}
    return Output(about, f"{output}: {words}")


def adopt(
    data: DataFile,
    cv: Annotated[str | None, of.split("The splitter that makes the folds today.", "MODULE:NAME")] = None,
    folds: Annotated[
        str | None, of.split("Column of numbers or words, JSON of pairs, or with --group a table of group and fold.")
    ] = None,
    **fields: Unpack[AdoptFields],
) -> Output:
    """Take the folds that are made today into a manifest, unmoved; audit and record it.

    Example: evenfold adopt examples/flights.parquet --cv sklearn.model_selection:KFold --key flight_id
    """
    if (cv is None) == (folds is None):
        raise SplitError("folds come from a splitter, a column or a file; give one of --cv and --folds.")
    if cv is None and "params" in fields:
        raise SplitError("--param is for the splitter of --cv; leave it out.")
    return Output(flows.adopt(data, cv or folds, **fields))


def show(
    manifest: ManifestFolder,
    report: Annotated[Path | None, option("Write the split's page to this file too.")] = None,
    data: Annotated[str | None, option("The rows that were split, for the page's pictures.")] = None,
) -> Output:
    """Show a MANIFEST: what was asked, its identity, and how many rows are where.

    Example: evenfold show .evenfold/splits/flights/1.0
    """
    if data is not None and report is None:
        raise SplitError("--data is for the page that --report writes; give --report FILE.html too, or leave it out.")
    header = manifests.read_header(manifest)
    manifests.prove_files(header, manifest)
    if report is not None:
        manifests.require_place(report, read=[data, *manifests.StoredManifest(manifest).files])
        split = manifests.read_manifest(manifest)
        findings = manifests.audit(split, data) if data else None
        origin = reports.Origin(Path(data).name if data else "")
        page = reports.report_html(split, manifests.measure(split, data), data, findings, origin)
        manifests.write_whole(report, page)
    return Output(header, partial(Words.show_header, page=report))
