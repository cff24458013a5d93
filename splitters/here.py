"""What no import path leads to, such as a lambda or a class of a notebook: known in this process, by its code."""

from __future__ import annotations

import dis
import inspect
import logging
import sys
from types import CodeType, ModuleType
from typing import Any

from .code import code_of
from .errors import SplitError
from .importing import HERE, distribution_named
from .kernels.canonical import digest_json
from .naming import import_path, plain

# What Python, scikit-learn and where a class stands write into it.
NOISE = frozenset({
    "__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__firstlineno__", "__static_attributes__",
    "__annotations__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl",
})  # fmt: skip


def path_here(thing: Any) -> str:
    """Return the name that this process alone knows a class or function by, from now on; said once.

    It holds a digest of its code, of what it refers to and of the values of both: a notebook that starts again has
    the same name for the same. Files, lines, comments, layout and docstrings do not count; another Python is another
    name. Raises SplitError where it refers to what no key can hold.
    """
    module = ModuleType(f"{HERE}{digest_json(_told(thing, set()))[:16]}")
    name = thing.__name__ if thing.__name__.isidentifier() else "function"
    if module.__name__ not in sys.modules:
        logging.getLogger("evenfold").warning(
            f"{name} is defined where no other process finds it, and is known here as {module.__name__}:{name}; to "
            "deploy it, move it into a module of its own and import it from there."
        )
    setattr(sys.modules.setdefault(module.__name__, module), name, thing)
    return f"{module.__name__}:{name}"


def _told(thing: Any, seen: set[int]) -> Any:
    """Return everything that a class, a function or a value is, as JSON; each once."""
    if isinstance(thing, ModuleType):
        return _library(thing.__name__)
    if isinstance(thing, CodeType):
        documented = sys.version_info < (3, 13) or thing.co_flags & 0x4000000  # whether a first text is a docstring
        first, *others = thing.co_consts or (None,)
        held = [_told(each, seen) for each in (None if documented and isinstance(first, str) else first, *others)]
        return [thing.co_code.hex(), held, *map(list, (thing.co_names, thing.co_varnames, thing.co_freevars))]
    if isinstance(thing, (frozenset, set)):
        return sorted(map(repr, thing))
    if isinstance(thing, type) or inspect.isroutine(thing):
        if id(thing) in seen:
            return "again"
        seen.add(id(thing))
        try:
            return _library(import_path(thing))
        except SplitError:
            return _class(thing, seen) if isinstance(thing, type) else _function(inspect.unwrap(thing), seen)
    if isinstance(thing, (property, staticmethod, classmethod)):
        return [_told(each, seen) for each in (getattr(thing, name, None) for name in ("fget", "fset", "__func__"))]
    if isinstance(thing, (bytes, complex, type(...), range, slice)):
        return repr(thing)
    return plain(thing, "what it refers to", lambda part: [_told(type(part), seen), _told(part.get_params(), seen)])


def _library(path: str) -> Any:
    top = path.partition(":")[0].partition(".")[0]
    return [path, code_of(path) or ("" if top in sys.stdlib_module_names else distribution_named(top))]


def _class(kind: type, seen: set[int]) -> Any:
    held = {}
    for name in sorted(vars(kind).keys() - NOISE):
        try:
            held[name] = _told(vars(kind)[name], seen)
        except (SplitError, TypeError):  # what scikit-learn adds
            held[name] = type(vars(kind)[name]).__qualname__
    return [kind.__name__, [_told(base, seen) for base in kind.__bases__], held]


def _function(function: Any, seen: set[int]) -> Any:
    code = function.__code__
    cells = [_told(cell.cell_contents, seen) for cell in function.__closure__ or ()]
    names = sorted(_globals(code) & function.__globals__.keys())
    values = {name: _told(function.__globals__[name], seen) for name in names}
    return [_told(code, seen), _told([function.__defaults__, function.__kwdefaults__], seen), cells, values]


def _globals(code: CodeType) -> set[str]:
    names = {
        str(each.argval): None for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inside = [_globals(each) for each in code.co_consts if isinstance(each, CodeType)]
    return {name: None for each in (names, *inside) for name in each}
