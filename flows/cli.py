"""The command line. Thin: it reads flags, calls a flow, prints what came out."""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from evenfold.estimates.errors import EvaluationError, ModelError
from evenfold.flows import definitions
from evenfold.flows.commands import deploying, manifests, operations, studies
from evenfold.flows.commands.flags import GATE_FAILED, Answer, command_of
from evenfold.splitters.errors import SplitError
from evenfold.tasks.requests import signature_of

from evenfold import flows

app = typer.Typer(
    help="Split data once, provably; train a model per fold; record honest scores.",
    epilog="Exit codes: 0 done, 1 a gate failed, 2 bad input, 3 an evaluation failed. "
    "Every command has an example in its own --help, and --json for machines.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _say_version(flag: bool) -> None:
    if flag:
        from importlib.metadata import version

        typer.echo(f"evenfold {version('evenfold')}")
        raise typer.Exit


@app.callback()
def _asked_first(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Set what Prefect and MLflow read at their import, before any command imports them."""
    from evenfold.tasks.runtime.home import prepare_environment

    prepare_environment()


OK, BAD_INPUT, EVALUATION_FAILED = 0, 2, 3


def _flow(name: str) -> Callable[..., Answer]:
    """Return the function of a flow's command: it runs the flow, and says what came of it."""

    def run(**arguments: Any) -> Answer:
        from evenfold.flows.commands import show

        with show.progress(show.consoles()[1]):
            return Answer(getattr(flows, name)(**arguments), show.SHOWN[name])

    declared = getattr(definitions, name)
    run.__signature__ = signature_of(declared)  # type: ignore[attr-defined]
    # What is between is about Python.
    first, *_, example = inspect.cleandoc(declared.__doc__).split("\n\n")
    run.__doc__ = f"{first}\n\n{example}"
    return run


# In the order of the help.
COMMANDS: dict[str, Callable[..., Answer]] = {
    "demo": studies.demo,
    **{name: _flow(name) for name in ("split", "evaluate", "plan", "retrain", "extend")},
    "audit": manifests.audit,
    "verify": manifests.verify,
    "diff": manifests.diff,
    "list": operations.list_,
    "show": manifests.show,
    "export": manifests.export,
    "adopt": manifests.adopt,
    "join": manifests.join,
    "load": operations.load,
    "compare": studies.compare,
    "predict": studies.predict,
    "score": studies.score,
    "leaderboard": operations.leaderboard,
    "tune": _flow("tune"),
    "folds": studies.folds,
    "strategies": studies.strategies,
    "deploy": deploying.deploy,
    "doctor": operations.doctor,
    "withdraw": operations.withdraw,
    "rollback": operations.rollback,
    "champion": operations.champion,
    "replay": operations.replay,
    "answer": operations.answer,
    "trust": operations.trust,
    "up": operations.up,
    "clean": operations.clean,
}
for name, function in COMMANDS.items():
    app.command(name)(command_of(function))


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2, a failed evaluation with 3.

    Ctrl-C and SIGTERM end it within seconds, with one line and exit code 130 or 143.
    """
    # What is imported stays: looking through its half a million objects for garbage took a tenth of a short command.
    gc.set_threshold(100_000, 50, 1_000)
    atexit.register(_leave_garbage)
    # A model or strategy of one's own is named by its import path; at the end, so that it hides nothing.
    sys.path.append(os.getcwd())
    # Of a home that is not there yet, which a step makes when it writes.
    warnings.filterwarnings("ignore", message="Failed to create the Prefect home directory")
    from evenfold.tasks.runtime.redaction import CALLED_WITH
    from evenfold.tasks.runtime.stopping import ending_at_signals

    CALLED_WITH[:] = sys.argv[1:]
    try:
        with ending_at_signals():
            code: Any = app(prog_name="evenfold", standalone_mode=False)
    except Exception as error:
        if hasattr(error, "format_message"):  # what is typed wrongly, as Typer says it; nothing where it shows the help
            _stop(" ".join(error.format_message().split()), BAD_INPUT)
        refusal = _code_of(error)
        if refusal is None:
            from evenfold.tasks.steps.outages import outage_of

            error, refusal = outage_of(error), EVALUATION_FAILED
        _stop(str(error), refusal)
    sys.exit(code if isinstance(code, int) else OK)


def _leave_garbage() -> None:
    """Let the end of the process look for none, which took a fifth of it; DuckDB would call what is left a leak."""
    if "_duckdb" not in sys.modules:
        gc.freeze()


def _code_of(error: Exception) -> int | None:
    if isinstance(error, (SplitError, ModelError)):
        return BAD_INPUT
    if isinstance(error, EvaluationError):
        return EVALUATION_FAILED
    from .outcomes import GateError  # last, for it takes a second: a misspelt name is answered at once

    return GATE_FAILED if isinstance(error, GateError) else None


def _stop(message: str, code: int) -> None:
    from evenfold.tasks.runtime.redaction import redacted

    if message:
        sys.stderr.write(f"evenfold: {redacted(message)}\n")
    sys.exit(code)
