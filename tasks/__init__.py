"""Steps around pure calls, what runs them, and the record in MLflow.

Nothing here imports Prefect or MLflow until it is used: ``_prefect`` and ``record`` are imported where a flow needs
them.
"""

# What the room offers stands in __init__.pyi, and is imported when it is asked for.
from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
