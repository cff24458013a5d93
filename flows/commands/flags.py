"""Commands of functions: what one takes are flags, and what it returns is printed, or is JSON with --json."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
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

GATE_FAILED = 1  # the exit code


@dataclass(frozen=True)
class Answer:
    """The result of a command, and its words or what prints it; ``failed``: a gate is, as exit code 1 says."""

    came: Any
    words: str | Callable[[Words, Any], None]
    failed: bool = False


def show_json(out: Words, came: Any) -> None:
    """Print a result as one JSON object."""
    from pydantic import BaseModel

    out.print_json(came.model_dump_json() if isinstance(came, BaseModel) else json.dumps(came))


FITS_AT_ONCE = "Fits at once.  [default: EVENFOLD_WORKERS, or a core each, up to 4]"
Workers = Annotated[int | None, typer.Option(min=1, metavar="N", rich_help_panel="Run", help=FITS_AT_ONCE)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def command_of(function: Callable[..., Answer]) -> Callable[..., None]:
    """Return the command that calls ``function`` and prints its answer; its flags are what that takes, and ``--json``.

    A parameter is declared by a ``Flag``, or as Typer's. One that is not given keeps the function's default.
    """
    takes = dict(signature_of(function).parameters)
    hears = takes.pop("as_json", None)  # what it does depends on it
    flags = {name: part for name, p in takes.items() for part in get_args(p.annotation) if isinstance(part, Flag)}
    parameters = [_parameter(p, flags.get(name)) for name, p in takes.items()]
    parameters = [p for p in parameters if p.name not in flags or not flags[p.name].hidden]
    added = {"workers": (Workers, None)} if "engine" in takes else {}
    for name, (kind, default) in {**added, "as_json": (Json, False)}.items():
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))

    def command(as_json: bool, workers: int | None = None, **values: Any) -> None:
        if workers is not None:
            os.environ["EVENFOLD_WORKERS"] = str(workers)
        arguments = {name: value for name, value in values.items() if value is not None and value != []}
        for name, flag in flags.items():
            if flag.example and name in arguments:
                arguments[name] = values_of(flag.names[0], arguments[name], f"{flag.takes}, such as {flag.example}")
        answer = function(**arguments, **({"as_json": as_json} if hears else {}))
        from .console import consoles

        out, _ = consoles()
        if as_json:
            show_json(out, answer.came)
        elif isinstance(answer.words, str):
            out.say(answer.words)
        else:
            answer.words(out, answer.came)
        if answer.failed:
            raise typer.Exit(GATE_FAILED)

    command.__doc__ = pasted(inspect.cleandoc(function.__doc__ or ""))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(parameter: inspect.Parameter, flag: Flag | None) -> inspect.Parameter:
    """Return a parameter as Typer takes it."""
    if flag is None:
        return parameter.replace(kind=parameter.KEYWORD_ONLY)
    name, default = parameter.name, parameter.default
    required = default is parameter.empty
    kind: Any = _as_typed(get_args(parameter.annotation)[0], flag)
    if flag.argument:
        kind = Annotated[kind, typer.Argument(metavar=flag.argument, help=flag.words)]
    else:
        # A switch that is off has one name: --refresh, and no --no-refresh.
        names = flag.names or ([f"--{name.replace('_', '-')}"] if default is False else [])
        option = typer.Option(*names, help=flag.words, metavar=flag.takes or None, rich_help_panel=flag.panel)
        kind = Annotated[kind if required else kind | None, option]
    if not required and (default == "" or not isinstance(default, (bool, str, int, float, Path))):
        default = None
    return parameter.replace(kind=parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _as_typed(kind: Any, flag: Flag) -> Any:
    """Return the type of what is typed at a terminal for a parameter of this type."""
    options = [option for option in get_args(kind) if option is not type(None)] or [kind]
    if flag.example or any(get_origin(option) is Sequence for option in options):
        return list[str]
    if len(options) == 1 and get_origin(options[0]) is Literal:
        return options[0]
    if any(get_origin(option) is Literal for option in options):  # a word, or what else it may be
        return str
    return next((option for option in options if option in (bool, int, float, str, Path)), str)


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
        """Write the arguments and each group of options, with a word for the type: N, PATH, TEXT."""
        groups: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for parameter in self.get_params(ctx):
            name, text = parameter.get_help_record(ctx) or ("", "")
            if parameter.param_type_name == "argument":
                groups["Arguments"].append((name.partition(" <")[0], text))
            elif name:
                before, blank, kind = name.rpartition(" ")
                panel = getattr(parameter, "rich_help_panel", None) or "Options"
                groups[panel].append((f"{before}{blank}{TYPES.get(kind, kind)}", text))
        for panel, records in groups.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


class Commands(TyperGroup):
    """The commands, of which a mistyped name is refused with the nearest."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options; how completion is shown is told in the docs, so that the help fits a screen."""
        params: list[Any] = super().get_params(ctx)
        for param in params:
            param.hidden = param.hidden or param.name == "show_completion"
        return params

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; raises SplitError for one that none has, with the nearest."""
        if self.get_command(ctx, args[0]) is None:
            hint = meant(args[0], self.list_commands(ctx), cutoff=0.5) or "evenfold --help lists those that there are."
            raise SplitError(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


WIDTH = 76  # of an example, in a terminal of 80 columns


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


@contextmanager
def busy(what: str) -> Iterator[Home]:
    """Yield the home; meanwhile a terminal says that ``what`` is under way, and for how long."""
    from evenfold.tasks.runtime.home import Home
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from .console import consoles

    console = consoles()[1]
    signs = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    bar = Progress(*signs, console=console, transient=True)
    bar.add_task(what, total=None)
    with bar if console.is_terminal else nullcontext():
        yield Home.here()
