"""Strategies that decide which row is in which fold. Pure: arrays and a seed in, positions out."""

from ._base import DrawSplitter, LabelSplitter, PairSplitter, Splitter
from ._bounds import PackReport
from ._errors import SplitError
from ._importing import distribution_of, import_named
from ._order import stable_order
from ._parts import PartSplitter
from ._random import Stream
from ._rows import Needs, Rows
from .balanced_group_kfold import BalancedGroupKFold
from .balanced_group_split import BalancedGroupSplit
from .balanced_kfold import BalancedKFold
from .bootstrap import Bootstrap
from .forward_chaining import ForwardChaining
from .fractional_stratified_split import FractionalStratifiedSplit
from .from_sklearn import FromSklearn
from .hash_split import HashSplit
from .kfold import KFold
from .leave_one_group_out import LeaveOneGroupOut
from .leave_one_out import LeaveOneOut
from .predefined import Predefined
from .predefined_pairs import PredefinedPairs
from .repeated import Repeated
from .sorted_stratified_kfold import SortedStratifiedKFold
from .stratified_kfold import StratifiedKFold

__all__ = [
    "BalancedGroupKFold",
    "BalancedGroupSplit",
    "BalancedKFold",
    "Bootstrap",
    "DrawSplitter",
    "ForwardChaining",
    "FractionalStratifiedSplit",
    "FromSklearn",
    "HashSplit",
    "KFold",
    "LabelSplitter",
    "LeaveOneGroupOut",
    "LeaveOneOut",
    "Needs",
    "PackReport",
    "PairSplitter",
    "PartSplitter",
    "Predefined",
    "PredefinedPairs",
    "Repeated",
    "Rows",
    "SortedStratifiedKFold",
    "SplitError",
    "Splitter",
    "StratifiedKFold",
    "Stream",
    "distribution_of",
    "import_named",
    "stable_order",
    "strategies",
]


def strategies() -> dict[str, type[Splitter]]:
    """Return every exported strategy by its name."""
    shapes = {"Splitter", "LabelSplitter", "PartSplitter", "DrawSplitter", "PairSplitter"}
    things = {name: globals()[name] for name in __all__ if name not in shapes}
    return {name: thing for name, thing in things.items() if isinstance(thing, type) and issubclass(thing, Splitter)}
