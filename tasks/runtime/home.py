"""Where everything lies, and what Prefect and MLflow are told about it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from evenfold.splitters import SplitError

from .redaction import redacted, without_login
from .settings import CONSOLE, EMBEDDED, OTHERS, SILENT, Settings


@dataclass(frozen=True)
class Home:
    """The one folder that everything is kept in: ``./.evenfold`` unless ``EVENFOLD_HOME`` says otherwise."""

    path: Path

    @classmethod
    def here(cls) -> Home:
        """Return the home that the environment asks for; the folder is made when something is written."""
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
        """The folder of the results that projects and machines may share; of a bucket, the one here that mirrors it.

        ``EVENFOLD_RESULTS`` names it; without that it is the home itself.
        """
        if self.bucket:
            return self.path / "buckets" / hashlib.sha256(self.bucket.rstrip("/").encode()).hexdigest()[:16]
        place = Settings.here().results
        return Path(place).absolute() if place else self.path

    @property
    def is_recorded(self) -> bool:
        """Whether something can have been recorded: in a store below the home, or wherever another one is."""
        return not self.tracks_here or (self.path / "mlflow.db").exists()

    def require_record(self) -> None:
        """Raise SplitError where nothing can have been recorded yet; looking makes no store."""
        if not self.is_recorded:
            raise SplitError(f"nothing is recorded below {self.path} yet; set EVENFOLD_HOME to where it is.")

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
        """What cached steps returned, by key."""
        return self.shared / "results"

    @property
    def data(self) -> Path:
        """Frames that were passed in Python, as Parquet, by content."""
        return self.path / "data"

    @property
    def studies(self) -> Path:
        """What studies of the number of folds found, by problem."""
        return self.path / "studies"

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
        return without_login(os.environ.get("MLFLOW_TRACKING_URI") or self.own_store)

    @property
    def own_store(self) -> str:
        """The embedded store of MLflow: SQLite below the home."""
        return f"sqlite:///{self.path / 'mlflow.db'}"

    @property
    def tracks_here(self) -> bool:
        """Whether MLflow's store is the embedded one."""
        return not os.environ.get("MLFLOW_TRACKING_URI")


def prepared_home() -> Home:
    """Return the home that this process works in, after what Prefect and MLflow read at their import is set for it."""
    home = Home.here()
    prepare_environment(home)
    return home


def prepare_environment(home: Home) -> None:
    """Set what Prefect and MLflow read when they are imported, except where the user has set it already.

    For a process of ours, before the import. In anybody else's process a flow of ours sets it while it runs.
    """
    own = {"PREFECT_API_URL", "PREFECT_LOGGING_LEVEL"} & os.environ.keys()
    # On a server of ours what goes wrong is said in a sentence; Prefect would print the traceback as well.
    quiet = {} if own else {CONSOLE: "CRITICAL"}
    for name, value in (embedded_settings(home) | OTHERS | SILENT | quiet).items():
        os.environ.setdefault(name, value)


def embedded_settings(home: Home) -> dict[str, str]:
    """Return Prefect's settings for a server that is embedded below ``home``."""
    # Nobody else writes there: what Prefect keeps, it loads as its file says.
    places = {"PREFECT_HOME": home.path / "prefect", "PREFECT_LOCAL_STORAGE_PATH": home.path / "prefect" / "storage"}
    return {name: str(place) for name, place in places.items()} | EMBEDDED
