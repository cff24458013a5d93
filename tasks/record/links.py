"""Names in a run: MLflow's pages, who made it and by which command, and the data and split that it reads."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from evenfold.manifests import Audit, BalanceReport
from evenfold.manifests.tables.read import has_columns_apart, schema_of
from evenfold.reports import verdict_of
from evenfold.tasks.outcomes import SplitRef
from evenfold.tasks.record.entries import SHORT
from evenfold.tasks.record.tracker import active_run
from evenfold.tasks.runtime.home import Home, Settings
from evenfold.tasks.runtime.redaction import CALLED_WITH, redacted
from evenfold.tasks.steps.step import flow_run_tags
from prefect.context import FlowRunContext

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput

TRAINING = "workflowType=machine_learning"  # else MLflow opens its page for language models


def run_page(experiment_id: str, run_id: str, below: str = "", server: str = "") -> str:
    """Return the address of a run, or of what lies ``below`` it (artifacts/report.html).

    Without a ``server`` it holds on any page of the same store: a run's description need not know where it is shown.
    """
    return f"{server}#/experiments/{experiment_id}/runs/{run_id}{'/' if below else ''}{below}?{TRAINING}"


def runs_on(experiment_id: str, split_id: str) -> str:
    """Return the address of the list of every run that rests on a split."""
    query = quote(f'tags.split="{split_id[:SHORT]}"')
    return f"#/experiments/{experiment_id}/runs?searchFilter={query}&{TRAINING}"


def server_of(home: Home) -> str:
    """Return the address that pages of the store begin with; nothing where no server is known."""
    uri = home.tracking_uri.rstrip("/")
    return f"{uri}/" if uri.startswith("http") else ""


def origin_tags() -> dict[str, str]:
    """Return who made a record and by which command, the flow run that did, and the user's run it was made in."""
    source = {"mlflow.user": Settings.here().person, "mlflow.source.name": command()}
    inside = {"mlflow.parentRunId": run.info.run_id} if (run := active_run(Home.here())) else {}
    return source | {"mlflow.source.type": "LOCAL"} | flow_run_tags() | inside


def command() -> str:
    """Return what was called: the command line, the deployed flow, or the script; passwords in it are left out.

    Files stand without their folders: MLflow's page shows what follows the last slash.
    """
    flow, program = FlowRunContext.get(), Path(sys.argv[0])
    if CALLED_WITH:  # not what a script of the user's was called with, which may hold anything
        return re.sub(r"[^\s=']*/", "", redacted(f"evenfold {shlex.join(CALLED_WITH)}"))[:500]
    if flow is not None and flow.flow_run is not None and flow.flow_run.deployment_id is not None and flow.flow:
        return f"deployment of {flow.flow.name}"
    if program.name in ("ipykernel_launcher.py", "colab_kernel_launcher.py"):
        return "notebook"
    return program.name if program.name not in ("", "-c") else "python"


# What MLflow calls the types of our columns; all others are times.
COLUMN_TYPES = {"int": "long", "float": "double", "text": "string", "bool": "boolean"}


def split_input(
    split: SplitRef, run_id: str, report: BalanceReport | None = None, audit: Audit | None = None
) -> DatasetInput:
    """Return the split as a dataset of the type ``evenfold_split``, which ``mlflow.data.get_source`` loads.

    MLflow keeps what it is told first, which is the split's own record: its worst figures and the audit's verdict.
    """
    source = {"uri": f"evenfold://{split.name}/{split.version}", "split_id": split.split_id}
    manifest = split.stored()
    keys = [name for name in manifest.spec.key_names if name in manifest.types]
    profile: dict[str, object] = {"rows": split.n_rows, "splits": split.n_splits, "strategy": split.strategy}
    profile |= {"generation": manifest.generation} | ({} if report is None else {"worst": report.worst})
    if audit is not None:
        severities = [finding.severity for finding in audit.findings]
        counts = {f"{severity}s": severities.count(severity) for severity in ("error", "warning", "note")}
        profile["audit"] = {"verdict": verdict_of(None, audit).word, "passed": len(audit.passed), **counts}
    return _input(
        "split",
        name=f"{split.name}@{split.version}",
        digest=split.split_id[:32],  # as long as MLflow keeps one
        source_type="evenfold_split",
        source=json.dumps(source | {"artifact": f"runs:/{run_id}/split"}),
        schema=_schema({name: manifest.types.get(name, "text") for name in keys} | {"fold": "int"}),
        profile=json.dumps(profile),
    )


def data_input(split: SplitRef, digest: str, context: str) -> DatasetInput:
    """Return the data by our own digest (MLflow's reads the first 10,000 rows only), with columns and rows.

    Parquet files and addresses are told with all their columns, others with those that the split read; an address
    without what opens it, such as a token.
    """
    uri = redacted(split.data)
    return _input(
        context,
        name=Path(uri).name[:500],
        digest=digest[:32],
        source_type="local",
        source=json.dumps({"uri": uri}),
        schema=_schema(_columns(split)),
        profile=json.dumps({"rows": split.n_rows}),
    )


def _columns(split: SplitRef) -> dict[str, str]:
    if not has_columns_apart(split.data):
        return split.stored().types
    kinds = {"int": "int", "uint": "int", "float": "float", "double": "float", "bool": "bool"}
    kinds |= {"timestamp": "timestamp", "date": "date"}
    return {
        field.name: next((kind for start, kind in kinds.items() if str(field.type).startswith(start)), "text")
        for field in schema_of(split.data)
    }


def _schema(types: dict[str, str]) -> str:
    columns = [
        {"name": name, "type": COLUMN_TYPES.get(kind, "datetime"), "required": False} for name, kind in types.items()
    ]
    return json.dumps({"mlflow_colspec": columns})


def _input(context: str, **dataset: str) -> DatasetInput:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return DatasetInput(Dataset(**dataset), [InputTag("mlflow.data.context", context)])
