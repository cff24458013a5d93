"""Strategies that decide which row is in which fold. Pure: arrays and a seed in, positions out."""

from ._base import DrawSplitter, LabelSplitter, Pair, PairSplitter, Splitter, label_type, pairs_of_labels
from ._bounds import PackReport
from ._encode import require_present
from ._errors import SplitError
from ._fill import fill
from ._grouped import GroupPacker
from ._importing import distribution_of, import_named, refusal
from ._locked import check_fraction, locked_rows
from ._order import stable_order
from ._pack_into import pack_into
from ._parts import PartSplitter
from ._random import EXTENDING, HOLDOUT, Stream
from ._rows import Needs, Rows
from ._time import gap_of, times_of
from .balanced_group_kfold import BalancedGroupKFold
from .balanced_group_split import BalancedGroupSplit
from .balanced_kfold import BalancedKFold
from .bootstrap import Bootstrap
from .forward_chaining import ForwardChaining
from .fractional_stratified_split import FractionalStratifiedSplit
from .from_sklearn import FromSklearn
from .group_bootstrap import GroupBootstrap
from .group_shuffle_split import GroupShuffleSplit
from .group_stratified_shuffle_split import GroupStratifiedShuffleSplit, PickFrequencies
from .hash_split import HashSplit
from .holdout import Holdout
from .kfold import KFold
from .leave_one_group_out import LeaveOneGroupOut
from .leave_one_out import LeaveOneOut
from .poisson_bootstrap import PoissonBootstrap
from .predefined import Predefined
from .predefined_pairs import PredefinedPairs
from .repeated import Repeated
from .shuffle_split import ShuffleSplit
from .sorted_stratified_kfold import SortedStratifiedKFold
from .stratified_bootstrap import StratifiedBootstrap
from .stratified_kfold import StratifiedKFold
from .stratified_shuffle_split import StratifiedShuffleSplit

__all__ = [
    "EXTENDING",
    "HOLDOUT",
    "BalancedGroupKFold",
    "BalancedGroupSplit",
    "BalancedKFold",
    "Bootstrap",
    "DrawSplitter",
    "ForwardChaining",
    "FractionalStratifiedSplit",
    "FromSklearn",
    "GroupBootstrap",
    "GroupPacker",
    "GroupShuffleSplit",
    "GroupStratifiedShuffleSplit",
    "HashSplit",
    "Holdout",
    "KFold",
    "LabelSplitter",
    "LeaveOneGroupOut",
    "LeaveOneOut",
    "Needs",
    "PackReport",
    "Pair",
    "PairSplitter",
    "PartSplitter",
    "PickFrequencies",
    "PoissonBootstrap",
    "Predefined",
    "PredefinedPairs",
    "Repeated",
    "Rows",
    "ShuffleSplit",
    "SortedStratifiedKFold",
    "SplitError",
    "Splitter",
    "StratifiedBootstrap",
    "StratifiedKFold",
    "StratifiedShuffleSplit",
    "Stream",
    "check_fraction",
    "distribution_of",
    "fill",
    "gap_of",
    "import_named",
    "label_type",
    "locked_rows",
    "pack_into",
    "pairs_of_labels",
    "refusal",
    "require_present",
    "stable_order",
    "strategies",
    "times_of",
]


def strategies() -> dict[str, type[Splitter]]:
    """Return every exported strategy by its name."""
    shapes = {"Splitter", "LabelSplitter", "PartSplitter", "DrawSplitter", "PairSplitter", "GroupPacker"}
    things = {name: globals()[name] for name in __all__ if name not in shapes}
    return {name: thing for name, thing in things.items() if isinstance(thing, type) and issubclass(thing, Splitter)}
