"""The commands that show what there is: a manifest on the terminal, and the pages of MLflow and Prefect."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from evenfold.manifests import Header

from .busy import busy
from .flags import Grouped

looking = typer.Typer()
MEANINGS = {-1: "never tested", -2: "locked", -3: "excluded"}


@looking.command(cls=Grouped)
def show(
    manifest: Annotated[
        str,
        typer.Argument(
            metavar="MANIFEST", help="A split's name (NAME@1.0), the folder of its manifest, or runs:/ID/split."
        ),
    ],
    report: Annotated[Path | None, typer.Option(help="Write the split's page to this file too.")] = None,
    data: Annotated[str | None, typer.Option(help="The rows that were split, for the page's pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Show a MANIFEST: what was asked, its identity, and how many rows are where.

    Example: evenfold show .evenfold/splits/flights/1.0
    """
    from evenfold.manifests import prove_files, read_header
    from evenfold.splitters import SplitError

    from .console import consoles

    if data is not None and report is None:
        raise SplitError("--data is for the page that --report writes; give --report FILE.html too, or leave it out.")
    with busy(f"reading {manifest}"), _folder(manifest) as folder:
        header = read_header(folder)
        prove_files(header, folder)
        sizes = [] if as_json or header["counts"] else _sizes(folder)
        if report is not None:
            from evenfold.manifests import StoredManifest, audit, measure, read_manifest, write_whole
            from evenfold.manifests.tables.read import require_place
            from evenfold.reports import Origin, report_html

            require_place(report, read=[data, *StoredManifest(folder).files])
            split = read_manifest(folder)
            findings = audit(split, data) if data else None
            origin = Origin(Path(data).name if data else "")
            write_whole(report, report_html(split, measure(split, data), data, findings, origin))
    out, _ = consoles()
    if as_json:
        out.print_json(data=header)
    else:
        _print_look(out, header, sizes)
        if report is not None:
            out.print(f"  page: {report}")


@contextlib.contextmanager
def _folder(manifest: str) -> Iterator[Path]:
    if not manifest.startswith("runs:/"):
        from evenfold.tasks.references import manifest_folder

        yield manifest_folder(manifest)
        return
    from evenfold.splitters import SplitError
    from evenfold.tasks.runtime.home import prepared_home

    run_id, _, name = manifest.removeprefix("runs:/").partition("/")
    home = prepared_home()
    home.require_record()
    from evenfold.tasks.record.tracker import Tracker
    from evenfold.tasks.runtime.redaction import redacted

    with tempfile.TemporaryDirectory() as folder:
        try:
            path = Tracker(home, "").fetch(run_id, name or "split", Path(folder))
        except Exception as error:
            raise SplitError(
                f"{manifest} cannot be fetched from {home.tracking_uri} ({redacted(str(error))})."
            ) from None
        yield path


def _sizes(folder: Path) -> list[list[str]]:
    """Return how many rows folds have that are too many for a header to count each: lines of the table of counts."""
    from evenfold.manifests import StoredManifest
    from evenfold.manifests.anywhere.beside import labels_of
    from evenfold.manifests.store.rows import codes_in_use, count_in

    manifest, counts = StoredManifest(folder), dict[int, int]()
    for part in manifest.members():
        count_in(counts, codes_in_use(part)[:, 0])
    rows = sorted(counts.get(code, 0) for code in labels_of(manifest).tested)  # of some every row may be gone
    spread = f"{rows[0]:,} to {rows[-1]:,}, median {rows[len(rows) // 2]:,}" if rows[0] < rows[-1] else f"{rows[0]:,}"
    beside = [[MEANINGS[code], f"{n:,}"] for code, n in sorted(counts.items()) if code < 0]
    return [*beside, [f"each of {len(rows):,}", spread]]


def _print_look(out: Any, header: Header, sizes: Sequence[list[str]] = ()) -> None:
    from evenfold.estimates.results import in_percent

    from .console import lined_up

    spec = header["spec"]
    what = "draws" if header["kind"] == "draws" else "splits"
    amount = f"{header['n_rows']:,} rows, {header['n_splits']:,} {what}"
    out.styled("[bold]{} {}[/]: {}, {}", header["name"], header["version"], header["algorithm"]["name"], amount)
    columns = [f"{role} {'+'.join(v) if isinstance(v, list) else v}" for role, v in spec.get("columns", {}).items()]
    params = ", ".join(f"{name}={value}" for name, value in spec.get("params", {}).items()) or "default parameters"
    held = spec.get("holdout")
    locked = f"; holdout {in_percent(held.get('fraction', 0.2))}" if held is not None else ""
    locked = f"; group_mode {spec['group_mode']}{locked}" if spec.get("group_mode", "merge") != "merge" else locked
    asked = f"  asked: {', '.join(columns) or 'no columns'}; {params}; seed {spec.get('seed', 0)}{locked}"
    out.print(asked)
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


@looking.command(cls=Grouped)
def ui(
    port: Annotated[int, typer.Option(min=1, max=65_534, help="MLflow's port; Prefect's page has the next.")] = 5000,
    dry: Annotated[bool, typer.Option("--dry", help="Print the commands and start nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the commands as one JSON object.")] = False,
) -> None:
    """Open the pages of MLflow and Prefect on what was recorded here; Ctrl-C ends both.

    Example: evenfold ui --dry
    """
    from evenfold.tasks.runtime.home import prepared_home
    from evenfold.tasks.runtime.redaction import redacted

    home = prepared_home()
    commands = ui_commands(port)
    if as_json:
        typer.echo(json.dumps(commands))
    for name, command in ({} if as_json else commands).items():
        settings = [f"{variable}={value}" for variable, value in _settings(home, port)[name].items()]
        typer.echo(redacted(f"{name}: {' '.join([*settings, *command])}"))
    if not dry:
        _show_pages(home, commands, port)


def _show_pages(home: Any, commands: dict[str, list[str]], port: int) -> None:
    """Start what serves the pages, say where they are once they answer, and wait until they are ended."""
    from evenfold.tasks.runtime.orphans import guard, marked_environment
    from evenfold.tasks.runtime.stopping import at_stop

    home.make()
    guard()  # neither server outlives this process, whatever ends it
    os.environ.setdefault("PREFECT_SERVER_UI_API_URL", _settings(home, port)["Prefect"]["PREFECT_SERVER_UI_API_URL"])
    environment = {**marked_environment(), **_settings(home, port)["MLflow"]}
    pages = {"MLflow": f"http://127.0.0.1:{port}", "Prefect": f"http://127.0.0.1:{port + 1}"}
    health = {"MLflow": "/health", "Prefect": "/api/health"}
    started: dict[str, subprocess.Popen[bytes]] = {}

    def end() -> None:
        for process in started.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)

    with at_stop(end):
        try:
            for name, command in commands.items():
                with (home.path / f"ui-{name.lower()}.log").open("wb") as log:
                    started[name] = subprocess.Popen(
                        command, stdout=log, stderr=log, env=environment, start_new_session=True
                    )
            with busy("starting the pages"):
                for name, process in started.items():
                    _wait_for(name, process, f"{pages[name]}{health[name]}", home.path / f"ui-{name.lower()}.log")
            for name in started:
                typer.echo(f"{name:<7} {pages[name]}")
            typer.echo("Ctrl-C ends them")
            for process in started.values():
                process.wait()
        finally:
            end()


def _wait_for(name: str, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    """Return once a page answers; raises EvaluationError where its server ends first."""
    import urllib.request  # half of what help would import

    from evenfold.estimates import EvaluationError

    here = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while process.poll() is None:
        with contextlib.suppress(OSError), here.open(address, timeout=5):
            return
        time.sleep(0.1)
    last = log.read_text(errors="replace").strip().rpartition("\n")[2]
    raise EvaluationError(f"{name}'s page does not start ({last[:300]}); is another port free (--port)? See {log}.")


def _settings(home: Any, port: int) -> dict[str, dict[str, str]]:
    """Return what each page's server is told by its environment: arguments are read by everybody on a machine.

    A pasted command needs it as well: else Prefect's page asks port 4200, and shows the runs of ~/.prefect.
    """
    prefect = {"PREFECT_HOME": f"{home.path / 'prefect'}"}
    return {
        "MLflow": {"MLFLOW_BACKEND_STORE_URI": home.tracking_store},
        "Prefect": prefect | {"PREFECT_SERVER_UI_API_URL": f"http://127.0.0.1:{port + 1}/api"},
    }


def ui_commands(port: int) -> dict[str, list[str]]:
    """Return what serves the pages: MLflow on the store in use, and Prefect's server where none is named."""
    mlflow = [_beside("mlflow"), "ui", "--port", str(port)]
    if os.environ.get("PREFECT_API_URL"):
        return {"MLflow": mlflow}
    return {"MLflow": mlflow, "Prefect": [_beside("prefect"), "server", "start", "--port", str(port + 1)]}


def _beside(name: str) -> str:
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else shutil.which(name) or name
