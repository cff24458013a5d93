"""The record in MLflow, which is imported by whoever first asks its store: two seconds for those who never do.

Everything goes through a client with explicit run ids: MLflow's active run belongs to a thread, and tasks run in many.
Recording is idempotent: the same key finds and completes the same run. A run that is FINISHED is complete.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import pandas as pd
from evenfold.estimates import Estimate, ModelSpec
from evenfold.manifests.exchange.changes import differences
from evenfold.manifests.store.header import sha256
from evenfold.manifests.tables.aside import write_aside
from evenfold.reports.texts import plain
from evenfold.splitters.errors import redacted
from evenfold.tasks.outcomes import SplitRef
from evenfold.tasks.runtime.home import Home, in_silence, keep_file, locked
from evenfold.tasks.runtime.progress import at_stop, room, unreachable
from evenfold.tasks.runtime.signing import is_signed, sign
from pydantic import BaseModel

from .entries import PARTIAL, RECIPE, UNCODED, Entry, Metrics, allowed, code_in

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Run

logging.getLogger("alembic").setLevel(logging.WARNING)
# What goes wrong in the store is raised, and said by us in a sentence; this would print the traceback as well.
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)

RUN_KEY = "evenfold.run_key"
NOTE = "mlflow.note.content"
JUDGED = "evenfold.judged_model"
CONTENT = "evenfold.recorded"  # the digest of what a finished record was made of
M = TypeVar("M", bound=BaseModel)


def active_run(home: Home) -> Any:
    """Return the user's run that is active in this thread, where their store is the one that is recorded in."""
    mlflow = sys.modules.get("mlflow")
    return None if mlflow is None or home.tracks_here else mlflow.active_run()


def users_experiment() -> str:
    """Return the name of the experiment of ``mlflow.set_experiment``, or MLFLOW_EXPERIMENT_NAME; empty: of none."""
    chosen = os.environ.get("MLFLOW_EXPERIMENT_ID")  # which set_experiment writes
    if not chosen:
        return os.environ.get("MLFLOW_EXPERIMENT_NAME", "")
    import mlflow

    return str(mlflow.get_experiment(chosen).name)


class Tracker:
    """One MLflow store, and one experiment in it for whoever writes there."""

    def __init__(self, home: Home, experiment: str = "") -> None:
        self.home = home
        self.experiment = experiment
        self.made: set[str] = set()  # runs that nobody has written to before
        self.places: dict[str, str] = {}  # where the artifacts of a run are, which never changes
        home.make()
        from mlflow.tracking import MlflowClient

        # A client makes a new store, and two that do would meet in its migrations.
        with locked(home.locks, f"mlflow/{home.tracking_uri}"):
            database = home.path / "mlflow.db"
            if home.tracks_here and not database.exists():
                # A disk that fills in the middle of MLflow's migrations would leave a store that never opens again.
                with room(home):
                    write_aside(database, lambda aside: MlflowClient(tracking_uri=f"sqlite:///{aside}"))
            # Else MLflow searches for PySpark each time: a session of it may name another registry, as the environment.
            alone = home.tracks_here and "pyspark" not in sys.modules and not os.environ.get("MLFLOW_REGISTRY_URI")
            self.client = MlflowClient(home.tracking_store, home.tracking_store if alone else None)

    @cached_property
    def experiment_id(self) -> str:
        """The experiment that the user's MLflow records in, else the one called as the split; made if need be, once."""
        if run := active_run(self.home):
            return str(run.info.experiment_id)
        name = users_experiment() or self.experiment
        with locked(self.home.locks, f"mlflow/{self.home.tracking_uri}"):
            experiment = self.client.get_experiment_by_name(name)
            if experiment is None:
                folder = self.home.path / "mlartifacts" / quote(name, safe="")
                place = folder.as_uri() if self.home.tracks_here else None
                tags = {NOTE: f"Splits of {name}, and what was evaluated, tuned and retrained on them."}
                return str(self.client.create_experiment(name, artifact_location=place, tags=tags))
            if experiment.lifecycle_stage == "deleted":
                self.client.restore_experiment(experiment.experiment_id)
            return str(experiment.experiment_id)

    @contextmanager
    def run(self, entry: Entry, parent: str | None = None) -> Iterator[str]:
        """Yield the run that ``entry.key`` names, filled, to one at a time; FINISHED when the block ends well."""
        with self._opened(entry, parent) as run:
            run_id = str(run.info.run_id)
            try:
                with at_stop(partial(self.finish, run_id, "KILLED")):
                    self._fill(run, entry)
                    yield run_id
            except Exception as error:
                self.fail(run_id, str(error))
                raise
            except BaseException:  # no failure, as in a run that Prefect cancels
                with suppress(Exception):  # of a store out of reach; the next that wants the run completes it
                    self.finish(run_id, "KILLED")
                raise
            self.finish(run_id)

    def begin(self, entry: Entry) -> Run:
        """Return the run that ``entry.key`` names, RUNNING and filled, with the tags that it had before."""
        with self._opened(entry) as run:
            self._fill(run, entry)
        return run

    def fail(self, run_id: str, reason: str) -> None:
        """Mark a run as failed, with the reason where people look for it; with MLflow out of reach it stays RUNNING."""
        reason = redacted(reason)
        try:
            self.tell(run_id, {"evenfold.failure": reason[:5000], NOTE: f"**Failed:** {plain(reason[:4000])}"})
            self.finish(run_id, "FAILED")
        except Exception as error:
            if not unreachable(error):
                raise

    def finish(self, run_id: str, status: str = "FINISHED") -> None:
        """End a run: last of all, for a run that is FINISHED is complete."""
        with in_silence():
            self.client.set_terminated(run_id, status)

    def find(self, key: str) -> Run | None:
        """Return the run that ``key`` names, None where there is none."""
        return next(self.runs(f"tags.`{RUN_KEY}` = '{key}'", here=True), None)

    def runs(self, wanted: str = "", *, here: bool = False) -> Iterator[Run]:
        """Yield the runs that a filter of MLflow's wants, the newest first: of the whole store, or this experiment."""
        every = (each.experiment_id for each in self.every(self.client.search_experiments))
        if ids := [self.experiment_id] if here else list(every):
            yield from self.every(partial(self.client.search_runs, ids, wanted, max_results=1_000))

    @staticmethod
    def every(search: Callable[..., Any]) -> Iterator[Any]:
        """Yield all that a search of MLflow's client finds, of which one call returns a page."""
        token = None
        while token or token is None:
            page = search(page_token=token)
            yield from page
            token = page.token or ""

    def since(self, key: str, code: Mapping[str, str]) -> str:
        """Return what changed in the code since the newest run of the same by other code; empty where there is none."""
        for run in self.runs(f"tags.`{UNCODED}` = '{key}'", here=True) if code else ():
            before = code_in(run.data.tags)
            if before and (reasons := differences({"code": before}, {"code": code})):
                return f"{', '.join(reasons)} since run {run.info.run_id[:8]}"
        return ""

    @contextmanager
    def _opened(self, entry: Entry, parent: str | None = None) -> Iterator[Run]:
        """Yield the run of an entry, RUNNING, to one at a time: of two who found none, each would make one."""
        with locked(self.home.locks, f"record/{self.home.tracking_uri}/{entry.key}"):
            run = None if parent in self.made else self.find(entry.key)
            if run is None:
                about = {RUN_KEY: entry.key} | ({"mlflow.parentRunId": parent} if parent else {})
                run = self.client.create_run(self.experiment_id, tags=_cut(entry.tags) | about, run_name=entry.name)
                self.made.add(run.info.run_id)
            else:
                self.made.discard(run.info.run_id)
                self.client.update_run(run.info.run_id, status="RUNNING", name=entry.name)
                # What an earlier attempt said of its failure holds no more.
                for tag in {"evenfold.failure", PARTIAL, NOTE} & set(run.data.tags):
                    self.client.delete_tag(run.info.run_id, tag)
            yield run

    def _fill(self, run: Run, entry: Entry) -> None:
        """Log what an entry holds, with the model and the split that it belongs to; what the run holds stays once.

        MLflow keeps equal points of a run once, shows the larger of two at one time, and may refuse a model's again. So
        points are logged at the run's start; at now where one has changed, or a kill has left no tag that names their
        model. Seconds are those of the first fit.
        """
        from mlflow.entities import Metric, Param, RunTag

        run_id, held, when = run.info.run_id, run.data.metrics, run.info.start_time
        on, tags = dict[str, str](), _cut(entry.tags)  # on: which model and split a point is of
        params = {name: str(value)[:5900] for name, value in entry.params.items()}
        if entry.judged:
            tags[JUDGED] = on["model_id"] = self._keep_light_model(run, entry.name, params)
            on |= {"dataset_name": entry.tags["spec"], "dataset_digest": entry.tags["evenfold.split_id"][:32]}
        points = {at: x for at, x in entry.points.items() if at[0] not in held or not at[0].startswith("seconds_")}
        newest = {name: value for (name, _), value in sorted(points.items())}  # of the last step, as the run shows it
        series = {allowed(name) for name, value in entry.metrics.items() if isinstance(value, Mapping)}
        of_model = {name for name in newest if "/" in name} - series  # as value/r2 is, and no count
        parted = entry.judged and of_model & set(held) and JUDGED not in run.data.tags  # by a kill
        if parted or any(str(held.get(name, value)) != str(value) for name, value in newest.items()):  # NaN is NaN
            when = max(int(time.time() * 1000), when + 1)
        else:  # the model has these points by now, and may refuse them
            of_model -= set(held)
        metrics = [Metric(name, value, when, step, run_id=run_id, **(on if name in of_model else {}))
                   for (name, step), value in points.items()]  # fmt: skip
        marks = [RunTag(*tag) for tag in tags.items()]
        self.client.log_batch(run_id, metrics, params=[Param(*param) for param in params.items()], tags=marks)

    def measured(self, run_id: str, metrics: Metrics) -> None:
        """Log metrics of a run, also those that it holds, with their new values; but seconds stay the first."""
        self._fill(self.client.get_run(run_id), Entry("", "", metrics=metrics))

    def _keep_light_model(self, run: Run, title: str, params: dict[str, str]) -> str:
        """Return the light model of a run, made once: it has no artifact, and the metrics as MLflow's search wants."""
        if JUDGED in run.data.tags:
            return str(run.data.tags[JUDGED])
        # By the model's name, which may be on a split; it may not hold what a path or URI does.
        name = re.sub(r"[/:.%\"']", "-", title.partition(" @ ")[0])
        model = self.logged_model(run.info.run_id, name, {}, params=params, model_type="evenfold-recipe")
        return str(self.client.finalize_logged_model(model.model_id, "READY").model_id)

    def logged_model(self, run_id: str, name: str, tags: dict[str, str], **about: Any) -> LoggedModel:
        """Return the logged model of a run that a try before a kill has left, by its name and tags, or a new one."""
        search, place = self.client.search_logged_models, self.experiment_id
        of_run = [] if run_id in self.made else search([place], f"source_run_id = '{run_id}'")
        left = [model for model in of_run if model.name == name and tags.items() <= model.tags.items()]
        make = partial(self.client.create_logged_model, place, name, source_run_id=run_id, tags=tags)
        return left[0] if left else make(**about)

    def tell(self, run_id: str, tags: Mapping[str, Any]) -> None:
        """Set tags of a run, such as its description, in one call."""
        from mlflow.entities import RunTag

        self.client.log_batch(run_id, tags=[RunTag(*tag) for tag in _cut(tags).items()])

    def keep(self, run_id: str, files: Mapping[str, Any]) -> dict[str, str]:
        """Log texts as they are, tables as Parquet, others as JSON, by name in one call; return their digests."""
        with tempfile.TemporaryDirectory() as folder:
            paths = {name: Path(folder) / name for name in files}
            for name, value in files.items():
                paths[name].parent.mkdir(parents=True, exist_ok=True)
                if isinstance(value, pd.DataFrame):
                    value.to_parquet(paths[name], index=False)
                    continue
                text = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False, default=str)
                paths[name].write_text(text, encoding="utf-8")
            self.client.log_artifacts(run_id, folder)
            return {name: sha256(path) for name, path in paths.items()}

    def keep_signed(self, run_id: str, name: str, content: Mapping[str, object]) -> None:
        """Keep a JSON artifact of a run, signed for this very run beside the signatures that it has."""
        plain = json.loads(json.dumps(content, default=str))
        before, kind = plain.pop("signatures", []), Path(name).stem
        signature = sign(kind, {"run": run_id, kind: plain})
        self.keep(run_id, {name: plain | {"signatures": [*before, signature]}})

    def keep_recipe(
        self, run_id: str, split: SplitRef, model: ModelSpec, estimates: Sequence[Estimate], **more: object
    ) -> None:
        """Keep what ``read_recipe`` reads, signed; an address loses its password, and has to be given again."""
        where = split.model_copy(update={"data": redacted(split.data)}).model_dump(mode="json")
        recipe = {"model": model.model_dump(mode="json"), "split": where}
        self.keep_signed(run_id, RECIPE, recipe | {"estimates": [asdict(each) for each in estimates]} | more)

    def read_signed(self, run_id: str, name: str) -> tuple[Any, bool]:
        """Return a JSON artifact of a run, and whether this home or its team signed it for that run."""
        with tempfile.TemporaryDirectory() as folder:
            content = json.loads(self.fetch(run_id, name, Path(folder)).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not isinstance(signatures := content.get("signatures"), list):
            return content, False
        plain, kind = {field: value for field, value in content.items() if field != "signatures"}, Path(name).stem
        return content, is_signed(kind, {"run": run_id, kind: plain}, signatures)

    def read_ours(self, run_id: str, name: str, kind: type[M]) -> M | None:
        """Return a JSON artifact of a run that this home or its team signed for it; None: there is none of ``kind``."""
        if all(artifact.path != name for artifact in self.client.list_artifacts(run_id)):
            return None
        try:
            content, is_ours = self.read_signed(run_id, name)
            return kind.model_validate(content) if is_ours else None
        except Exception as error:  # written over, or of an earlier version; MLflow's errors differ by store
            if unreachable(error):
                raise
            return None

    def fetch(self, run_id: str, name: str, folder: Path | None = None) -> Path:
        """Return where an artifact of a run lies: downloaded into a folder, or, where none is named, in place."""
        from mlflow.artifacts import download_artifacts

        # Named by its run, files of models that the run has made would lie over those that are called alike.
        if run_id not in self.places:
            self.places[run_id] = str(self.client.get_run(run_id).info.artifact_uri)
        place = f"{self.places[run_id]}/{name}"
        with in_silence():
            to = folder and str(folder)
            return Path(download_artifacts(place, dst_path=to, tracking_uri=self.client.tracking_uri))


def _cut(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return tags as long as MLflow keeps them."""
    return {name: str(value)[:7_900] for name, value in tags.items()}


def tracker_of(split: SplitRef) -> Tracker:
    """Return the record of a split's experiment."""
    return Tracker(Home.here(), split.name)


SEEN = "recorded.json"  # the complete records, and the home's own store as it was when the last of them was seen


def made_once(
    split: SplitRef, key: str, content: str, file: str, write: Callable[[Tracker, Run | None], str], again: bool = False
) -> tuple[str, bool]:
    """Return the run that ``key`` names, and whether it was written now: complete and of the same ``content`` it stays.

    ``write`` fills the run that there is, or None; ``again`` lets none stay. Complete is what has ended well and holds
    its ``file``; no content is never.
    """
    home = Home.here()
    seen = complete_records(home)
    if content and not again and key in seen and seen[key][1] == content:
        return seen[key][0], False
    tracker = tracker_of(split)
    from mlflow.artifacts import list_artifacts

    with locked(home.locks, f"once/{home.tracking_uri}/{key}"):  # of two at once, the second finds what the first made
        existing, stays = tracker.find(key), False
        if not again and existing and (existing.info.status, existing.data.tags.get(CONTENT)) == ("FINISHED", content):
            # By the run's id it would be read once more, and so would every model that it has made.
            place, _, name = f"{existing.info.artifact_uri}/{file}".rpartition("/")
            beside = list_artifacts(artifact_uri=place, tracking_uri=tracker.client.tracking_uri)
            stays = name in {Path(each.path).name for each in beside}
        run_id = str(existing.info.run_id) if existing and stays else write(tracker, existing)
    if content and home.tracks_here and (existing is None or run_id == existing.info.run_id):  # not a second run of it
        seen[key] = [run_id, content, f"mlartifacts/{split.name}/{run_id}/artifacts/{file}"]
        keep_file(home.path / SEEN, json.dumps([_state_of_store(home), seen]).encode())
    return run_id, not stays


def complete_records(home: Home) -> dict[str, list[str]]:
    """Return run, content and file of each complete record by its key; none where MLflow is to be asked.

    It is not even imported, which takes two seconds, where nothing has been written to the home's own store since.
    """
    if home.tracks_here and not users_experiment():
        with suppress(OSError, ValueError):
            store, records = json.loads((home.path / SEEN).read_bytes())
            if store and store == _state_of_store(home):
                return {key: held for key, held in records.items() if (home.path / held[2]).is_file()}
    return {}


def _state_of_store(home: Home) -> list[int]:
    """Return what changes with whatever is written to the home's own store, and beside it while that is under way."""
    with suppress(OSError):  # of a journal that is gone by now
        states = [file.stat() for file in sorted(home.path.glob("mlflow.db*"))]
        return [number for state in states for number in (state.st_ctime_ns, state.st_size)]
    return []
