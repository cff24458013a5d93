"""The base of commands: flags, made of what a function is asked; how they are listed; and how they answer.

While one is at work a terminal has a sign of life, where there are no steps to count.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from evenfold.splitters.errors import SplitError, meant
from evenfold.tasks.parameters import Flag
from evenfold.tasks.requests import signature_of
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from evenfold.tasks.runtime.home import Home

    from .console import Words


def _set_workers(n: int | None) -> None:
    if n is not None:
        os.environ["EVENFOLD_WORKERS"] = str(n)


Workers = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", callback=_set_workers, rich_help_panel="Run", expose_value=False,
        help="Fits at once.  [default: EVENFOLD_WORKERS, or a core each, up to 4]",
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def command_of(function: Callable[..., Any], act: Callable[..., None] | None = None) -> Callable[..., None]:
    """Return the command that calls ``function``, whose flags are its parameters, and ``--json``.

    ``act`` is called instead with what was given, ``as_json`` among it. A parameter that was not given keeps the
    function's default. Types, descriptions and names of flags come from ``evenfold.tasks.requests``.
    """
    takes = {name: p for name, p in signature_of(function).parameters.items() if name != "as_json"}
    flags = {name: Flag.of(p.annotation) for name, p in takes.items()}
    parameters = [_parameter(p, flags[name]) for name, p in takes.items() if not flags[name].hidden]
    if "engine" in takes:
        parameters.append(
            inspect.Parameter("workers", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Workers)
        )
    parameters.append(inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json))

    def command(**values: Any) -> None:
        arguments = {name: value for name, value in values.items() if value is not None and value != []}
        for name, flag in flags.items():
            if flag.example and name in arguments:
                arguments[name] = values_of(flag.names[0], arguments[name], f"{flag.takes}, such as {flag.example}")
        (act or function)(**arguments)

    command.__name__ = function.__name__
    parts = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    command.__doc__ = "\n\n".join([parts[0], *(part for part in parts[1:] if part.startswith("Example:"))])
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(parameter: inspect.Parameter, flag: Flag) -> inspect.Parameter:
    name, text = parameter.name, flag.words
    required = parameter.default is parameter.empty
    annotation: Any = _as_typed(get_args(parameter.annotation)[0], flag)
    if flag.argument:
        annotation = Annotated[annotation, typer.Argument(metavar=flag.argument, help=text)]
    else:
        # A switch that is off has one name: --refresh, and no --no-refresh.
        names = flag.names or ([f"--{name.replace('_', '-')}"] if parameter.default is False else [])
        option = typer.Option(*names, help=text, metavar=flag.takes or None, rich_help_panel=flag.panel)
        annotation = Annotated[annotation if required else annotation | None, option]
    default = inspect.Parameter.empty if required else parameter.default
    if required or (isinstance(default, (bool, str, int, float, Path)) and default != ""):
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _as_typed(kind: Any, flag: Flag) -> Any:
    """Return the type of what is typed at a terminal for a parameter of this type."""
    options = [option for option in get_args(kind) if option is not type(None)] or [kind]
    if flag.example or any(get_origin(option) is Sequence for option in options):
        return list[str]
    if len(options) == 1 and get_origin(options[0]) is Literal:
        return options[0]
    if any(get_origin(option) is Literal for option in options):  # a word, or what else it may be
        return str
    plain = [option for option in options if option in (bool, int, float, str, Path)]
    return (plain or [str])[0]


def values_of(flag: str, texts: list[str] | None, example: str) -> dict[str, Any]:
    """Return the values of NAME=JSON flags; one that is no JSON is text. SplitError for a name that is given twice."""
    values: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise SplitError(f"{flag} {text!r} has no '='; write {example}.")
        try:
            values[name] = json.loads(f"0{value}" if value.startswith(".") else value)
        except json.JSONDecodeError:
            values[name] = value
    require_once(f"{flag} {text.partition('=')[0]}" for text in texts or [])
    return values


def require_once(names: Iterable[str]) -> None:
    """Raise SplitError for what is given again where one value counts."""
    for name, times in Counter(names).items():
        if times > 1:
            raise SplitError(f"{name} is given {times} times, and only the last would count; give it once.")


# In the order of the help.
NAMES = (
    "demo", "split", "evaluate", "plan", "retrain", "extend", "audit", "verify", "diff", "list", "show", "export",
    "adopt", "join", "load", "compare", "predict", "score", "leaderboard", "tune", "folds", "strategies", "deploy",
    "doctor", "withdraw", "rollback", "champion", "replay", "answer", "trust", "up", "clean",
)  # fmt: skip
EPILOG = (
    "\b\nExit codes: 0 done, 1 a gate failed, 2 bad input, 3 an evaluation failed.\n"
    "Every command has an example in its own --help, and --json for machines."
)
WIDTH = 76

PANELS = ("Arguments", "Data", "Split", "Model", "Output", "Run", "Options")
TYPES = {"<str>": "TEXT", "<list[str]>": "TEXT", "<path>": "PATH", "<int>": "N", "<float>": "NUMBER"}


class Grouped(TyperCommand):
    """A command whose help shows its options below what they are about: data, split, model, output.

    An option that takes one value and is given twice is refused: the first would be forgotten without a word.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return what is left of the words; raises SplitError for an option of one value that is given again."""
        longest = {
            name: max(option.opts, key=len)
            for option in self.get_params(ctx)
            if option.param_type_name == "option" and not getattr(option, "multiple", True)
            for name in option.opts
        }
        require_once(longest[name] for word in args if (name := word.partition("=")[0]) in longest)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and each group of options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            panel = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
            groups.setdefault(panel, []).append((_plain(record[0], is_argument), record[1]))
        for panel in sorted(groups, key=PANELS.index):
            with formatter.section(panel):
                formatter.write_dl(groups[panel])


def _plain(name: str, is_argument: bool) -> str:
    """Return how an option is written, with a word for its type: N, PATH, TEXT; an argument is a word itself."""
    before, blank, kind = name.rpartition(" ")
    if is_argument and kind.startswith("<"):
        return before
    return f"{before}{blank}{TYPES.get(kind, kind)}"


class Commands(TyperGroup):
    """The commands in the order of NAMES, each with the beginning of its first sentence; others come last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in that order."""
        places = {name: place for place, name in enumerate(NAMES)}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(name, len(places)))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options; how completion is shown is told in the docs, so that the help fits a screen."""
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if param.name == "show_completion":
                param.hidden = True
        return params

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; raises SplitError for one that none has, with the nearest."""
        if self.get_command(ctx, args[0]) is None:
            hint = meant(args[0], self.list_commands(ctx), cutoff=0.5) or "evenfold --help lists those that there are."
            raise SplitError(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with a short help that fits a line, and an example that fits a screen."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and "\b" not in (command.help or ""):
            command.short_help = re.split(r"(?<=.{30})[;:,.](?=\s|$)", command.help or "", maxsplit=1)[0]
            command.help = pasted(command.help or "")
        return command


def pasted(text: str) -> str:
    """Return a help text whose example stands alone, broken between flags so that a shell can take it as it is."""
    before, marker, example = text.partition("Example: ")
    if not marker:
        return text
    lines = [""]
    for part in re.split(r" (?=-)", " ".join(example.split())):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append("    ")
        lines[-1] += part if not lines[-1].strip() else f" {part}"
    return f"{before}\b\nExample:\n  " + "\n  ".join(lines)


AFTER = 2.0  # seconds; what is done sooner needs no sign


@contextmanager
def busy(what: str) -> Iterator[Home]:
    """Yield the home; on a terminal, once it takes over two seconds, say for how long ``what`` is under way."""
    from evenfold.tasks.runtime.home import Home
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from .console import consoles

    home = Home.here()
    console = consoles()[1]
    if not console.is_terminal:
        yield home
        return
    spinner = Progress(
        SpinnerColumn(), TextColumn(what, markup=False), TimeElapsedColumn(), console=console, transient=True
    )
    spinner.add_task(what, total=None)
    timer = threading.Timer(AFTER, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        yield home
    finally:
        timer.cancel()
        timer.join()  # a start that is under way is finished before it is stopped
        spinner.stop()


GATE_FAILED = 1  # the exit code


def answer(came: Any, as_json: bool, show: str | Callable[[Words, Any], None], *, failed: bool = False) -> None:
    """Print what came of a command: as one JSON object, or in the words ``show``, or as this prints it.

    ``failed``: the command ends with exit code 1 then.
    """
    from pydantic import BaseModel

    from .console import consoles

    out, _ = consoles()
    if as_json:
        out.print_json(came.model_dump_json() if isinstance(came, BaseModel) else json.dumps(came))
    elif isinstance(show, str):
        out.print(show)
    else:
        show(out, came)
    if failed:
        raise typer.Exit(GATE_FAILED)
