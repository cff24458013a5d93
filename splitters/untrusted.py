"""Requests of somebody else: what they name that this process imports, and goes through.

The one place where a string such as package.module:Name becomes what it stands for.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from keyword import iskeyword
from types import ModuleType
from typing import Any

from .errors import SplitError, is_deployed
from .numbers import DEEPEST, TOO_DEEP, require_bounded

HERE = "here_"  # how modules begin that stand for what this process alone knows: see ``naming``


class UntrustedNameError(SplitError):
    """Somebody else's request, manifest or registry entry names what may not be imported here."""


@dataclass(frozen=True)
class Role:
    """The kind of thing that a name must stand for: a class with these methods, or one of ``others``; of ``base``.

    ``remedy`` ends every refusal. ``or_function``: a function that returns such an instance will do.
    """

    what: str
    methods: tuple[str, ...]
    remedy: str
    base: type = object
    or_function: bool = False
    others: tuple[str, ...] = ()

    def lacking(self, thing: Any) -> str:
        """Return what ``thing``, a class or an instance, lacks, or an empty text; nothing of a class is run."""
        owner = thing if isinstance(thing, type) else type(thing)
        look_up = inspect.getattr_static if owner is thing else getattr
        lacks = [name for name in self.methods if look_up(thing, name, None) is None]
        if lacks and not any(name in vars(each) for each in owner.__mro__ for name in self.others):
            return f"{owner.__name__} has no {' and no '.join(lacks)}"
        return "" if self.base in owner.__mro__ else f"{owner.__name__} does not subclass {self.base.__name__}"


_EITHER = "name a class or a function that returns one, such as sklearn"
ESTIMATOR = Role("an estimator", ("fit", "predict", "get_params"), f"{_EITHER}.linear_model:Ridge", or_function=True)
TRANSFORMER = Role(
    "a transformer that can be inverted", ("fit", "transform", "inverse_transform", "get_params"),
    f"{_EITHER}.preprocessing:PowerTransformer", or_function=True,
)  # fmt: skip
PART = Role(
    "a part of an estimator", ("get_params", "set_params"), f"{_EITHER}.preprocessing:StandardScaler",
    or_function=True, others=("split", "rvs", "__call__"),
)  # fmt: skip
FUNCTION = Role("a function", (), "name one such as sklearn.feature_selection:f_regression", or_function=True)
_SCORED = "name a function of (y_true, y_pred) or a scorer, such as sklearn.metrics:accuracy_score"
METRIC = Role("a metric", ("_score_func",), _SCORED, or_function=True)
_BUILT = "name a function build(train, test) or build(frame)"
FEATURES = Role("what builds features", ("fit", "transform"), _BUILT, or_function=True)
SPLITTER = Role("a splitter", ("split", "get_n_splits"), "name one such as sklearn.model_selection:KFold")

# Functions of ours that a deployed run may name; nothing else of evenfold can be reached by a string.
OWN_FUNCTIONS = frozenset({"evenfold.estimates:scaled_logistic_regression"})

# What the entry "sklearn" stands for: the modules that hold estimators, transformers and splitters. Left out are
# datasets (it downloads and deletes), utils, externals, experimental, tests, feature_extraction (it reads files).
# fmt: off
SKLEARN = frozenset({
    "sklearn.calibration", "sklearn.cluster", "sklearn.compose", "sklearn.covariance", "sklearn.cross_decomposition",
    "sklearn.decomposition", "sklearn.discriminant_analysis", "sklearn.dummy", "sklearn.ensemble",
    "sklearn.feature_selection", "sklearn.gaussian_process", "sklearn.impute", "sklearn.isotonic",
    "sklearn.kernel_approximation", "sklearn.kernel_ridge", "sklearn.linear_model", "sklearn.manifold",
    "sklearn.mixture", "sklearn.model_selection", "sklearn.multiclass", "sklearn.multioutput", "sklearn.naive_bayes",
    "sklearn.neighbors", "sklearn.neural_network", "sklearn.pipeline", "sklearn.preprocessing",
    "sklearn.random_projection", "sklearn.semi_supervised", "sklearn.svm", "sklearn.tree",
})
# fmt: on

# Where scikit-learn has its predictors, for whoever names one without its module.
FAMILIES = ("linear_model", "ensemble", "tree", "svm", "neighbors", "naive_bayes", "neural_network", "dummy")

# What scikit-learn has only after another import.
EXPERIMENTAL = dict.fromkeys(("HalvingGridSearchCV", "HalvingRandomSearchCV"), "enable_halving_search_cv")
EXPERIMENTAL |= {"IterativeImputer": "enable_iterative_imputer"}

# Parameters that scikit-learn's constructors take as a folder to keep pickles in, or as an expression.
PLACES = frozenset({"memory", "pre_dispatch"})


def resolve(path: str, role: Role, closed: bool | None = None) -> Any:
    """Return the class, or the function, that ``package.module:Name`` (or ``package.module.Name``) names.

    It must play ``role``, and lie outside of Python's standard library. In a deployed run (or where ``closed`` says so)
    only what ``EVENFOLD_ALLOWED_MODULES`` lists is imported: packages and modules, whose classes may be named, and
    single functions as ``package.module:name``. Raises UntrustedNameError before anything else is imported, and
    SplitError that says which part of the path could not be found, or what is lacking.
    """
    closed = is_deployed() if closed is None else closed
    module, name = _parts(path, role, UntrustedNameError if closed else SplitError)
    listed = f"{module}:{name}" in OWN_FUNCTIONS | _allowed()
    if closed and not listed:
        _require_listed(path, module)
    imported = _imported(path, module, name)
    if closed:
        _require_own(path, imported, module)
    if isinstance(imported, type):
        if lacking := role.lacking(imported):
            raise SplitError(f"{path!r} is not {role.what}: {lacking}; {role.remedy}.")
    elif not role.or_function or not callable(imported):
        raise SplitError(f"{path!r} names a {type(imported).__name__}, not {role.what}; {role.remedy}.")
    elif closed and not (listed and inspect.isfunction(imported)):
        raise UntrustedNameError(
            f"{path!r} names a {type(imported).__name__}; a deployed run may name classes, and functions only where "
            "EVENFOLD_ALLOWED_MODULES lists them one by one, as package.module:name."
        )
    return imported


def require_trusted(path: str, role: Role) -> None:
    """Raise UntrustedNameError where a deployed run would refuse ``path``, whatever is running; nothing else."""
    try:
        resolve(path, role, closed=True)
    except UntrustedNameError:
        raise
    except SplitError:  # what is not installed, or plays another role, is refused where it is used
        return


def _parts(path: str, role: Role, refused: type[SplitError]) -> tuple[str, str]:
    """Return module and name; raises ``refused`` for anything but identifiers, and for the standard library."""
    module, _, name = path.rpartition(":" if ":" in path else ".")
    words = [*module.split("."), name]
    # Python reads identifiers in their NFKC form, so that look-alikes of one would be imported as the other.
    able = (word.isidentifier() and not iskeyword(word) for word in words)
    if not module or not all(able) or any(unicodedata.normalize("NFKC", word) != word for word in words):
        families = () if refused is UntrustedNameError or role is not ESTIMATOR else FAMILIES
        homes = (family for family in families if hasattr(_module(f"sklearn.{family}"), path))
        such = f"sklearn.{home}:{path}" if (home := next(homes, None)) else "sklearn.svm:SVC"
        raise refused(f"{path!r} is not an import path; write it as package.module:Name, such as {such}.")
    if words[0] in sys.stdlib_module_names:
        raise refused(f"{path!r} lies in Python's standard library and is not {role.what}; {role.remedy}.")
    return module, name


def _allowed() -> set[str]:
    entries = os.environ.get("EVENFOLD_ALLOWED_MODULES", "sklearn").split(",")
    return {entry.strip() for entry in entries} - {""}


def _require_listed(path: str, module: str) -> None:
    words, entries = module.split("."), _allowed()
    public = not any(word.startswith("_") for word in [*words, path[len(module) + 1 :]])
    # Of scikit-learn no more than these, for its submodules' submodules hold its tests.
    able = module in SKLEARN if words[0] == "sklearn" else words[0] != "evenfold"
    if not (public and able and any(f"{module}.".startswith(f"{above}.") for above in entries)):
        raise UntrustedNameError(
            f"{path!r} may not be imported for a deployed run or a registry's recipe; allowed are the public classes "
            f"of {', '.join(sorted(_allowed())) or 'no package'}, and {', '.join(sorted(OWN_FUNCTIONS))}. Add its "
            "module, or one function as package.module:name, to EVENFOLD_ALLOWED_MODULES where the worker runs."
        )


def import_beforehand(modules: Iterable[str]) -> None:
    """Import modules, so that processes forked later have them; one that is not there is left out."""
    for name in modules:
        with suppress(ImportError):
            _module(name)


def _module(name: str, wanted: str = "") -> ModuleType:
    if name in ("sklearn.model_selection", "sklearn.impute") and wanted in EXPERIMENTAL:
        _module(f"sklearn.experimental.{EXPERIMENTAL[wanted]}")
    return importlib.import_module(name)


def _imported(path: str, module: str, name: str) -> Any:
    try:
        return getattr(_module(module, name), name)
    except ModuleNotFoundError as error:
        if module.startswith(HERE):
            what = f"{path!r} was defined in a notebook or a script, and is not known in this process"
            raise SplitError(f"{what}; move it into a module of its own, and import it from there.") from None
        raise SplitError(f"{path!r} does not import: no module named {error.name!r}; install or correct it.") from None
    except AttributeError:
        raise SplitError(f"{path!r} does not import: module {module!r} has no {name!r}; correct the name.") from None
    except Exception as error:
        raise SplitError(f"{path!r} does not import: {type(error).__name__}: {error}") from error


def _require_own(path: str, thing: Any, module: str) -> None:
    """Raise unless what was found is the named package's own: a module also holds what it imported itself."""
    if isinstance(thing, type):
        home = inspect.getattr_static(thing, "__module__", None)
    else:
        home = thing.__module__ if inspect.isroutine(thing) else type(thing).__module__
    if not isinstance(home, str) or home.partition(".")[0] != module.partition(".")[0]:
        what = f"{path!r} is defined in {home or 'no module'!r}, not in {module.partition('.')[0]!r}"
        raise UntrustedNameError(f"{what}; a deployed run may not reach one package through another.")


def check_params(path: str, params: Any, closed: bool = False) -> None:
    """Raise UntrustedNameError for parameters that a deployed run may not give to what ``path`` names, nor its parts.

    ``closed``: whatever is running. What scikit-learn takes as a place on disk is refused: a folder named as memory is
    written to, and pickles are read from it. Values come from a document, are never imported, and of bounded depth.
    """
    if not (closed or is_deployed()):
        return
    for name, value in params.items() if isinstance(params, Mapping) else ():
        if str(name).rpartition("__")[2] in PLACES and value is not None:
            raise UntrustedNameError(f"parameter {name!r} of {path!r} may not be set in a deployed run; leave it out.")
    for part in params.values() if isinstance(params, Mapping) else params:
        if isinstance(part, (Mapping, list, tuple)):
            check_params(path, part, closed=True)


def refusal(error: Exception) -> str:
    """Return what a constructor refused, in the words of every Python: 3.13 adds a suggestion, and so do we."""
    return str(error).partition(". Did you mean")[0]


MOST_VALUES = 1_000_000
TOO_MANY = f"there are more than {MOST_VALUES:,} values; keep long lists in a table"


def read_document(text: str) -> Any:
    """Return the plain values in a YAML or JSON text.

    Raises ValueError for what is neither, for values that YAML cannot make, for those that are nested more than 50
    deep, and for more than two million of them with their names, however short the text that stands for them.
    """
    import yaml

    counts = dict[int, int]()

    class Bounded(yaml.SafeLoader):
        # What makes the values calls itself for each level, and writes out what is merged as often as it is named.
        depth, count = 0, 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            before, opens = self.count, self.check_event(yaml.CollectionStartEvent)
            self.count, self.depth = before + 1, self.depth + opens
            if self.depth > DEEPEST:
                raise yaml.YAMLError(TOO_DEEP)
            node = super().compose_node(parent, index)
            self.depth -= opens
            if opens:
                counts[id(node)] = self.count - before
            else:  # what is named once more counts as often
                self.count = before + counts.get(id(node), 1)
            if self.count > 2 * MOST_VALUES + 1:  # keys are counted here as well
                raise yaml.YAMLError(TOO_MANY)
            return node

    try:
        document = yaml.load(text, Bounded)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # !!int, !!timestamp and their like fail with whatever they meet
        raise ValueError(f"a value cannot be read ({type(error).__name__}: {str(error)[:100]})") from None
    require_bounded(document)  # what stands for others may be nested in them
    return document
