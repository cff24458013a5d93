"""Strategies that decide which row is in which fold. Pure: arrays and a seed in, positions out."""

from evenfold.splitters.kernels.order import stable_order
from evenfold.splitters.kernels.random import EXTENDING, HOLDOUT, Stream
from evenfold.splitters.kernels.sampling import fill
from evenfold.splitters.packing.bounds import PackReport
from evenfold.splitters.packing.pack import pack_into
from evenfold.splitters.strategies.bootstraps import Bootstrap, GroupBootstrap, PoissonBootstrap, StratifiedBootstrap
from evenfold.splitters.strategies.forward_chaining import ForwardChaining
from evenfold.splitters.strategies.fractional_stratified_split import FractionalStratifiedSplit
from evenfold.splitters.strategies.given import FromSklearn, Predefined, PredefinedPairs
from evenfold.splitters.strategies.group_stratified_shuffle_split import GroupStratifiedShuffleSplit, PickFrequencies
from evenfold.splitters.strategies.grouped import (
    BalancedGroupKFold,
    BalancedGroupSplit,
    BalancedKFold,
    GroupPacker,
    LeaveOneGroupOut,
)
from evenfold.splitters.strategies.hash_split import HashSplit
from evenfold.splitters.strategies.holdout import Holdout, check_fraction, locked_rows
from evenfold.splitters.strategies.kfold import KFold, LeaveOneOut, Repeated, SortedStratifiedKFold, StratifiedKFold
from evenfold.splitters.strategies.shuffles import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

from .base import (
    DrawSplitter,
    LabelSplitter,
    Pair,
    PairSplitter,
    PartSplitter,
    Splitter,
    distribution_of,
    import_named,
    label_type,
    pairs_of_labels,
    refusal,
)
from .encoding import require_present
from .errors import SplitError
from .rows import Needs, Rows
from .times import gap_of, times_of

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
