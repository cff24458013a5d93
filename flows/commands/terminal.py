"""A command at a terminal: its flags are what a function takes, and what that returns is printed, or JSON (--json)."""

from __future__ import annotations

import inspect
import json
import os
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from evenfold.reports.terminal import Words, output, progress
from evenfold.splitters.errors import SplitError
from evenfold.tasks.parameters import Flag, run
from evenfold.tasks.requests import signature_of
from evenfold.tasks.runtime.progress import SAY, setting
from pydantic import BaseModel
from rich.markup import escape
from typer.core import TyperCommand

GATE_FAILED, UNFORESEEN = 1, 70  # exit codes; Python's own of an error that nobody caught is that of a gate
OUTPUT_FLAGS = ("-o", "--output")


@dataclass(frozen=True)
class Output:
    """The result of a command; ``failed``: a gate is, as exit code 1 says.

    ``words``: its words, or what prints it; without any it is shown as results of its type are.
    """

    came: Any
    words: str | Callable[[Words, Any], None] | None = None
    failed: bool = False

    def tell(self, out: Words) -> None:
        """Print it as people read it."""
        if isinstance(self.words, str):
            out.say(self.words)
        elif self.words is not None:
            self.words(out, self.came)
        else:
            from .show import show  # which loads what pages are made of

            show(self.came, out)


def show_json(out: Words, came: Any) -> None:
    """Print a result as one JSON object."""
    out.print_json(came.model_dump_json() if isinstance(came, BaseModel) else json.dumps(came))


option = partial(Flag, "")  # of a command that has so few that no panel parts them
PER_CORE = "Fits at once.  [default: EVENFOLD_WORKERS, or a core each, up to 4]"
Workers = Annotated[int | None, run(PER_CORE, "N", least=1)]
Json = Annotated[bool, option("Print one JSON object instead of tables.", names=("--json",))]


def command_of(function: Callable[..., Output], *, asks: bool = False) -> Callable[..., None]:
    """Return the command that calls ``function`` and prints its answer; its flags are what that takes, and ``--json``.

    One that is not given keeps the function's default. ``asks``: a person may be asked meanwhile, and no bar runs over
    the question.
    """
    takes = list(signature_of(function).parameters.values())
    flags = {p.name: Flag.of(p.annotation) for p in takes}
    added = {"workers": (Workers, None)} if "engine" in flags else {}
    for name, (kind, default) in {**added, "as_json": (Json, False)}.items():
        takes.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    parameters = [_parameter(p, flag) for p in takes if not (flag := Flag.of(p.annotation)).hidden]

    def command(as_json: bool, workers: int | None = None, **values: Any) -> None:
        if workers is not None:
            os.environ["EVENFOLD_WORKERS"] = str(workers)
        arguments = {name: value for name, value in values.items() if value is not None and value != []}
        for name, flag in flags.items():
            if flag.example and name in arguments:
                arguments[name] = _values_of(flag.names[0], arguments[name], f"{flag.takes}, such as {flag.example}")
        with nullcontext(SAY.get()) if asks else progress(function.__name__.rstrip("_")) as say, setting(SAY, say):
            answer = function(**arguments)
        if as_json:
            show_json(output(), answer.came)
        else:
            answer.tell(output())
        if answer.failed:
            raise typer.Exit(GATE_FAILED)

    before, _, example = inspect.cleandoc(function.__doc__ or "").partition("Example: ")
    # For a terminal of 80 columns; broken before a flag alone, so that a shell takes it as it is.
    flags_apart = re.sub(r" (?!-)", "\0", " ".join(example.split()))
    lines = textwrap.wrap(flags_apart, 74, break_on_hyphens=False, break_long_words=False)
    command.__doc__ = f"{before}\b\nExample:\n  " + " \\\n      ".join(lines).replace("\0", " ")
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(parameter: inspect.Parameter, flag: Flag) -> inspect.Parameter:
    """Return a parameter as Typer takes it."""
    default, required = parameter.default, parameter.default is parameter.empty
    declared = get_args(parameter.annotation)[0]
    parts = [declared] if get_origin(declared) is Literal else get_args(declared) or [declared]
    kinds = [part for part in parts if part is not type(None)]
    kind: Any = next((part for part in kinds if part in (bool, int, float, str, Path)), str)
    if flag.example or any(get_origin(part) is Sequence for part in kinds):
        kind = list[str]
    elif any(get_origin(part) is Literal for part in kinds):
        kind = kinds[0] if len(kinds) == 1 else str
    words, takes = escape(flag.words), flag.argument or flag.takes or None
    if flag.argument:
        kind = Annotated[kind, typer.Argument(metavar=takes, help=words, callback=flag.read)]
    else:
        # A switch that is off has one name: --refresh, and no --no-refresh.
        names = flag.names or ([f"--{parameter.name.replace('_', '-')}"] if default is False else [])
        typed = typer.Option(*names, help=words, metavar=takes, rich_help_panel=flag.panel or None, min=flag.least)
        kind = Annotated[kind if required else kind | None, typed]
    if not required and (default == "" or not isinstance(default, (bool, str, int, float, Path))):
        default = None
    return parameter.replace(kind=parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _values_of(flag: str, texts: list[str], example: str) -> dict[str, Any]:
    """Return the values of NAME=JSON flags; one that is no JSON is text. SplitError for a name that is given twice."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise SplitError(f"{flag} {text!r} has no '='; write {example}.")
        values[name] = value
        with suppress(json.JSONDecodeError):
            values[name] = json.loads(f"0{value}" if value.startswith(".") else value)
    _require_once(f"{flag} {text.partition('=')[0]}" for text in texts)
    return values


def _require_once(names: Iterable[str]) -> None:
    """Raise SplitError for what is given again where one value counts."""
    for name, times in Counter(names).items():
        if times > 1:
            raise SplitError(f"{name} is given {times} times, and only the last would count; give it once.")


class OnceEach(TyperCommand):
    """A command that refuses an option of one value that comes twice: the first would be forgotten without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return what is left of the words; raises SplitError for an option of one value that is given again."""
        single = [option.opts for option in self.params if not getattr(option, "multiple", True)]
        longest = {name: max(names, key=len) for names in single for name in names}
        _require_once(longest[name] for word in args if (name := word.partition("=")[0]) in longest)
        return super().parse_args(ctx, args)
