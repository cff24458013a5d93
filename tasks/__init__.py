"""Steps around pure calls, what runs them, and the record in MLflow.

Nothing here imports Prefect or MLflow until it is used: ``_prefect`` and ``record`` are imported where a flow needs
them.
"""

from evenfold.tasks.results.files import asking, data_reference, room
from evenfold.tasks.runtime.engine import Call, Done, Engine, PlainEngine
from evenfold.tasks.runtime.home import Home, default_workers, prepare_environment
from evenfold.tasks.runtime.locks import FileLocks, locked

from .splits import SplitRef

__all__ = [
    "Call",
    "Done",
    "Engine",
    "FileLocks",
    "Home",
    "PlainEngine",
    "SplitRef",
    "asking",
    "data_reference",
    "default_workers",
    "locked",
    "prepare_environment",
    "room",
]
