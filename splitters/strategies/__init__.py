"""One file for each family of strategies."""

import sys

# Models that are stored hold a strategy, as the cv of a search, by the module in which it lay when they were kept.
for _module in ("blocks", "crossed", "forward_chaining", "holdout"):
    sys.modules[f"{__name__}.{_module}"] = sys.modules["evenfold.splitters"]
