"""The commands that show what there is: a manifest on the terminal, and the pages of MLflow and Prefect."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from .busy import busy
from .flags import Grouped

looking = typer.Typer()


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

    from .console import consoles

    with busy(f"reading {manifest}"), _folder(manifest) as folder:
        header = read_header(folder)
        prove_files(header, folder)
        if report is not None:
            from evenfold.manifests import audit, measure, read_manifest, write_whole
            from evenfold.reports import Origin, report_html

            found = read_manifest(folder)
            findings = audit(found, data) if data else None
            origin = Origin(Path(data).name if data else "")
            write_whole(report, report_html(found, measure(found, data), data, findings, origin))
    out, _ = consoles()
    if as_json:
        out.print_json(data=header)
    else:
        _print_look(out, header)
        if report is not None:
            out.print(f"  page: {report}", markup=False)


@contextlib.contextmanager
def _folder(manifest: str) -> Iterator[Path]:
    if not manifest.startswith("runs:/"):
        from evenfold.tasks.references import manifest_folder

        yield manifest_folder(manifest)
        return
    from evenfold.splitters import SplitError
    from evenfold.tasks import Home, prepare_environment

    run_id, _, name = manifest.removeprefix("runs:/").partition("/")
    home = Home.here()
    prepare_environment(home)
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


def _print_look(out: Any, header: dict[str, Any]) -> None:
    from .console import lined_up

    spec = header["spec"]
    what = "draws" if header["kind"] == "draws" else "splits"
    amount = f"{header['n_rows']:,} rows, {header['n_splits']:,} {what}"
    out.print(f"[bold]{header['name']} {header['version']}[/]: {header['algorithm']['name']}, {amount}")
    columns = [f"{role} {'+'.join(v) if isinstance(v, list) else v}" for role, v in spec.get("columns", {}).items()]
    params = ", ".join(f"{name}={value}" for name, value in spec.get("params", {}).items()) or "default parameters"
    held = spec.get("holdout")
    locked = f"; holdout {held.get('fraction', 0.2):.0%}" if held is not None else ""
    asked = f"  asked: {', '.join(columns) or 'no columns'}; {params}; seed {spec.get('seed', 0)}{locked}"
    out.print(asked, markup=False)
    for name in ("split_id", "plan_id", "fingerprint", "parent_split_id"):
        if header[name]:
            out.print(f"  {name.replace('parent_split_id', 'parent'):<11} {header[name]}")
    names = {part["code"]: part["name"] for part in header["parts"]}
    said = {-1: "never tested", -2: "locked", -3: "excluded"} | names
    if header["kind"] == "draws":
        said[0] = "may be drawn"
    counts = [[str(said.get(int(code), f"fold {code}")), f"{rows:,}"] for code, rows in header["counts"].items()]
    out.print("\n".join(lined_up([["fold or part", "rows"], *counts])), markup=False, soft_wrap=True)
    if len(header["generations"]) > 1:
        joined = ", ".join(f"{each['n']}: {each['rows']:,}" for each in header["generations"])
        out.print(f"  rows that joined with each generation: {joined}")


@looking.command(cls=Grouped)
def ui(
    port: Annotated[int, typer.Option(help="MLflow's port; Prefect's page has the next.")] = 5000,
    dry: Annotated[bool, typer.Option("--dry", help="Print the commands and start nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the commands as one JSON object.")] = False,
) -> None:
    """Open the pages of MLflow and Prefect on what was recorded here; Ctrl-C ends both.

    Example: evenfold ui --dry
    """
    from evenfold.tasks import Home, prepare_environment
    from evenfold.tasks.runtime.redaction import redacted

    home = Home.here()
    prepare_environment(home)
    commands = ui_commands(home, port)
    if as_json:
        typer.echo(json.dumps(commands))
    for name, command in ({} if as_json else commands).items():
        typer.echo(redacted(f"{name}: {' '.join(command)}"))
    if dry:
        return
    # Also where a shell's background job ignores Ctrl-C, or a supervisor says stop: neither server outlives this one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    home.make()
    log = home.path / "ui.log"
    with log.open("wb") as said:  # they greet at length; what goes wrong is there
        started = [subprocess.Popen(command, stdout=said, stderr=said) for command in commands.values()]
    try:
        for number, name in enumerate(commands):
            answers = _answers(port + number, started[number])
            place = f"http://127.0.0.1:{port + number}"
            typer.echo(f"{name:<8}{place}" if answers else f"{name:<8}did not start; {log} says why")
        for process in started:
            process.wait()
    except KeyboardInterrupt:
        typer.echo("stopped")
    finally:
        for process in started:
            process.terminate()


def _answers(port: int, process: subprocess.Popen[bytes], seconds: float = 120) -> bool:
    """Wait until something listens on the port; return False where the process ends or the time is over first."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.2)
    return False


def ui_commands(home: Any, port: int) -> dict[str, list[str]]:
    """Return what serves the pages: MLflow on the store in use, and Prefect's server where none is named."""
    mlflow = [_beside("mlflow"), "ui", "--backend-store-uri", home.tracking_store, "--port", str(port)]
    if os.environ.get("PREFECT_API_URL"):
        return {"MLflow": mlflow}
    # Said in the command, so that it can be pasted: without, the page asks port 4200, and shows ~/.prefect.
    said = [f"PREFECT_SERVER_UI_API_URL=http://127.0.0.1:{port + 1}/api", f"PREFECT_HOME={home.path / 'prefect'}"]
    prefect = [_beside("prefect"), "server", "start", "--port", str(port + 1)]
    return {"MLflow": mlflow, "Prefect": ["env", *said, *prefect]}


def _beside(name: str) -> str:
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else shutil.which(name) or name
