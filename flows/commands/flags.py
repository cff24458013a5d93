"""Commands of functions: what one takes are flags, and what it returns is printed, or is JSON with --json."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from evenfold.splitters.errors import SplitError
from evenfold.tasks.parameters import Flag
from evenfold.tasks.requests import signature_of

if TYPE_CHECKING:
    from evenfold.tasks.runtime.home import Home

    from .console import Words

GATE_FAILED = 1  # the exit code
WIDTH = 76  # of an example, in a terminal of 80 columns


@dataclass(frozen=True)
class Answer:
    """The result of a command: what is JSON, and how it is told; ``failed``: a gate is, as exit code 1 says."""

    came: Any
    words: str | Callable[[Words, Any], None]
    failed: bool = False

    def tell(self, as_json: bool) -> None:
        """Print it: as one JSON object, in its words, or as these print it."""
        from pydantic import BaseModel

        from .console import consoles

        out, _ = consoles()
        if as_json:
            out.print_json(self.came.model_dump_json() if isinstance(self.came, BaseModel) else json.dumps(self.came))
        elif isinstance(self.words, str):
            out.say(self.words)
        else:
            self.words(out, self.came)
        if self.failed:
            raise typer.Exit(GATE_FAILED)


def _set_workers(n: int | None) -> None:
    if n is not None:
        os.environ["EVENFOLD_WORKERS"] = str(n)


Workers = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", callback=_set_workers, rich_help_panel="Run", expose_value=False,
        help="Fits at once.  \\[default: EVENFOLD_WORKERS, or a core each, up to 4]",
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def command_of(function: Callable[..., Answer]) -> Callable[..., None]:
    """Return the command that calls ``function`` and tells its answer; its flags are what that takes, and ``--json``.

    A parameter is declared by a ``Flag`` or as Typer's; one that is not given keeps the function's default.
    """
    takes = signature_of(function).parameters
    flags = {name: part for name, p in takes.items() for part in get_args(p.annotation) if isinstance(part, Flag)}
    parameters = [
        _option(p, flags[name]) if name in flags else p.replace(kind=p.KEYWORD_ONLY)
        for name, p in takes.items()
        if name not in flags or not flags[name].hidden
    ]
    more = {"workers": (Workers, None)} if "engine" in takes else {}
    for name, (kind, default) in {**more, "as_json": (Json, False)}.items():
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))

    def command(as_json: bool, **values: Any) -> None:
        arguments = {name: value for name, value in values.items() if value is not None and value != []}
        for name, flag in flags.items():
            if flag.example and name in arguments:
                arguments[name] = values_of(flag.names[0], arguments[name], f"{flag.takes}, such as {flag.example}")
        function(**arguments).tell(as_json)

    command.__doc__ = pasted(inspect.cleandoc(function.__doc__ or ""))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _option(parameter: inspect.Parameter, flag: Flag) -> inspect.Parameter:
    """Return a parameter as Typer takes it."""
    name, default = parameter.name, parameter.default
    required, words = default is parameter.empty, flag.words.replace("[", "\\[")  # the help reads markup
    kind: Any = _as_typed(get_args(parameter.annotation)[0], flag)
    if flag.argument:
        kind = Annotated[kind, typer.Argument(metavar=flag.argument, help=words)]
    else:
        # A switch that is off has one name: --refresh, and no --no-refresh.
        names = flag.names or ([f"--{name.replace('_', '-')}"] if default is False else [])
        option = typer.Option(*names, help=words, metavar=flag.takes or None, rich_help_panel=flag.panel)
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
    plain = [option for option in options if option in (bool, int, float, str, Path)]
    return (plain or [str])[0]


def values_of(flag: str, texts: list[str] | None, example: str) -> dict[str, Any]:
    """Return the values of NAME=JSON flags; one that is no JSON is text. SplitError for no NAME=."""
    values: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise SplitError(f"{flag} {text!r} has no '='; write {example}.")
        try:
            values[name] = json.loads(f"0{value}" if value.startswith(".") else value)
        except json.JSONDecodeError:
            values[name] = value
    return values


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
    """Yield the home; meanwhile a terminal says that ``what`` is under way."""
    from evenfold.tasks.runtime.home import Home
    from rich.text import Text

    from .console import consoles

    with consoles()[1].status(Text(what)):
        yield Home.here()
