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
from .kernels import Stream as Stream
from .packing.cost import PackReport as PackReport
from .rows import Needs as Needs, Rows as Rows
from .strategies.blocks import (
    CombinatorialPurgedKFold as CombinatorialPurgedKFold,
    PurgedKFold as PurgedKFold,
    SpatialBlockKFold as SpatialBlockKFold,
)
from .strategies.bootstraps import (
    Bootstrap as Bootstrap,
    GroupBootstrap as GroupBootstrap,
    PoissonBootstrap as PoissonBootstrap,
    StratifiedBootstrap as StratifiedBootstrap,
)
from .strategies.crossed import Crossed as Crossed
from .strategies.forward_chaining import (
    ForwardChaining as ForwardChaining,
    LeaveLastOut as LeaveLastOut,
    TimeSplit as TimeSplit,
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
    LeaveOneGroupOut as LeaveOneGroupOut,
    StratifiedLeaveOneGroupOut as StratifiedLeaveOneGroupOut,
)
from .strategies.holdout import Holdout as Holdout
from .strategies.kfold import (
    KFold as KFold,
    LeaveOneOut as LeaveOneOut,
    Repeated as Repeated,
    SortedStratifiedKFold as SortedStratifiedKFold,
    StratifiedKFold as StratifiedKFold,
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
from .untrusted import UntrustedNameError as UntrustedNameError
