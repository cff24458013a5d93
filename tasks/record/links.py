"""Addresses of MLflow's pages: those of training runs, where MLflow would else open its page for language models."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from urllib.parse import quote

from evenfold.tasks.runtime.home import Home, Settings
from evenfold.tasks.runtime.redaction import CALLED_WITH, redacted
from evenfold.tasks.steps.step import flow_run_tags
from prefect.context import FlowRunContext

from .entries import SHORT
from .tracker import active_run

TRAINING = "workflowType=machine_learning"


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
