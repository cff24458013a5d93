"""The command line. Thin: it reads flags, calls a flow, prints what came out."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from evenfold.flows import definitions
from evenfold.flows.commands.flags import EPILOG, Commands, command_of
from evenfold.flows.commands.looking import looking
from evenfold.flows.commands.manifests import commands
from evenfold.flows.commands.operations import add_commands
from evenfold.flows.commands.studies import register_studies
from evenfold.tasks.parameters import Engine

app = typer.Typer(
    cls=Commands,
    help="Split data once, evenly and provably; train a model per fold; record an honest estimate.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(commands)
app.add_typer(looking)

OK, GATE_FAILED, BAD_INPUT, EVALUATION_FAILED = 0, 1, 2, 3


def _demo(engine: Engine = "prefect") -> None:
    """Show the product on real data: a leak found on flights, and .632 on breast cancer.

    Example: evenfold demo --engine plain
    """


def _run_demo(engine: Any, as_json: bool) -> None:
    from evenfold.tasks import Home, prepare_environment

    prepare_environment(Home.here())
    from evenfold.flows.commands.demo import run_demo

    run_demo(engine, as_json)


def _runs(name: str) -> Any:
    """Return what a command of a flow does: it runs the flow, and prints what came of it."""

    def act(as_json: bool, **asked: Any) -> None:
        from evenfold.flows.commands import show
        from evenfold.tasks import Home, prepare_environment

        prepare_environment(Home.here())
        from evenfold import flows

        out, err = show.consoles()
        with show.progress(err):
            outcome = getattr(flows, name)(**asked)
        if as_json:
            out.print_json(outcome.model_dump_json())
        else:
            shown: Any = show.SHOWN[name]
            shown(out, outcome)

    return act


FLOWS: tuple[Any, ...] = (
    definitions.split, definitions.evaluate, definitions.tune, definitions.extend, definitions.retrain
)  # fmt: skip
for flow in FLOWS:
    app.command()(command_of(flow, _runs(flow.__name__)))
app.command("demo")(command_of(_demo, _run_demo))
register_studies(app)
add_commands(app)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2, a failed evaluation with 3.

    Ctrl-C and SIGTERM end it within seconds, with one line and exit code 130 or 143.
    """
    # A model or strategy of one's own is named by its import path; at the end, so that it hides nothing.
    sys.path.append(os.getcwd())
    from evenfold.tasks.runtime.stopping import stoppable

    try:
        stoppable(app)
    except Exception as error:
        code = _code_of(error)
        if code is None:
            raise
        _stop(str(error), code)


def _code_of(error: Exception) -> int | None:
    # Imported here: help and completion, which raise none of them, are there at once.
    from evenfold.estimates import EvaluationError, ModelError
    from evenfold.splitters import SplitError

    from .outcomes import GateError

    if isinstance(error, GateError):
        return GATE_FAILED
    if isinstance(error, (SplitError, ModelError)):
        return BAD_INPUT
    return EVALUATION_FAILED if isinstance(error, EvaluationError) else None


def _stop(message: str, code: int) -> None:
    from evenfold.tasks.runtime.redaction import redacted

    sys.stderr.write(f"evenfold: {redacted(message)}\n")
    sys.exit(code)
