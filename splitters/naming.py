"""Objects as what names them: the import path of the class, and the parameters that differ from its defaults.

What no import path leads to, such as a lambda or a class of a notebook, is known in this process, by its code.
"""

from __future__ import annotations

import dis
import inspect
import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate
from types import CodeType, ModuleType
from typing import Any

from evenfold.splitters.numbers import digest_json

from .code import code_of
from .errors import SplitError
from .importing import HERE, distribution_named
from .numbers import plain_numbers


def import_path(thing: Any) -> str:
    """Return from where a class or function is imported, the shortest way.

    Raises SplitError for what is defined in a script, a notebook or a function: no other process finds it there.
    """
    home = getattr(thing, "__module__", None) or type(thing).__module__  # of NumPy's functions
    modules = accumulate(home.split("."), "{}.{}".format)
    owners = [name for name in modules if getattr(sys.modules.get(name), thing.__name__, None) is thing]
    if not owners or owners[0] == "__main__":
        raise SplitError(
            f"{getattr(thing, '__qualname__', thing.__name__)} is defined in {home}, where no other process finds it; "
            "move it into a module of its own, and import it from there."
        )
    return f"{owners[0]}:{thing.__name__}"


def named(thing: Any) -> str:
    """Return the import path of a class or function, or else the name that this process knows it by."""
    try:
        return import_path(thing)
    except SplitError:
        if not (isinstance(thing, type) or inspect.isroutine(thing)):
            raise
        return path_here(thing)


def recipe_of(thing: Any) -> dict[str, Any]:
    """Return ``{"estimator": path, "params": {...}}`` of an object with parameters, its parts alike; see ``params_of``.

    What it has learnt is no part of it. Without changed parameters ``params`` is left out.
    """
    params = params_of(thing)
    return {"estimator": named(type(thing))} | ({"params": params} if params else {})


def params_of(thing: Any, part: Callable[[Any], Any] = recipe_of) -> dict[str, Any]:
    """Return the parameters of an object that differ from its constructor's defaults, as plain data.

    ``part`` names those that have parameters themselves. 1 is not 1.0, for scikit-learn takes a number of rows and a
    share so. Raises SplitError, which names the parameter, for a value that no recipe can hold, such as a
    lambda, and for one that the object does not tell.
    """
    kind = type(thing)
    if getattr(thing, "_sklearn_output_config", None):  # beside its parameters, and it decides what the next part sees
        raise _unheld(f"{kind.__name__} has set_output")
    signature = {name: each.default for name, each in inspect.signature(kind).parameters.items()}
    if hasattr(thing, "get_params"):
        held = thing.get_params(deep=False)
    else:  # a splitter of scikit-learn, which keeps what it is made of, or what it repeats
        own = vars(thing) | vars(thing).get("cvargs", {})
        if untold := signature.keys() - own.keys():
            raise SplitError(
                f"{kind.__name__} does not tell its {', '.join(sorted(untold))}; write it with its params."
            )
        held = {name: own[name] for name in signature}
    try:  # some libraries' constructors name no parameter: what is made of nothing has the defaults
        defaults = signature | kind().get_params(deep=False)
    except Exception:  # it needs parameters, or has none to tell
        defaults = signature
    return {
        name: plain(value, f"{kind.__name__}.{name}", part)
        for name, value in held.items()
        if name not in defaults or not _same(value, defaults[name], part)
    }


def _same(value: Any, default: Any, part: Callable[[Any], Any]) -> bool:
    if value is default:
        return True
    try:
        return len({json.dumps(plain(each, "", part), sort_keys=True) for each in (value, default)}) == 1
    except (SplitError, TypeError):
        return False


def plain(value: Any, name: str, part: Callable[[Any], Any] = recipe_of) -> Any:
    """Return a parameter as plain data; raises SplitError, which names it, for what no recipe can hold."""
    value = plain_numbers(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if callable(value) and hasattr(value, "__name__"):
        return {"function": named(value)}
    if isinstance(value, Mapping):
        return {each: plain(inside, name, part) for each, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inside, name, part) for inside in value]
    numbered = not hasattr(value, "iloc") or [*value.index] == [*range(len(value))]  # of pandas, as made without index
    if hasattr(value, "tolist") and numbered:  # an array, a column, or the names of columns
        return plain(value.tolist(), name, part)
    if hasattr(value, "_score_func"):  # a scorer of scikit-learn
        params = {"score_func": value._score_func, "greater_is_better": value._sign > 0}
        params |= {"response_method": value._response_method} | value._kwargs
        return {"estimator": "sklearn.metrics:make_scorer", "params": plain(params, name, part)}
    if hasattr(value, "rvs") and hasattr(value, "dist"):  # a distribution of SciPy
        names = [*re.findall(r"\w+", value.dist.shapes or ""), "loc", "scale"]
        params = dict(zip(names, value.args, strict=False)) | value.kwds
        return {"estimator": f"scipy.stats:{value.dist.name}", "params": plain(params, name, part)}
    if hasattr(value, "columns") and hasattr(value, "iloc") and numbered:
        return {"frame": plain(value.to_dict("list"), name, part)}
    parts = type(value).__mro__ if type(value) is not partial and type(value).__module__ != "builtins" else ()
    if any(each in vars(kind) for kind in parts for each in ("get_params", "split", "__call__")):
        return part(value)
    raise _unheld(f"{name} is a {type(value).__name__}{'' if numbered else ' with an index of its own'}")


def _unheld(what: str) -> SplitError:
    return SplitError(
        f"{what}, which no recipe can hold; write what returns the whole as a function or a class of a module of "
        "yours, and pass its name: package.module:name."
    )


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
            return _class(thing, seen) if isinstance(thing, type) else _function(thing, seen)
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
        except (SplitError, TypeError, AttributeError):  # what scikit-learn adds
            held[name] = type(vars(kind)[name]).__qualname__
    return [kind.__name__, [_told(base, seen) for base in kind.__bases__], held]


def _function(function: Any, seen: set[int]) -> Any:
    owner, code = getattr(function, "__self__", None), getattr(function, "__code__", None)
    if isinstance(owner, type):
        return [_told(owner, seen), _told(function.__func__, seen)]
    if code is None and hasattr(function, "__wrapped__"):
        return [type(function).__name__, _told(function.__wrapped__, seen)]
    if code is None or owner is not None:
        raise _unheld(f"{function.__qualname__} is a {type(function).__name__}")
    cells = [_told(cell.cell_contents, seen) for cell in function.__closure__ or ()]
    names = sorted(_globals(code) & function.__globals__.keys())
    values = {name: _told(function.__globals__[name], seen) for name in names}
    return [_told(code, seen), _told([function.__defaults__, function.__kwdefaults__], seen), cells, values]


def _globals(code: CodeType) -> set[str]:
    steps = dis.get_instructions(code)
    names = {str(each.argval) for each in steps if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals(each) for each in code.co_consts if isinstance(each, CodeType)))
