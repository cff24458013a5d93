"""The record in MLflow. The only file that imports it.

Everything goes through a client with explicit run ids: MLflow's active run belongs to a thread, and tasks run in many.
Recording is idempotent: the same key finds and completes the same run. A run that is FINISHED is complete.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlflow
import mlflow.sklearn
import skops.io
from evenfold.splitters.deployed import is_deployed
from evenfold.splitters.importing import ESTIMATOR, distribution_of, resolve
from evenfold.tasks.outcomes import SplitRef
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.locks import locked
from evenfold.tasks.runtime.redaction import redacted
from evenfold.tasks.runtime.stopping import always_at_stop, halt_where_stopping
from mlflow.entities import Dataset, DatasetInput, LoggedModelStatus, Metric, Param, RunTag
from mlflow.models import Model
from mlflow.tracking import MlflowClient

from .entries import Entry, KeptModel, news
from .stored_models import load_skops, load_stored

logging.getLogger("alembic").setLevel(logging.WARNING)
# What goes wrong in the store is raised, and said by us in a sentence; this would print the traceback as well.
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


RUN_KEY = "evenfold.run_key"
NOTE = "mlflow.note.content"
JUDGED = "evenfold.judged_model"
_UNDER_WAY: dict[str, Tracker] = {}


@always_at_stop
def _end_what_is_under_way() -> None:
    """Mark the runs that this process has begun and not ended as KILLED; the next that wants them completes them."""
    for run_id, tracker in list(_UNDER_WAY.items()):
        tracker.finish(run_id, "KILLED")


class Tracker:
    """One MLflow store and one experiment in it."""

    def __init__(self, home: Home, experiment: str) -> None:
        self.home = home
        self.experiment = experiment
        home.make()
        with self._alone():
            self.client = MlflowClient(tracking_uri=home.tracking_store)

    def _alone(self) -> AbstractContextManager[None]:
        # A client makes a new store, and two that do would meet in its migrations.
        return locked(self.home.locks, f"mlflow/{self.home.tracking_uri}")

    @cached_property
    def experiment_id(self) -> str:
        """The experiment, made if need be, once."""
        with self._alone():
            found = self.client.get_experiment_by_name(self.experiment)
            if found is None:
                place = (self.home.path / "mlartifacts" / self.experiment).as_uri() if self.home.tracks_here else None
                return str(self.client.create_experiment(self.experiment, artifact_location=place))
            if found.lifecycle_stage == "deleted":
                self.client.restore_experiment(found.experiment_id)
            return str(found.experiment_id)

    @contextmanager
    def run(self, entry: Entry, parent: str | None = None) -> Iterator[str]:
        """Yield the id of the run that ``entry.key`` names, filled; it is FINISHED when the block ends well."""
        run_id = self.begin(entry, parent)
        try:
            yield run_id
        except BaseException as error:
            self.fail(run_id, str(error))
            raise
        self.finish(run_id)

    def begin(self, entry: Entry, parent: str | None = None) -> str:
        """Return the id of the run that ``entry.key`` names, RUNNING and filled."""
        # Also while it is filled: of two who both find a metric absent, each would log a point.
        halt_where_stopping()
        with locked(self.home.locks, f"run/{self.home.tracking_uri}/{entry.key}"):
            run_id = self._open(entry, parent)
            _UNDER_WAY[run_id] = self
            self._fill(run_id, entry)
            return run_id

    def fail(self, run_id: str, reason: str) -> None:
        """Mark a run as failed, with the reason where people look for it."""
        reason = redacted(reason)
        self.client.set_tag(run_id, "evenfold.failure", reason[:5000])
        self.client.set_tag(run_id, NOTE, f"**Failed:** {reason[:4000]}")
        self.finish(run_id, "FAILED")

    def finish(self, run_id: str, status: str = "FINISHED") -> None:
        """End a run: last of all, for a run that is FINISHED is complete."""
        self.client.set_terminated(run_id, status)
        _UNDER_WAY.pop(run_id, None)

    def find(self, key: str) -> str | None:
        """Return the run that ``key`` names, if there is one."""
        found = self.client.search_runs([self.experiment_id], f"tags.`{RUN_KEY}` = '{key}'", max_results=1)
        return str(found[0].info.run_id) if found else None

    def runs_named(self, name: str) -> list[Any]:
        """Return every run of the experiment that is called ``name``."""
        token, runs = None, []
        while True:
            page = self.client.search_runs(
                [self.experiment_id], f"tags.`mlflow.runName` = '{name}'", max_results=1_000, page_token=token
            )
            runs += list(page)
            token = page.token
            if not token:
                return runs

    def _open(self, entry: Entry, parent: str | None) -> str:
        run_id = self.find(entry.key)
        if run_id is None:
            tags = {RUN_KEY: entry.key} | ({"mlflow.parentRunId": parent} if parent else {})
            return str(self.client.create_run(self.experiment_id, tags=tags, run_name=entry.name).info.run_id)
        self.client.update_run(run_id, status="RUNNING")
        for tag in {"evenfold.failure", "evenfold.partial", NOTE} & set(self.client.get_run(run_id).data.tags):
            self.client.delete_tag(run_id, tag)
        return run_id

    def measured(self, run_id: str, values: Mapping[str, float]) -> None:
        """Log the metrics that the run does not hold yet; what it holds already is not said twice."""
        run = self.client.get_run(run_id)
        metrics = list(news(values, run.data.metrics, run.info.start_time))
        for start in range(0, len(metrics), 900):
            points = [Metric(name, value, when, 0) for name, value, when in metrics[start : start + 900]]
            self.client.log_batch(run_id, metrics=points)

    def _fill(self, run_id: str, entry: Entry) -> None:
        self.measured(run_id, entry.metrics)
        params = [Param(name, str(value)[:5900]) for name, value in entry.params.items()]
        tags = [RunTag(name, str(value)) for name, value in entry.tags.items()]
        self.client.log_batch(run_id, params=params[:100], tags=tags[:100])

    def keep(self, run_id: str, name: str, value: Any) -> None:
        """Log ``value`` as a JSON artifact, or the file or folder that a Path names, or a page or picture as it is."""
        if isinstance(value, Path):
            log = self.client.log_artifacts if value.is_dir() else self.client.log_artifact
            log(run_id, str(value), name)
        elif name.endswith((".html", ".svg")):
            self.client.log_text(run_id, value, name)
        else:
            self.client.log_text(run_id, json.dumps(value, indent=1, ensure_ascii=False, default=str), name)

    def keep_table(self, run_id: str, name: str, table: Any) -> None:
        """Log a pandas table as a Parquet artifact."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            table.to_parquet(path, index=False)
            self.client.log_artifact(run_id, str(path))

    @contextmanager
    def process_wide(self) -> Iterator[None]:
        """Make this store the process's one inside the block, for the calls of MLflow that take no store.

        MLflow writes that to the environment, where it would decide about every later home: it is put back.
        """
        if mlflow.get_tracking_uri() == self.home.tracking_store:
            yield
            return
        before = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
        named = os.environ.get("MLFLOW_TRACKING_URI")
        mlflow.set_tracking_uri(self.home.tracking_store)
        try:
            yield
        finally:
            mlflow.set_tracking_uri(before)
            if named is not None:
                os.environ["MLFLOW_TRACKING_URI"] = named

    def keep_model(self, run_id: str, model: Any, trusted: list[str], requirements: list[str]) -> str:
        """Log a model without pickles and return its URI; naming what it requires saves MLflow a subprocess."""
        # Left to itself MLflow puts the model into its own default experiment, below the working directory.
        made = self.client.create_logged_model(self.experiment_id, "model", source_run_id=run_id).model_id
        kept = {"sk_model": model, "pip_requirements": requirements, "skops_trusted_types": trusted}
        with self.process_wide():
            Model.log(None, mlflow.sklearn, name="model", run_id=run_id, model_id=made, **kept)
        return f"models:/{made}"

    def load_model(self, uri: str, estimator: str = "") -> Any:
        """Return the scikit-learn model that a URI such as models:/flights@champion names; see ``load_stored``."""
        with self.process_wide():
            return load_stored(uri, estimator)

    def text(self, run_id: str, name: str) -> str:
        """Return the text of an artifact."""
        with tempfile.TemporaryDirectory() as folder:
            return self.fetch(run_id, name, Path(folder)).read_text(encoding="utf-8")

    def fetch(self, run_id: str, name: str, folder: Path) -> Path:
        """Download an artifact of a run into a folder, and return where it lies."""
        folder.mkdir(parents=True, exist_ok=True)
        return Path(self.client.download_artifacts(run_id, name, str(folder)))

    def reads(self, run_id: str, *inputs: DatasetInput) -> None:
        """Say which data and which split a run rests on."""
        self.client.log_inputs(run_id, datasets=list(inputs))

    def judge(self, run_id: str, name: str, dataset: Dataset, params: Mapping[str, Any]) -> None:
        """Let a light logged model hold the run's metrics, each with the split that it was judged on; once.

        So MLflow's search of logged models by dataset finds and ranks whatever was ever judged on a split.
        """
        run = self.client.get_run(run_id)
        made = run.data.tags.get(JUDGED)
        if made is None:
            values = {key: str(value)[:5900] for key, value in params.items()}
            model = self.client.create_logged_model(
                self.experiment_id, name, source_run_id=run_id, params=values, model_type="evenfold-recipe"
            )
            made = self.client.finalize_logged_model(model.model_id, LoggedModelStatus.READY).model_id
            self.client.set_tag(run_id, JUDGED, made)
        held = self.client.get_logged_model(made).metrics or []
        known = {(metric.key, metric.value) for metric in held}
        # A value that has changed is a later point: of one time, step and run MLflow takes one.
        again, now = {metric.key for metric in held}, int(time.time() * 1000)
        about = {"model_id": made, "dataset_name": dataset.name, "dataset_digest": dataset.digest, "run_id": run_id}
        points = [
            Metric(name, value, now if name in again else run.info.start_time, 0, **about)
            for name, value in run.data.metrics.items()
            if (name, value) not in known
        ]
        for start in range(0, len(points), 900):
            self.client.log_batch(run_id, metrics=points[start : start + 900])


def tracker_of(split: SplitRef) -> Tracker:
    """Return the record of a split's experiment."""
    return Tracker(Home.here(), split.name)


KEPT = "evenfold.model_key"


def load_final(file: str) -> tuple[Any, list[str]]:
    """Return the model in a file that ``fit_final`` wrote, and the types in it that skops does not know by itself.

    A deployed run loads of it what it would of anybody's, for results may be shared.
    """
    if is_deployed():
        return load_skops(file)
    types = [str(each) for each in skops.io.get_untrusted_types(file=file)]
    return skops.io.load(file, trusted=types), types


def keep_model_of(tracker: Tracker, run_id: str, kept: KeptModel | None, estimator: str) -> None:
    """Log the model in a file to a run, once: the run says by a tag of what data and recipe its model is."""
    if kept is None or tracker.client.get_run(run_id).data.tags.get(KEPT) == kept.key:
        return
    made, types = load_final(kept.file)
    tracker.keep_model(run_id, made, types, requirements(estimator))
    tracker.client.set_tag(run_id, KEPT, kept.key)


def requirements(estimator: str) -> list[str]:
    """Return what must be installed to load a model, with exact versions."""
    known = ["scikit-learn", "numpy", "pandas", "imbalanced-learn", "skops"]
    of_estimator = distribution_of(resolve(estimator, ESTIMATOR)).partition("==")[0]
    names = dict.fromkeys([*known, of_estimator, *(["evenfold"] if of_estimator != "scikit-learn" else [])])
    return [f"{name}=={version(name)}" for name in names if _installed(name)]


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except ModuleNotFoundError:
        return False
