"""One file for each family of strategies."""

import sys

# Models that are stored hold a strategy, as the cv of a search, by the module in which it lay when they were kept.
_ROOM = sys.modules["evenfold.splitters"]
for _module in ("blocks", "crossed", "forward_chaining", "holdout"):
    sys.modules[f"{__name__}.{_module}"] = _ROOM


def moved(name: str) -> object:
    """Return a strategy that lay in another file of the families that are still there; for their ``__getattr__``."""
    if name in ("Repeated", "LeaveOneGroupOut", "StratifiedLeaveOneGroupOut"):
        return getattr(_ROOM, name)
    raise AttributeError(f"no strategy {name!r} has lain here")
