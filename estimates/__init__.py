"""Models, scores and estimates. Pure."""

# What the room offers stands in __init__.pyi, and is imported when it is asked for.
from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
