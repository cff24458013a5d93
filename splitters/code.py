"""The user's code behind import paths: found and read as syntax trees, and nothing of it is imported for that."""

from __future__ import annotations

import ast
import hashlib
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from itertools import accumulate
from pathlib import Path
from typing import Any

from .importing import HERE, distribution_named

# What stands in keys by a version of its own, or moves with Python's.
OTHERS = sys.stdlib_module_names | {"evenfold"}
UNTOLD = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
DOCUMENTED = frozenset({ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef})
INSTALLED = frozenset({"site-packages", "dist-packages"})


@dataclass
class _Source:
    """A source file that was read: ``loaded`` is the import of it that is in force in this process, if there is one."""

    stamp: tuple[int, int]
    digest: str
    imports: tuple[str, ...] = ()
    loaded: object = None


_READ: dict[str, _Source] = {}
_WALKED: dict[tuple[tuple[str, ...], ...], tuple[dict[str, str], dict[tuple[str, str], _Source]]] = {}


def code_of(*paths: str | None) -> dict[str, str]:
    """Return the digest of each module of the user's own behind import paths, and the version of each library's.

    A module counts with those that it imports, at its top or in a function, and the packages above them. One's own is
    what lies outside of ``site-packages``, an editable install too; where there is none of it, the answer is empty.
    Comments, docstrings, layout and Python's version are in no digest. What cannot be read as Python counts by its
    bytes and is logged, once. Not seen are data files and modules whose names are computed. A file that changes after
    this process has imported it counts as it was, for that is what runs; reloaded, as it is. O(files) on a repeat.
    """
    wanted = tuple(path if ":" in path else ":".join(path.rsplit(".", 1)) for path in paths if path)
    place = wanted, tuple(sys.path)
    walked = _WALKED.get(place)
    if walked is None or any(_read(*file) is not source for file, source in walked[1].items()):
        walked = _WALKED[place] = _walked(wanted)
    return walked[0]


def changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the names whose code, or version, differs between two answers of ``code_of``."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _walked(paths: tuple[str, ...]) -> tuple[dict[str, str], dict[tuple[str, str], _Source]]:
    own: dict[str, str] = {}
    libraries: dict[str, str] = {}
    sources: dict[tuple[str, str], _Source] = {}
    seen: set[str] = set()
    todo = list(paths)
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
                    _say(f"{name} is imported by code of yours and was not found, so its code is in no key.")
                break
            if spec is None or not INSTALLED.isdisjoint(Path(str(spec.origin)).parts):
                libraries[name] = distribution_named(name.partition(".")[0])
                break
            if spec.has_location and spec.origin:
                source = sources[name, spec.origin] = _read(name, spec.origin)
                own[name] = source.digest
                todo += source.imports
            elif spec.submodule_search_locations is None:
                _say(f"{name} lies in no file, so its code is in no key.")
    return (own | libraries if own else {}), sources


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
    source = _READ.get(file)
    try:
        status = os.stat(file)
        stamp = status.st_mtime_ns, status.st_size
        if source is None or source.stamp != stamp:
            if source is not None and loaded is not None and loaded is source.loaded:
                _say(f"{name} has changed since it was imported here, and runs as it was; reload it or start anew.")
                return source
            source = _READ[file] = _Source(stamp, *_parsed(name, package, Path(file).read_bytes()))
    except OSError as error:
        source = _READ.setdefault(file, _Source((0, 0), ""))
        _say(f"the code of {name} cannot be read ({error.strerror}), so a change of it is not seen.")
    source.loaded = loaded
    return source


def _parsed(name: str, package: str, content: bytes) -> tuple[str, tuple[str, ...]]:
    try:
        tree = ast.parse(content)
        text = _told(tree).encode()
    except (SyntaxError, ValueError, RecursionError):
        _say(f"{name} cannot be read as Python: any other bytes of it are other code, and what it imports is not seen.")
        return hashlib.sha256(content).hexdigest()[:16], ()
    return hashlib.sha256(text).hexdigest()[:16], tuple(_imported(package, tree))


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


def _told(node: Any) -> str:
    """Return a syntax tree as text, without places, docstrings and fields that hold nothing."""
    kind = type(node)
    if kind is list:
        return f"[{','.join([_told(part) for part in node])}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    fields: list[tuple[str, Any]] = [(name, getattr(node, name, None)) for name in kind._fields if name not in UNTOLD]
    if kind in DOCUMENTED and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
        fields = [(name, value[1:] if name == "body" else value) for name, value in fields]
    parts = [f"{name}={_told(value)}" for name, value in fields if value is not None and value != []]
    return f"{kind.__name__}({','.join(parts)})"


@cache
def _say(words: str) -> None:
    logging.getLogger("evenfold").warning(words)
