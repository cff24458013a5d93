"""Every strategy, once or more: the line that a new strategy adds."""

from evenfold.splitters import (
    BalancedGroupKFold,
    Bootstrap,
    FractionalStratifiedSplit,
    FromSklearn,
    KFold,
    SortedStratifiedKFold,
    Splitter,
    StratifiedKFold,
)

CASES: list[Splitter] = [
    BalancedGroupKFold(5),
    Bootstrap(10),
    FractionalStratifiedSplit(),
    FractionalStratifiedSplit({"train": 0.61, "validation": 0.17, "test": 0.11, "calibration": 0.11}),
    FractionalStratifiedSplit({"train": 0.89, "test": 0.11}, precision=30),
    FromSklearn("sklearn.model_selection:KFold", {"n_splits": 5, "shuffle": True}),
    KFold(5),
    KFold(7, random_state=3),
    SortedStratifiedKFold(5),
    SortedStratifiedKFold(7, leftovers="random"),
    SortedStratifiedKFold(7, leftovers="end"),
    StratifiedKFold(5),
    StratifiedKFold(7, rare="spread"),
]
