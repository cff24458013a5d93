from .results.files import asking as asking, data_reference as data_reference, room as room
from .runtime.engine import Call as Call, Done as Done, Engine as Engine, PlainEngine as PlainEngine
from .runtime.home import Home as Home, default_workers as default_workers, prepare_environment as prepare_environment
from .runtime.locks import FileLocks as FileLocks, locked as locked
from .splits import SplitRef as SplitRef
