"""Settings, the home and its files, locks, and what Prefect and MLflow are told about them."""

from __future__ import annotations

import getpass
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial, wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, Self
from urllib.parse import unquote, urlsplit

from evenfold.manifests.tables.aside import parquet_bytes, write_aside
from evenfold.splitters.errors import SplitError, redacted
from filelock import FileLock
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

P = ParamSpec("P")


def without_login(uri: str) -> str:
    """Return an http address without user and password, which go where MLflow looks for them: the environment.

    What that holds already is kept. Other URIs stay as they are: a database's driver names the password nowhere.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or parts.username is None:
        return uri
    os.environ.setdefault("MLFLOW_TRACKING_USERNAME", unquote(parts.username))
    os.environ.setdefault("MLFLOW_TRACKING_PASSWORD", unquote(parts.password or ""))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


@contextmanager
def locked(folder: Path, key: str) -> Iterator[None]:
    """Hold the lock that ``key`` names while the block runs; other threads, processes and flows of this host wait."""
    folder.mkdir(parents=True, exist_ok=True)
    # Keys hold slashes, and names of files end at 255 bytes.
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.lock"
    # No singleton and not by thread: two holders in one process are two.
    with FileLock(path, thread_local=False, is_singleton=False):
        yield


def overlapping(make: Callable[P, Iterator[None]]) -> Callable[P, AbstractContextManager[None]]:
    """Make a generator a context of threads: the first block enters it, the last that overlaps leaves it."""
    lock, entered, holders = threading.Lock(), ExitStack(), 0

    @contextmanager
    @wraps(make)
    def hold(*args: P.args, **kwargs: P.kwargs) -> Iterator[None]:
        nonlocal holders
        with lock:
            if not holders:
                entered.enter_context(contextmanager(make)(*args, **kwargs))
            holders += 1
        try:
            yield
        finally:
            with lock:
                holders -= 1
                if not holders:
                    entered.close()

    return hold


def environment(beginning: str = "") -> dict[str, str]:
    """Return the environment, or what of it begins so in either case, though other threads take variables away."""
    return {
        name: value
        for name in list(os.environ)
        if name.upper().startswith(beginning) and (value := os.environ.get(name)) is not None
    }


@cache  # of this process, before a fit under way has limited it
def cores() -> int:
    """Return the cores that the environment, the processor's affinity and a container's quota leave this process."""
    import joblib  # which a command that fits nothing does without

    return int(joblib.cpu_count())


class Settings(BaseSettings):
    """The settings of the environment, read anew each time."""

    model_config = SettingsConfigDict(env_prefix="EVENFOLD_", frozen=True, extra="ignore", env_ignore_empty=True)

    home: Path = Field(default=Path(".evenfold"), description="a folder")
    results: str | None = Field(default=None, description="a folder, or s3://bucket/folder, gs://… or abfs://…")
    workers: int | None = Field(default=None, ge=1, description="a whole number of at least 1")
    runner: Literal["threads", "processes", "dask", "ray"] = Field(
        default="threads", description="threads, processes, dask or ray"
    )
    runner_address: str | None = Field(default=None, description="the address of a Dask scheduler or Ray cluster")
    memory: str | None = Field(default=None, description="a size, such as 2GB")
    user: str | None = Field(default=None, description="a name")
    signing_key: SecretStr | None = Field(default=None, description="a secret text of 32 characters or more")
    # The next three are read below, where neither pydantic nor a task is known; they stand here so that all do.
    allowed_modules: str = Field(default="sklearn", description="packages, separated by commas")
    data_roots: str = Field(default=".", description="folders and buckets, separated by commas")
    closed: str = Field(default="", description="1, where this process is to behave as a deployed run does")

    @property
    def n_workers(self) -> int:
        """The number of tasks that run at once: the environment's, else up to four of the cores that it leaves us."""
        return self.workers or min(4, cores())

    @property
    def person(self) -> str:
        """Who is at work, as it is kept with what they decide."""
        try:
            return self.user or getpass.getuser()
        except (ImportError, KeyError, OSError):  # a container's user has a number alone
            return f"uid {os.getuid()}"

    @classmethod
    def memory_of(cls, memory: str | None) -> str | None:
        """Return the memory that a step may take: as it is asked, else as the environment says, else None."""
        return memory or cls.here().memory

    @classmethod
    def here(cls) -> Settings:
        """Return the settings of this process; raises SplitError that names the first which does not fit."""
        return _read(tuple(environment("EVENFOLD_").items()))


@lru_cache(maxsize=8)
def _read(_environment: tuple[tuple[str, str], ...]) -> Settings:
    # Reading them takes most of a millisecond, and a fit asks ten times: once for what the environment says is enough.
    try:
        return Settings()
    except ValidationError as error:
        first: Any = error.errors()[0]
        name = str(first["loc"][0])
        wanted = Settings.model_fields[name].description
        raise SplitError(f"EVENFOLD_{name.upper()} is {first['input']!r}; set {wanted}.") from None


CONSOLE = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
OTHERS = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",  # MLflow heeds the first in this very form alone, and not where it is 1
    # Threads that spin while they wait for one another burn three times the work on a busy machine.
    "OMP_WAIT_POLICY": "PASSIVE",
    # Its default of 7 waits for minutes on a server that is down; we try again ourselves.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    # Said by loky's helper, which cleans up, where a signal ends this process.
    "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning",
}
SILENT = {"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}


@overlapping
def in_silence() -> Iterator[None]:
    """Keep MLflow's bars, and pages of runs, off the output of a user's own process, where nothing may stay set."""
    ours = SILENT.keys() - os.environ.keys()
    os.environ.update({name: SILENT[name] for name in ours})
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


@dataclass(frozen=True)
class Home:
    """The one folder that everything is kept in: ``./.evenfold`` unless ``EVENFOLD_HOME`` says otherwise."""

    path: Path

    @classmethod
    def here(cls) -> Home:
        """Return the home that the environment asks for; the folder is made when something is written.

        A run of the user's that is active decides for the rest of the process where MLflow records.
        """
        mlflow = sys.modules.get("mlflow")
        if mlflow is not None and not os.environ.get("MLFLOW_TRACKING_URI") and mlflow.active_run():
            os.environ["MLFLOW_TRACKING_URI"] = mlflow.get_tracking_uri()  # for threads and processes too
        return cls(Settings.here().home.absolute())

    def make(self) -> None:
        """Make the folder, for its owner alone; raises SplitError where nothing can be written there."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            problem = None if os.access(self.path, os.W_OK) else "Permission denied"
        except OSError as error:
            problem = error.strerror
        if problem is not None:
            raise SplitError(f"the folder {self.path} cannot be written ({problem}); set EVENFOLD_HOME to another.")

    @property
    def bucket(self) -> str | None:
        """The bucket that machines share, where ``EVENFOLD_RESULTS`` names one."""
        place = Settings.here().results
        return place if place and "://" in place else None

    @property
    def shared(self) -> Path:
        """The folder of results that machines share: ``EVENFOLD_RESULTS``, the mirror of a bucket, or the home."""
        place = Settings.here().results or ""
        if "://" in place:
            return self.path / "buckets" / hashlib.sha256(place.rstrip("/").encode()).hexdigest()[:16]
        return Path(place).absolute() if place else self.path

    @property
    def is_recorded(self) -> bool:
        """Return whether something can have been recorded: in a store below the home, or wherever another one is."""
        return not self.tracks_here or (self.path / "mlflow.db").exists()

    def require_record(self) -> Self:
        """Return it; raises SplitError where nothing can have been recorded yet, and looking makes no store."""
        if not self.is_recorded:
            raise SplitError(f"nothing is recorded below {self.path} yet; set EVENFOLD_HOME to where it is.")
        return self

    @property
    def splits(self) -> Path:
        """Manifests, as ``<name>/<version>/``."""
        return self.shared / "splits"

    @property
    def scores(self) -> Path:
        """Predictions and score tables, by score key."""
        return self.shared / "scores"

    @property
    def results(self) -> Path:
        """Return the folder of the results of cached steps, by key."""
        return self.shared / "results"

    @property
    def snapshots(self) -> Path:
        """Summaries of the tables last learnt from, by split_id."""
        return self.shared / "snapshots"

    @property
    def data(self) -> Path:
        """Frames that were passed in Python, as Parquet, by content."""
        return self.path / "data"

    @property
    def locks(self) -> Path:
        """Lock files; they may be deleted whenever nothing runs."""
        return self.shared / "locks"

    @property
    def tracking_uri(self) -> str:
        """MLflow's store, as it is shown: without a password. ``tracking_store`` is what a client needs."""
        return redacted(self.tracking_store)

    @property
    def tracking_store(self) -> str:
        """MLflow's store: ``MLFLOW_TRACKING_URI``, or SQLite below the home. Never to be shown, logged or kept."""
        return without_login(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.path / 'mlflow.db'}")

    @property
    def tracks_here(self) -> bool:
        """Return whether MLflow's store is the embedded one."""
        return not os.environ.get("MLFLOW_TRACKING_URI")


def prepare_environment() -> Home:
    """Set what Prefect and MLflow read at import, unless the user has, in a process of ours; return its home."""
    home = Home.here()
    own = {"PREFECT_API_URL", "PREFECT_LOGGING_LEVEL"} & os.environ.keys()
    # On a server of ours what goes wrong is said in a sentence; Prefect would print the traceback as well.
    quiet = {} if own else {CONSOLE: "CRITICAL"}
    for name, value in (embedded_settings(home) | OTHERS | SILENT | quiet).items():
        os.environ.setdefault(name, value)
    return home


def embedded_settings(home: Home) -> dict[str, str]:
    """Return Prefect's settings for a server that is embedded below ``home``."""
    return {
        # Nobody else writes there: what Prefect keeps, it loads as its file says.
        "PREFECT_HOME": str(home.path / "prefect"),
        "PREFECT_LOCAL_STORAGE_PATH": str(home.path / "prefect" / "storage"),
        # Of a flow of the user's own: it may need longer to start than its default 20 s.
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
        # Unless it is told to take batches, its recorder takes states one by one, at four to seven times the work.
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "50",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }


def keep_file(path: Path, content: bytes | memoryview) -> None:
    """Write a file of the home, or of its results, whole, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, partial(Path.write_bytes, data=content))


def data_reference(data: Any, home: Home) -> str:
    """Return a path that names ``data``: a path as it is, a frame as a Parquet file below the home, by content."""
    if isinstance(data, (str, Path)):
        return str(data)
    from evenfold.manifests import read_table

    content = parquet_bytes(read_table(data).replace_schema_metadata(None))
    path = home.data / f"{hashlib.sha256(content).hexdigest()[:32]}.parquet"
    if not path.exists():  # else its time would move, and what was kept of it not count
        home.make()
        keep_file(path, content)
    return str(path)
