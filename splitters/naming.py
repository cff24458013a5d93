"""Objects as the import path of their class and their changed parameters; and the code that is behind import paths."""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, distributions, version
from importlib.util import spec_from_file_location
from itertools import accumulate, chain
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .errors import SplitError
from .numbers import digest_json, plain_numbers
from .untrusted import HERE


def import_path(thing: Any) -> str:
    """Return from where a class or function is imported, the shortest way.

    Raises SplitError for what is defined in a script, a notebook or a function: no other process finds it there.
    """
    home = getattr(thing, "__module__", None) or type(thing).__module__  # of NumPy's functions
    modules = accumulate(home.split("."), "{}.{}".format)
    owners = [name for name in modules if getattr(sys.modules.get(name), thing.__name__, None) is thing]
    if not owners or owners[0] == "__main__":
        what = f"{getattr(thing, '__qualname__', thing.__name__)} is defined in {home}, where no other process finds it"
        raise SplitError(f"{what}; move it into a module of its own, and import it from there.")
    return f"{owners[0]}:{thing.__name__}"


def named(thing: Any) -> str:
    """Return the import path of a class or function, or else the name that this process knows it by."""
    try:
        return import_path(thing)
    except SplitError:
        if isinstance(thing, type) or inspect.isroutine(thing):
            return path_here(thing)
        raise


def recipe_of(thing: Any) -> dict[str, Any]:
    """Return ``{"estimator": path, "params": {...}}`` of an object; without changed parameters no ``params``."""
    params = params_of(thing)
    return {"estimator": named(type(thing))} | ({"params": params} if params else {})


def params_of(thing: Any, part: Callable[[Any], Any] = recipe_of) -> dict[str, Any]:
    """Return the parameters of an object that differ from its constructor's defaults, as plain data.

    ``part`` names those that have parameters themselves. 1 is not 1.0: rows, and a share. SplitError names a parameter
    that no recipe can hold, or that the object does not tell.
    """
    kind = type(thing)
    if getattr(thing, "_sklearn_output_config", None):  # beside its parameters, and it decides what the next part sees
        raise _unheld(f"{kind.__name__} has set_output")
    defaults = {name: each.default for name, each in inspect.signature(kind).parameters.items()}
    if hasattr(thing, "get_params"):
        held = thing.get_params(deep=False)
    else:  # a splitter of scikit-learn, which keeps what it is made of, or what it repeats
        own = vars(thing) | vars(thing).get("cvargs", {})
        if untold := defaults.keys() - own.keys():
            raise SplitError(
                f"{kind.__name__} does not tell its {', '.join(sorted(untold))}; write it with its params."
            )
        held = {name: own[name] for name in defaults}
    with suppress(Exception):  # it needs parameters, or has none to tell
        # Some libraries' constructors name no parameter: what is made of nothing has the defaults.
        defaults |= kind().get_params(deep=False)
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
    if hasattr(value, "columns") and hasattr(value, "iloc") and numbered:
        return {"frame": plain(value.to_dict("list"), name, part)}
    if hasattr(value, "_score_func"):  # a scorer of scikit-learn
        params = {"score_func": value._score_func, "greater_is_better": value._sign > 0}
        params |= {"response_method": value._response_method} | value._kwargs
        return {"estimator": "sklearn.metrics:make_scorer", "params": plain(params, name, part)}
    if hasattr(value, "rvs") and hasattr(value, "dist"):  # a distribution of SciPy
        names = [*re.findall(r"\w+", value.dist.shapes or ""), "loc", "scale"]
        params = dict(zip(names, value.args, strict=False)) | value.kwds
        return {"estimator": f"scipy.stats:{value.dist.name}", "params": plain(params, name, part)}
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

    It holds a digest of its code and of all that this refers to, so a notebook that starts again has the same name for
    the same. Lines, comments, layout and docstrings do not count; another Python is another name. Raises SplitError
    where it refers to what no key can hold.
    """
    module = ModuleType(f"{HERE}{digest_json(_told(thing, set()))[:16]}")
    name = thing.__name__ if thing.__name__.isidentifier() else "function"
    _warn(
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
    return [path, code_of(path) or ("" if top in sys.stdlib_module_names else _distribution(top))]


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


# What stands in keys by a version of its own, or moves with Python's.
OTHERS = sys.stdlib_module_names | {"evenfold"}
UNTOLD = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
DOCUMENTED = frozenset({ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef})


@dataclass
class _Source:
    """A source file that was read: ``loaded`` is the import of it that is in force in this process, if there is one."""

    stamp: tuple[int, int]
    digest: str
    imports: tuple[str, ...] = ()
    loaded: object = None


READ: dict[str, _Source] = {}  # by this process, of the user's own


def code_of(*paths: str | None) -> dict[str, str]:
    """Return the digest of each module of the user's own behind import paths, and the version of each library's.

    A module counts with those that it imports, at its top or in a function, and the packages above them. One's own is
    what lies outside of ``site-packages``, an editable install too; where there is none of it, the answer is empty.
    Comments, docstrings, layout and Python's version do not count; what is no Python counts by its bytes and is logged,
    once. Data files and modules whose names are computed are not seen. A file that changes after this process has
    imported it counts as it was, for that is what runs, until it is reloaded.
    """
    own: dict[str, str] = {}
    libraries: dict[str, str] = {}
    seen: set[str] = set()
    todo = [path if ":" in path else ":".join(path.rsplit(".", 1)) for path in paths if path]
    while todo:
        wanted = todo.pop()
        for name in accumulate(wanted.replace(":", ".").split("."), "{}.{}".format):
            if name in OTHERS or name in libraries or name.startswith(HERE):
                break
            if name in seen:
                continue
            seen.add(name)
            spec = _found(name)
            if spec is None and "." in name:
                if ":" not in wanted or name != wanted.replace(":", "."):  # else a thing in the module, as it may be
                    _warn(f"{name} is imported by code of yours and was not found, so its code is in no key.")
                break
            if spec is None or not {"site-packages", "dist-packages"}.isdisjoint(Path(str(spec.origin)).parts):
                libraries[name] = _distribution(name.partition(".")[0])
                break
            if spec.has_location and spec.origin:
                source = _read(name, spec.origin)
                own[name] = source.digest
                todo += source.imports
            elif spec.submodule_search_locations is None:
                _warn(f"{name} lies in no file, so its code is in no key.")
    return own | libraries if own else {}


def changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the names whose code, or version, differs between two answers of ``code_of``."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _found(name: str) -> ModuleSpec | None:
    """Return where a module lies, as Python would find it; neither it nor its packages are imported."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        return loaded.__spec__ or (spec_from_file_location(name, file) if file else ModuleSpec(name, None))
    above, _, last = name.rpartition(".")
    package = _found(above) if above else None
    places: Any = package.submodule_search_locations if package else None
    if above and places is None:
        return None
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, places)
        except KeyError:  # a namespace in one that is not imported
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(Path(place, last)) for place in places]
        if spec is not None:
            return spec
    return None


def _read(name: str, file: str) -> _Source:
    """Return what a module's file holds: the same object until it is written again, and until it is then reloaded."""
    module = sys.modules.get(name)
    loaded = getattr(module, "__spec__", None) or module
    package = name if Path(file).stem == "__init__" else name.rpartition(".")[0]
    source = READ.get(file)
    try:
        status = os.stat(file)
        stamp = status.st_mtime_ns, status.st_size
        if source is None or source.stamp != stamp:
            if source is not None and loaded is not None and loaded is source.loaded:
                _warn(f"{name} has changed since it was imported here, and runs as it was; reload it or start anew.")
                return source
            source = READ[file] = _Source(stamp, *_parsed(name, package, Path(file).read_bytes()))
    except OSError as error:
        source = READ.setdefault(file, _Source((0, 0), ""))
        _warn(f"the code of {name} cannot be read ({error.strerror}), so a change of it is not seen.")
    source.loaded = loaded
    return source


def _parsed(name: str, package: str, content: bytes) -> tuple[str, tuple[str, ...]]:
    imports: tuple[str, ...] = ()
    try:
        tree = ast.parse(content)
        content, imports = _tree_as_text(tree).encode(), tuple(_imported(package, tree))
    except (SyntaxError, ValueError, RecursionError):
        _warn(f"{name} cannot be read as Python: other bytes of it are other code, and what it imports is not seen.")
    return hashlib.sha256(content).hexdigest()[:16], imports


def _imported(package: str, tree: ast.AST) -> Iterator[str]:
    """Yield what a module imports, as ``module``, and as ``module:name`` where the name may be a module as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}:{alias.name}" for alias in node.names if alias.name != "*")
            yield base


def _tree_as_text(node: Any) -> str:
    """Return a syntax tree as text, without places, docstrings and fields that hold nothing."""
    kind = type(node)
    if kind is list:
        return f"[{','.join([_tree_as_text(part) for part in node])}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    fields: list[tuple[str, Any]] = [(name, getattr(node, name, None)) for name in kind._fields if name not in UNTOLD]
    if kind in DOCUMENTED and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
        fields = [(name, value[1:] if name == "body" else value) for name, value in fields]
    parts = [f"{name}={_tree_as_text(value)}" for name, value in fields if value is not None and value != []]
    return f"{kind.__name__}({','.join(parts)})"


@cache
def _warn(words: str) -> None:
    logging.getLogger("evenfold").warning(words)


# The version of a package, which a process that has it goes on with; PackageNotFoundError for none.
installed = cache(version)


def distribution_of(thing: type) -> str:
    """Return ``distribution==version`` of the installed package that ``thing`` comes from, or its module's name."""
    return _distribution((getattr(thing, "__module__", None) or type(thing).__module__).partition(".")[0])


def requirements_of(estimator: type) -> list[str]:
    """Return the distributions that loading a model of a class needs, with exact versions."""
    packages = ["scikit-learn", "numpy", "pandas", "imbalanced-learn", "skops"]
    own = distribution_of(estimator).partition("==")[0]
    lines = []
    for name in dict.fromkeys([*packages, own, *(["evenfold"] if own != "scikit-learn" else [])]):
        with suppress(PackageNotFoundError):
            lines.append(f"{name}=={installed(name)}")
    return lines


@cache
def _distribution(top: str) -> str:
    for each in chain(distributions(name=top), distributions()):
        declared = (each.read_text("top_level.txt") or "").split()
        # Searched as one text: parsing the lists of files of every distribution takes half a second.
        files = "" if declared else each.read_text("RECORD") or "\n".join(map(str, each.files or ()))
        if top in declared or any(f"\n{top}{rest}" in f"\n{files}" for rest in ("/", ".py,", ".py\n")):
            return f"{each.metadata['Name']}=={each.version}"
    return top
