from .base import (
    DrawSplitter as DrawSplitter,
    LabelSplitter as LabelSplitter,
    Pair as Pair,
    PairSplitter as PairSplitter,
    Splitter as Splitter,
    all_strategies as all_strategies,
    strategy_of as strategy_of,
)
from .errors import EvenfoldError as EvenfoldError, SplitError as SplitError
from .numbers import Stream as Stream
from .packing.report import PackReport as PackReport
from .rows import Needs as Needs, Rows as Rows
from .strategies.bootstraps import (
    Bootstrap as Bootstrap,
    GroupBootstrap as GroupBootstrap,
    PoissonBootstrap as PoissonBootstrap,
    StratifiedBootstrap as StratifiedBootstrap,
)
from .strategies.given import (
    FromSklearn as FromSklearn,
    HashSplit as HashSplit,
    Predefined as Predefined,
    PredefinedPairs as PredefinedPairs,
)
from .strategies.grouped import (
    BalancedGroupKFold as BalancedGroupKFold,
    BalancedGroupSplit as BalancedGroupSplit,
    BalancedKFold as BalancedKFold,
    GroupPacker as GroupPacker,
    SpatialBlockKFold as SpatialBlockKFold,
)
from .strategies.kfold import (
    KFold as KFold,
    LeaveOneGroupOut as LeaveOneGroupOut,
    LeaveOneOut as LeaveOneOut,
    SortedStratifiedKFold as SortedStratifiedKFold,
    StratifiedKFold as StratifiedKFold,
    StratifiedLeaveOneGroupOut as StratifiedLeaveOneGroupOut,
)
from .strategies.parts import (
    FractionalStratifiedSplit as FractionalStratifiedSplit,
    PartSplitter as PartSplitter,
    RandomSplit as RandomSplit,
    StratifiedSplit as StratifiedSplit,
)
from .strategies.shuffles import (
    GroupShuffleSplit as GroupShuffleSplit,
    GroupStratifiedShuffleSplit as GroupStratifiedShuffleSplit,
    ShuffleSplit as ShuffleSplit,
    StratifiedShuffleSplit as StratifiedShuffleSplit,
)
from .strategies.time import (
    CombinatorialPurgedKFold as CombinatorialPurgedKFold,
    ForwardChaining as ForwardChaining,
    LeaveLastOut as LeaveLastOut,
    PurgedKFold as PurgedKFold,
    TimeSplit as TimeSplit,
)
from .strategies.wrappers import Crossed as Crossed, Holdout as Holdout, Repeated as Repeated
from .untrusted import UntrustedNameError as UntrustedNameError
