"""The command line. Thin: it reads flags, calls a flow, prints what came out."""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from evenfold.flows import definitions as of
from evenfold.flows.commands import deploying, manifests, operations, studies
from evenfold.flows.commands.terminal import GATE_FAILED, UNFORESEEN, OnceEach, Output, command_of
from evenfold.splitters.errors import EvaluationError, EvenfoldError, ModelError, SplitError, redacted
from evenfold.tasks.requests import signature_of
from evenfold.tasks.runtime.home import prepare_environment
from evenfold.tasks.runtime.progress import CALLED_WITH, ending_at_signals, outage_of, unreachable

import evenfold

app = typer.Typer(
    help="Split data once, provably; train a model per fold; record honest scores.",
    epilog="\b\nExit codes: 0 done, 1 a gate failed, 2 bad input, 3 an evaluation failed, 70 a bug.\n"
    "Every command has an example in its own --help, and --json for machines.",
    no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False, rich_markup_mode="rich",
)  # fmt: skip


def _say_version(flag: bool) -> None:
    if flag:
        typer.echo(f"evenfold {evenfold.__version__}")
        raise typer.Exit


@app.callback()
def _asked_first(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Set what Prefect and MLflow read at their import, before any command imports them."""
    prepare_environment()


def _flow(declared: Callable[..., Any]) -> Callable[..., Output]:
    """Return the function of a flow's command: it runs the flow."""

    def run(**arguments: Any) -> Output:
        return Output(getattr(evenfold.flows, declared.__name__)(**arguments))

    paragraphs = (inspect.getdoc(declared) or "").split("\n\n")  # between the first and the example: of Python
    run.__name__, run.__doc__ = declared.__name__, "\n\n".join([paragraphs[0], paragraphs[-1]])
    run.__signature__ = signature_of(declared)  # type: ignore[attr-defined]
    return run


IN_ORDER: tuple[Any, ...] = (
    studies.demo, _flow(of.split), _flow(of.evaluate), _flow(of.plan), _flow(of.retrain), _flow(of.extend),
    manifests.audit, manifests.verify, manifests.diff, operations.list_, manifests.show, manifests.export,
    manifests.adopt, manifests.join, operations.load, studies.compare, studies.predict, studies.score,
    operations.leaderboard, _flow(of.tune),
    studies.folds, studies.strategies, deploying.deploy, operations.doctor, operations.withdraw, operations.rollback,
    operations.champion, operations.replay, operations.answer, operations.trust, operations.up, operations.clean,
)  # fmt: skip
COMMANDS: dict[str, Callable[..., Output]] = {function.__name__.rstrip("_"): function for function in IN_ORDER}
for name, function in COMMANDS.items():
    beginning = re.split(r"(?<=.{30})[;:,.](?=\s|$)", inspect.getdoc(function) or "", maxsplit=1)[0]
    app.command(name, cls=OnceEach, short_help=beginning)(command_of(function, asks=function is operations.trust))


def main() -> None:
    """Run the command line; bad input ends with a sentence and exit code 2, a failed evaluation with 3, a bug with 70.

    Ctrl-C and SIGTERM end it within seconds, with one line and exit code 130 or 143.
    """
    # What is imported stays: looking through its half a million objects for garbage took a tenth of a short command.
    gc.set_threshold(100_000, 50, 1_000)
    # Nor does its end look for any, which took a fifth of it; DuckDB would call what is left a leak.
    atexit.register(lambda: None if "_duckdb" in sys.modules else gc.freeze())
    # A model or strategy of one's own is named by its import path; at the end, so that it hides nothing.
    sys.path.append(os.getcwd())
    # Of a home that is not there yet, which a step makes when it writes.
    warnings.filterwarnings("ignore", message="Failed to create the Prefect home directory")
    CALLED_WITH[:] = sys.argv[1:]
    try:
        with ending_at_signals():
            code: Any = app(prog_name="evenfold", standalone_mode=False)
    except Exception as raised:
        error: Any = raised
        if hasattr(error, "format_message"):  # by Typer, of what is typed wrongly; "" where it has shown the help
            near = getattr(error, "possibilities", None)
            words = f"{error.message}; did you mean {' or '.join(near)}?" if near else error.format_message()
            words = " ".join(words.replace("Value error, ", "").split()).rstrip(".")
            path = error.ctx.command_path if error.ctx else "evenfold"
            more = "" if words.endswith("?") or not words else f"; {path} --help shows what it takes."
            code, message = 2, f"{words[:1].lower()}{words[1:]}{more}"
        else:
            if not isinstance(error, EvenfoldError):
                if not unreachable(error):
                    traceback.print_exc()
                    sys.exit(UNFORESEEN)
                error = outage_of(error)
            bad, failed = isinstance(error, (SplitError, ModelError)), isinstance(error, EvaluationError)
            code, message = 2 if bad else 3 if failed else GATE_FAILED, str(error)
        if message:
            sys.stderr.write(f"evenfold: {redacted(message)}\n")
    sys.exit(code)
