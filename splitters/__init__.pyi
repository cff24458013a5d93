from .base import (
    DrawSplitter as DrawSplitter,
    LabelSplitter as LabelSplitter,
    Pair as Pair,
    PairSplitter as PairSplitter,
    PartSplitter as PartSplitter,
    Splitter as Splitter,
    label_type as label_type,
    pairs_of_labels as pairs_of_labels,
)
from .catalogue import all_strategies as all_strategies, strategy_of as strategy_of
from .encoding import Coded as Coded, require_present as require_present
from .errors import SplitError as SplitError
from .importing import distribution_of as distribution_of, import_named as import_named, refusal as refusal
from .kernels.order import stable_order as stable_order
from .kernels.random import EXTENDING as EXTENDING, HOLDOUT as HOLDOUT, Stream as Stream
from .kernels.sampling import fill as fill
from .packing.bounds import PackReport as PackReport
from .packing.cost import QUANTILE_BINS as QUANTILE_BINS, side_by_side as side_by_side
from .packing.pack import pack_into as pack_into
from .rows import GroupRows as GroupRows, Needs as Needs, Rows as Rows
from .strategies.bootstraps import (
    Bootstrap as Bootstrap,
    GroupBootstrap as GroupBootstrap,
    PoissonBootstrap as PoissonBootstrap,
    StratifiedBootstrap as StratifiedBootstrap,
)
from .strategies.forward_chaining import ForwardChaining as ForwardChaining
from .strategies.fractional_stratified_split import FractionalStratifiedSplit as FractionalStratifiedSplit
from .strategies.given import FromSklearn as FromSklearn, Predefined as Predefined, PredefinedPairs as PredefinedPairs
from .strategies.group_stratified_shuffle_split import (
    GroupStratifiedShuffleSplit as GroupStratifiedShuffleSplit,
    PickFrequencies as PickFrequencies,
)
from .strategies.grouped import (
    BalancedGroupKFold as BalancedGroupKFold,
    BalancedGroupSplit as BalancedGroupSplit,
    BalancedKFold as BalancedKFold,
    GroupPacker as GroupPacker,
    LeaveOneGroupOut as LeaveOneGroupOut,
)
from .strategies.hash_split import HashSplit as HashSplit
from .strategies.holdout import Holdout as Holdout, check_fraction as check_fraction, locked_rows as locked_rows
from .strategies.kfold import (
    KFold as KFold,
    LeaveOneOut as LeaveOneOut,
    Repeated as Repeated,
    SortedStratifiedKFold as SortedStratifiedKFold,
    StratifiedKFold as StratifiedKFold,
)
from .strategies.shuffles import (
    GroupShuffleSplit as GroupShuffleSplit,
    ShuffleSplit as ShuffleSplit,
    StratifiedShuffleSplit as StratifiedShuffleSplit,
)
from .times import gap_of as gap_of, times_of as times_of
