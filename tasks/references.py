"""What names mean: a split by its name, a run by the first digits of its id. Every command and flow asks here."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenfold.manifests import read_header
from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Home

if TYPE_CHECKING:
    from evenfold.tasks.record.tracker import Tracker

SHORT_ID = re.compile(r"[0-9a-f]{4,64}")
VERSION = re.compile(r"\d+\.\d+")
Listed = dict[str, str | int]  # what a list shows of a thing, by the name of the column


def manifest_folder(given: str | Path) -> Path:
    """Return the folder of a manifest that is given as a folder, or by a name of the home's splits.

    ``flights`` is the newest version, ``flights@1.0`` (or ``flights/1.0``) that one; at least four digits of a
    split_id name it as well. Raises SplitError for a name that none has, with the nearest, and for digits that several
    have. A path that is no manifest is returned as it is: whoever reads it says what is wrong.
    """
    path = Path(given)
    if path.is_absolute() or (path / "manifest.json").exists():
        return path
    home = Home.here()
    name, _, version = str(given).replace("/", "@").partition("@")
    versions = dict(splits_of(home, name))
    if versions and not version:
        return max(versions.items(), key=lambda item: _order(item[0]))[1]
    if version in versions:
        return versions[version]
    if versions:
        known = ", ".join(sorted(versions, key=_order))
        raise SplitError(f"the split {name!r} has no version {version!r}; it has {known}.")
    found = _by_digits(home, str(given)) if SHORT_ID.fullmatch(str(given)) else []
    if len(found) > 1:
        raise SplitError(f"{given!r} begins the ids of {len(found)} splits; write more of its digits.")
    return found[0] if found else _unknown(home, path)


def _unknown(home: Home, path: Path) -> Path:
    """Return the path as it is; raises SplitError where it looks like the name of a split, with the nearest."""
    names = [folder.name for folder in home.splits.glob("*") if folder.is_dir()]
    close = difflib.get_close_matches(str(path), names, n=2, cutoff=0.6)
    if close:
        raise SplitError(f"there is no split {str(path)!r}; did you mean {' or '.join(close)}?")
    return path


def splits_of(home: Home, name: str) -> Iterator[tuple[str, Path]]:
    """Yield the version and folder of every manifest of a name."""
    if not name or name in (".", "..") or "\\" in name:
        return
    for folder in (home.splits / name).glob("*"):
        if VERSION.fullmatch(folder.name) and (folder / "manifest.json").exists():
            yield folder.name, folder


def recorded_splits(home: Home) -> list[Listed]:
    """Return name, id, strategy, rows, splits and time of every manifest below the home, the newest first."""
    rows: list[Listed] = []
    written = {file: file.stat().st_mtime_ns for file in home.splits.glob("*/*/manifest.json")}
    for file in sorted(written, key=written.__getitem__, reverse=True):  # within a second too
        try:
            header = read_header(file.parent)
        except SplitError:
            continue  # a damaged neighbour is found by whoever reads it
        when = datetime.fromtimestamp(written[file] / 1e9).astimezone()
        rows.append({
            "split": f"{header['name']}@{header['version']}", "id": header["split_id"],
            "strategy": header["algorithm"]["name"], "rows": header["n_rows"], "splits": header["n_splits"],
            "when": when.isoformat(timespec="seconds"),
        })  # fmt: skip
    return rows


def _by_digits(home: Home, digits: str) -> list[Path]:
    folders = [path.parent for path in home.splits.glob("*/*/manifest.json")]
    by_id: dict[str, Path] = {}
    for folder in folders:
        try:
            split_id = str(read_header(folder)["split_id"])
        except (SplitError, KeyError):
            continue  # a damaged neighbour is found by whoever reads it
        if split_id.startswith(digits):
            by_id.setdefault(split_id, folder)
    return list(by_id.values())


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _evaluated_by(tracker: Tracker, uri: str) -> str:
    """Return the run that evaluated a registered model; raises SplitError where the registry has no such model."""
    from evenfold.tasks.record.models.promoting import EVALUATION

    name, alias, which = uri.removeprefix("models:/").rpartition("@" if "@" in uri else "/")
    try:
        client = tracker.client
        found = (
            client.get_model_version_by_alias(name, which) if alias == "@" else client.get_model_version(name, which)
        )
        return str(found.tags[EVALUATION])
    except Exception:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no registered model {uri!r} in {tracker.home.tracking_uri} that a retraining evaluated; "
            "evenfold list shows those that are."
        ) from None


def run_named(tracker: Tracker, given: str) -> Any:
    """Return the MLflow run of an id, or of its first four digits or more.

    ``models:/NAME@champion`` and ``models:/NAME/2`` are the run that evaluated that registered model's recipe. Raises
    SplitError where there is none, where several begin so, and where the store cannot be asked.
    """
    from evenfold.tasks.runtime.redaction import redacted

    if given.startswith("models:/"):
        given = _evaluated_by(tracker, given)

    try:
        runs = [tracker.client.get_run(given)] if len(given) == 32 else list(_runs_beginning(tracker, given))
    except Exception as error:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no run {given!r} in {tracker.home.tracking_uri} ({redacted(str(error))})."
        ) from None
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise SplitError(
            f"there is no run {given!r} in {tracker.home.tracking_uri}; evenfold list shows those that are."
        )
    names = ", ".join(f"{run.info.run_id[: len(given) + 4]} ({run.info.run_name})" for run in runs[:3])
    raise SplitError(f"{len(runs)} runs begin with {given!r}: {names}; write more digits.")


def _runs_beginning(tracker: Tracker, digits: str) -> Iterator[Any]:
    if not SHORT_ID.fullmatch(digits):
        return
    for run in every_run(tracker):
        if run.info.run_id.startswith(digits):
            yield run


def every_run(tracker: Tracker, filter_string: str = "") -> Iterator[Any]:
    """Yield every run of the store, the newest first."""
    if ids := tracker.experiments():
        yield from tracker.every(partial(tracker.client.search_runs, ids, filter_string, max_results=1_000))


def recorded_evaluations(home: Home) -> list[Listed]:
    """Return run, model, split, score and time of every finished evaluation in the store, the newest first."""
    rows: list[Listed] = []
    for run in _finished(home, "evaluation"):
        metric = next((name for name in metrics_in(run.data.params) or [] if f"value/{name}" in run.data.metrics), None)
        score = _score(metric, run.data.metrics.get(f"value/{metric}"), run.data.metrics.get(f"resolution/{metric}"))
        rows.append({**_named(run), "score": score, "when": _begun(run)})
    return rows


def recorded_tunings(home: Home) -> list[Listed]:
    """Return run, model, split, the parameters that were chosen, what they are worth and time of every tuning."""
    rows: list[Listed] = []
    for run in _finished(home, "tuning"):
        metric = next((name.removeprefix("tried/") for name in run.data.metrics if name.startswith("tried/")), None)
        params = {name: value for name, value in run.data.params.items() if name.startswith("chosen.")}
        chosen = ", ".join(f"{name.removeprefix('chosen.')}={value}" for name, value in sorted(params.items()))
        score = _score(metric, run.data.metrics.get("choice/value"))
        rows.append({**_named(run), "chosen": chosen, "score": score, "when": _begun(run)})
    return rows


def _finished(home: Home, record: str) -> Iterator[Any]:
    return every_run(_tracker(home), f"tags.`evenfold.record` = '{record}' AND attributes.status = 'FINISHED'")


def _named(run: Any) -> dict[str, str]:
    model = run.info.run_name.partition(" @ ")[0]
    return {"run": run.info.run_id, "model": model, "on": run.data.tags.get("evenfold.spec", "")}


def _begun(run: Any) -> str:
    return datetime.fromtimestamp(run.info.start_time / 1000).astimezone().isoformat(timespec="seconds")


def _score(metric: str | None, value: float | None, half_width: float | None = None) -> str:
    """Return the score by a metric as people read it."""
    from evenfold.estimates.metrics.registry import metric_of
    from evenfold.reports.evaluations.words import written

    if metric is None or value is None:
        return ""
    reading = metric_of(metric)
    return f"{reading.title} {written(reading.shown(value), half_width)}"


def recorded_models(home: Home) -> list[Listed]:
    """Return name, versions, champion and time of every registered model."""
    rows: list[Listed] = []
    tracker = _tracker(home)
    for model in tracker.every(tracker.client.search_registered_models):
        when = datetime.fromtimestamp(model.last_updated_timestamp / 1000).astimezone()
        newest = max((int(version.version) for version in model.latest_versions), default=0)
        champion = dict(model.aliases).get("champion", "none")
        rows.append({
            "model": model.name, "newest": newest, "champion": champion, "uri": f"models:/{model.name}@champion",
            "when": when.isoformat(timespec="seconds"),
        })  # fmt: skip
    return rows


def _tracker(home: Home) -> Tracker:
    from evenfold.tasks.record.tracker import Tracker

    return Tracker(home, "")


def metrics_in(params: dict[str, str]) -> list[str] | None:
    """Return the metrics that the parameters of a run name; None where they name none that can be read."""
    try:
        metrics: Any = ast.literal_eval(params.get("model.metrics", "[]"))
        known = isinstance(metrics, (list, tuple)) and all(isinstance(name, str) for name in metrics)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return list(metrics) if known else None
