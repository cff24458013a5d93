"""Names that are imported: what a path such as package.module:Name stands for, and where it was installed from."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import packages_distributions, version
from typing import Any

from .errors import SplitError


def import_named(path: str) -> Any:
    """Return what ``package.module:Name`` (or ``package.module.Name``) names.

    Raises SplitError that says which part of the path could not be found.
    """
    module, _, name = path.rpartition(":" if ":" in path else ".")
    if not module:
        raise SplitError(f"{path!r} is not an import path; write it as package.module:Name.")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise SplitError(f"{path!r} does not import: no module named {error.name!r}; install or correct it.") from None
    except AttributeError:
        raise SplitError(f"{path!r} does not import: module {module!r} has no {name!r}; correct the name.") from None
    except Exception as error:
        raise SplitError(f"{path!r} does not import: {type(error).__name__}: {error}") from error


def refusal(error: Exception) -> str:
    """Return what a constructor refused, in the words of every Python: 3.13 adds a suggestion, and so do we."""
    return str(error).partition(". Did you mean")[0]


def distribution_of(thing: type) -> str:
    """Return ``distribution==version`` of the installed package that ``thing`` comes from, or its module's name."""
    return _distribution(thing.__module__.partition(".")[0])


@cache
def _distribution(top: str) -> str:
    # Reading what every installed package holds takes tenths of a second.
    names = packages_distributions().get(top)
    return f"{names[0]}=={version(names[0])}" if names else top
