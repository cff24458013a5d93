"""What tests share: a home of their own, an empty MLflow store to start from, one Prefect server for the session."""

import atexit
import contextlib
import gc
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import certifi
import hypothesis
import pytest

# With importlib import mode the test folder is no package; what tests share is imported from here.
sys.path.insert(0, str(Path(__file__).parent))

# Prefect and MLflow read their settings when they are imported, and a developer's own must not meet the tests.
for name in [name for name in os.environ if name.startswith(("PREFECT_", "MLFLOW_", "EVENFOLD_"))]:
    if not name.startswith("EVENFOLD_SOAK_"):
        del os.environ[name]
# Workers share two cores: threads that spin while they wait for one another cost more than they save.
os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
# A store waits for the disk at every commit; in memory it does not, and nothing here need outlive a power cut.
MEMORY, ENOUGH_BYTES = Path("/dev/shm"), 2 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
_session = tempfile.TemporaryDirectory(prefix="evenfold-tests-")
os.environ["EVENFOLD_HOME"] = _session.name
# A task that is called without a flow would start a server beside the session's, which idles until the end.
os.environ["PREFECT_SERVER_EPHEMERAL_ENABLED"] = "false"
# Each of a thousand clients would read all certificates there are, in 25 ms; one will do: this server speaks HTTP.
_first, _end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----\n")
os.environ["PREFECT_API_SSL_CERT_FILE"] = str(Path(_session.name) / "certificate.pem")
Path(os.environ["PREFECT_API_SSL_CERT_FILE"]).write_text(_first + _end, encoding="utf-8")

# Most objects of a worker are imports, which stay: looking for garbage among them is a third of what collecting costs.
gc.set_threshold(200_000, 20, 100)

# Hypothesis's own deadline would be a timed test, red on a busy machine. `make test` tries the same examples each time,
# so that what is red was made red by the change; `make soak` looks for new ones, a hundred times as many of ten seeds.
hypothesis.settings.register_profile("steady", deadline=None, derandomize="EVENFOLD_SOAK_EXAMPLES" not in os.environ)
hypothesis.settings.load_profile("steady")

from evenfold.tasks import Home, locked, prepare_environment  # noqa: E402
from kept import emptied, put_back  # noqa: E402

prepare_environment()


# The folders whose tests take longest, in whole servers and processes: what is long must not be left to the end.
LONG_FIRST = ("tasks", "flows", "project", "security", "manifests", "reports")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests and group them, and try every property on more examples where a run asks for that.

    One worker runs all tests that need Prefect's server, so that only one is started; the other tests of a
    file stay together. EVENFOLD_SOAK_EXAMPLES=10 tries ten times as many examples.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group("prefect" if _served(item) else item.path.stem))
    items.sort(key=lambda item: (not _served(item), [*LONG_FIRST, _room(item)].index(_room(item))))
    times = int(os.environ.get("EVENFOLD_SOAK_EXAMPLES", "1"))
    # Once each: the items of a parametrized test share one function.
    for test in {getattr(item, "obj", None) for item in items} if times > 1 else ():
        if hypothesis.is_hypothesis_test(test):
            usual = test._hypothesis_internal_use_settings
            test._hypothesis_internal_use_settings = hypothesis.settings(usual, max_examples=times * usual.max_examples)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    """Let MLflow do what it does for a user: where it sees this it listens to each of its sessions, 40 to a run."""
    os.environ.pop("PYTEST_CURRENT_TEST", None)


_serving = contextlib.ExitStack()  # Prefect's server, from the first test that needs it to the last


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End Prefect's server when no later test of this worker needs it."""
    if _served(item) and not (nextitem and _served(nextitem)):
        _serving.close()


def pytest_sessionfinish() -> None:
    """Leave what a worker still holds to the end of its process: pytest would look through all of it five times.

    DuckDB would list it there, in 50 lines for each worker, in front of what failed.
    """
    gc.freeze()
    atexit.register(os.dup2, os.open(os.devnull, os.O_WRONLY), 2)


def _room(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _served(item: pytest.Item) -> bool:
    return "_prefect" in getattr(item, "fixturenames", ())


@pytest.fixture(autouse=True)
def _an_environment_of_its_own() -> Iterator[None]:
    """MLflow writes its store to the environment, where it would decide about the home of every later test."""
    os.environ.pop("COLUMNS", None)  # pytest's workers have it, and lines would be broken where nobody reads
    before = os.environ.get("MLFLOW_TRACKING_URI")
    yield
    assert os.environ.get("MLFLOW_TRACKING_URI") == before, "the test leaves MLflow's store in the environment"


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new MLflow store: its migrations take seconds, so the tests of all workers start from copies of one."""
    from mlflow.tracking import MlflowClient

    own = tmp_path_factory.getbasetemp()
    path = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "empty" / "mlflow.db"
    with locked(path.parents[1], "mlflow store"):
        if not path.exists():
            path.parent.mkdir()
            MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


_places: list[tuple[Path, int]] = []  # where the last test had its home, and the file number of the store in it


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home of this test's own, with an empty MLflow store in it, in a folder of its own.

    It lies where that of the test before lay: for another store MLflow compiles its statements anew, which costs as
    much as two runs. Where that test has put another file there, of which MLflow would not know, it lies elsewhere.
    """
    place, number = _places.pop() if _places else (Path(), 0)
    if not (number and (place / "mlflow.db").is_file() and (place / "mlflow.db").stat().st_ino == number):
        place = tmp_path_factory.mktemp("place") / "home"
        place.mkdir()
    emptied(place.parent, place.name)
    put_back(Home(place), empty_store.parent)
    _places.append((place, (place / "mlflow.db").stat().st_ino))
    monkeypatch.setenv("EVENFOLD_HOME", str(place))
    return Home(place)


@pytest.fixture(scope="session", autouse=True)
def _store_of_the_session(request: pytest.FixtureRequest) -> None:
    """Spare the first test without a home of its own the migrations; a single test pays for those that it needs."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        shutil.copy(request.getfixturevalue("empty_store"), _session.name)


@pytest.fixture(scope="module")
def _module_home(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Home:
    place = Home(tmp_path_factory.mktemp("home"))
    shutil.copy(empty_store, place.path / "mlflow.db")
    return place


@pytest.fixture
def shared_home(_module_home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return the home of all tests of a file that ask for it, whose MLflow store is opened once."""
    monkeypatch.setenv("EVENFOLD_HOME", str(_module_home.path))
    for name in ("MLFLOW_TRACKING_URI", "EVENFOLD_RESULTS"):
        monkeypatch.delenv(name, raising=False)
    return _module_home


@pytest.fixture(scope="session")
def _prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Start a server as a home keeps one; yield its address and what a PREFECT_HOME holds before the first run."""
    from evenfold.tasks.runtime.server import keep_server, stop_server
    from prefect.settings import PREFECT_API_URL, temporary_settings

    place, empty = Home(Path(_session.name)), tmp_path_factory.mktemp("prefect")  # PREFECT_HOME lies in it already
    with _serving:
        _serving.callback(stop_server, place)
        address, used = keep_server(place).api, place.path / "prefect"
        source, copy = (sqlite3.connect(folder / "prefect.db") for folder in (used, empty))
        with contextlib.closing(source), contextlib.closing(copy):
            source.backup(copy)
        shutil.copy(used / "memo_store.toml", empty)
        _serving.enter_context(temporary_settings({PREFECT_API_URL: address}))
        yield address, empty


@pytest.fixture(scope="session")
def prefect_server(_prefect: tuple[str, Path]) -> str:
    """Return the address of the session's server, for flows in processes of their own."""
    return _prefect[0]


@pytest.fixture
def prefect_folder(_prefect: tuple[str, Path], home: Home) -> Path:
    """Return a PREFECT_HOME for a server of the test's own: its migrations and blocks, which take seconds, are done."""
    return Path(shutil.copytree(_prefect[1], home.path / "prefect"))


@pytest.fixture
def prefect_home(home: Home, prefect_server: str) -> Iterator[Home]:
    """Return a home of this test's own, in which Prefect keeps its results too."""
    from prefect.settings import PREFECT_LOCAL_STORAGE_PATH, temporary_settings

    with temporary_settings({PREFECT_LOCAL_STORAGE_PATH: home.path / "storage"}):
        yield home
