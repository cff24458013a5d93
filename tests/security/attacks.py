"""What somebody who may start a deployed run, or edit the model registry, could try: one table of payloads.

Run as a program it attacks itself: it stands where a worker's process would, tries every payload of each kind through
the door that a deployed run uses, then two as at a terminal, and prints what happened, with what an audit hook saw, as
JSON.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from texts import COLUMNS, DECISION, DOCUMENTS, MODEL, SCORE, SPEC, TEXTS, changed, documents_of, forged_headers

# Modules that lie beside the process; each leaves a mark when it is imported.
PLANTED = ("evil", "retrain-now", "sklearn_evil", "evil_pkg/__init__", "evil_pkg/models", "sitecustom")
MARKED = (
    "open(__file__ + '.ran', 'w').close()\nclass X:\n    fit = predict = get_params = split = get_n_splits = None\n"
)


def table(name: str) -> list[Any]:
    return list(json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8")))


# Long enough to recurse or to run out of memory on.
ENDLESS = ["a" * 100_000 + ":X", "a." * 20_000 + "b:X", "evil:" + "X." * 1_000 + "X", "evil" + ":" * 10_000 + "X"]
PATHS = [*table("import_paths.json"), *ENDLESS]
MODELS = table("models.json")
SPECS = table("specs.json")

YAML = """
strategy: !!python/name:os.system
strategy: !!python/object/apply:os.system ["touch os_system.ran"]
strategy: !!python/object/new:os.system ["touch os_system.ran"]
strategy: !!python/module:evil
params: !!python/object:evil.X {}
params: {n_splits: !!python/object/apply:eval ["__import__('evil')"]}
name: !!python/object/apply:subprocess.Popen [["touch", "os_system.ran"]]
!!python/object/apply:builtins.exec ["import evil"]
""".strip().splitlines()


class Watch(MetaPathFinder):
    """Counts what an audit hook sees while it is switched on: imports of new modules, processes, files written."""

    WATCHED = ("os.system", "subprocess.", "os.exec", "os.posix_spawn", "os.fork", "pty.", "shutil.", "os.remove")
    ALSO = ("os.rename", "os.mkdir", "os.rmdir", "os.chmod", "socket.", "ctypes.", "pickle.find_class", "urllib.")

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self.hook)
        # importlib.import_module raises no audit event of its own: a finder that finds nothing sees what it looks for.
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if self.on:
            self.seen.append(f"import {name}")

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "import" and arguments[0] not in sys.modules:
            self.seen.append(f"import {arguments[0]}")
        elif event == "exec":
            self.seen.append(f"exec {arguments[0].co_filename}")
        elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
            self.seen.append(f"open {arguments[0]} {arguments[1]}")
        elif event.startswith((*self.WATCHED, *self.ALSO)):
            self.seen.append(event)


def warmed_up() -> None:
    """Import what the doors themselves use, and all that is allowed: what is imported later was asked for."""
    import importlib

    from evenfold.splitters.untrusted import SKLEARN

    for name in (*SKLEARN, "evenfold.tasks.outcomes"):
        importlib.import_module(name)
    repr(importlib.import_module("sklearn.linear_model").Ridge())  # its printer is imported when it is used
    for door, harmless in HARMLESS:
        try:
            door(harmless)
        except ValueError:
            sys.stderr.write(f"{door.__name__} refused the harmless {harmless!r}\n")
            raise


def as_estimator(path: Any) -> None:
    as_model({"estimator": path})


def as_model(fields: Any) -> None:
    import numpy as np
    from evenfold.estimates import ModelSpec
    from evenfold.estimates.models.estimators import check_options, named_for, target_transformer

    model = ModelSpec.of(fields)
    y = np.arange(20.0)
    named_for(model.metrics, "regression", (), None)
    check_options(model, "regression", (), y, "y")
    if model.target_transform:
        target_transformer(model).fit(y[:, None])
    model.build(0).fit(np.arange(20.0)[:, None], y)


def as_transformer(path: Any) -> None:
    as_model({"estimator": "sklearn.linear_model:Ridge", "target_transform": {"transformer": path}})


def as_strategy(path: Any) -> None:
    as_spec({"strategy": path})


def as_splitter(path: Any) -> None:
    as_spec({"strategy": "FromSklearn", "params": {"splitter": path}})


def as_spec(fields: Any) -> None:
    """Split a few rows by a specification of a request."""
    import numpy as np
    from evenfold.manifests import read_spec

    made = read_spec(fields).splitter()
    list(made.split(np.zeros((20, 1)), np.arange(20) % 2))


def as_nested_strategy(path: Any) -> None:
    as_spec({"strategy": "Repeated", "params": {"strategy": {"strategy": path}, "n_repeats": 2}})


def as_yaml(line: Any) -> None:
    from evenfold.manifests import read_spec

    read_spec(Path("attack.yaml"))


def as_document(text: Any) -> None:
    """Read a file as a specification, as a model and as a grid: the first of them that takes it is enough."""
    from evenfold.estimates import ModelError, ModelSpec
    from evenfold.estimates.selection import grid_of
    from evenfold.splitters import SplitError

    refused = []
    for read in (lambda path: as_spec(path), ModelSpec.read, grid_of):
        try:
            read(Path("attack.yaml"))
        except (SplitError, ModelError) as error:
            refused.append(error)
    if len(refused) == 3:
        raise refused[0]


def _tags(name: str, text: str) -> dict[str, str]:
    return {f"evenfold.{name}": text}


def as_recipe_tag(text: Any) -> None:
    from evenfold.estimates import ModelSpec
    from evenfold.tasks.record.models.versions import Tags

    recipe = Tags.of(_tags("model", text), "version 3 of flights").model
    if recipe is not None and recipe.estimator is not None:
        as_model(ModelSpec.of_others(recipe.model_dump(), ModelSpec()))


def as_decision_tag(text: Any) -> None:
    from datetime import date

    from evenfold.estimates.promotion import Contrast, EarlierLook, decide, to_spend
    from evenfold.tasks.record.models.versions import Tags

    decision = Tags.of(_tags("decision", text), "run 1f").decision
    if decision is not None:
        looks = [EarlierLook.of(decision, date.today())]
        spend = to_spend(looks, date.today())
        assert 0 <= spend <= 0.05
        decide("r2", Contrast(0.1, 0.1, 5), True, error=spend, pair=decision.pair, earlier=looks)


def as_scores_tag(text: Any) -> None:
    from evenfold.estimates import Estimate
    from evenfold.tasks.record.models.versions import Tags

    for score in Tags.of(_tags("scores", text), "version 3 of flights").scores:
        score.fall(Estimate("r2", score.method, 0.5, sd=None, se=None, n_splits=3), lambda: None)


def forge(change: tuple[str, Any]) -> None:
    """Write a manifest whose header says something else, in the file, in its copy, and with digests that fit."""
    import hashlib
    import shutil

    import pyarrow.parquet as pq

    folder = Path("forged")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(json.loads(Path("manifests.json").read_text())["KFold"], folder)
    header = json.loads((folder / "manifest.json").read_text()) | {change[0]: change[1]}
    said = {name: value for name, value in header.items() if name != "files"}
    for entry in header["files"]:
        table = pq.read_table(folder / entry["path"]).replace_schema_metadata({b"evenfold": json.dumps(said).encode()})
        pq.write_table(table, folder / entry["path"])
        entry["sha256"] = hashlib.sha256((folder / entry["path"]).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(header))


def as_header(change: Any) -> None:
    from evenfold.manifests import read_manifest
    from evenfold.tasks.outcomes import SplitRef

    manifest = read_manifest(Path("forged"))
    SplitRef.of(manifest)
    manifest.splitter.get_params()
    repr(manifest)


def as_manifest(path: Any) -> None:
    """Use the strategy that a manifest on disk names, as measuring and extending it do."""
    from evenfold.manifests import read_manifest

    read_manifest(Path(json.loads(Path("manifests.json").read_text())[path])).splitter.get_params()


def as_registry(path: Any) -> None:
    """Use the recipe in a registry's tag, as a retraining does with the champion's."""
    from evenfold.estimates import ModelSpec

    fields = {"estimator": path} if isinstance(path, str) else path
    as_model(ModelSpec.of_others(json.loads(json.dumps(fields)), ModelSpec()))


DOORS: dict[str, tuple[Callable[[Any], None], list[Any]]] = {
    "estimator": (as_estimator, PATHS),
    "model": (as_model, MODELS),
    "transformer": (as_transformer, PATHS),
    "strategy": (as_strategy, PATHS),
    "splitter": (as_splitter, PATHS),
    "nested strategy": (as_nested_strategy, PATHS),
    "spec": (as_spec, SPECS),
    "yaml": (as_yaml, YAML),
    "manifest": (as_manifest, PATHS),
    "registry": (as_registry, [*PATHS, *MODELS]),
    "document": (as_document, DOCUMENTS),
    "recipe tag": (as_recipe_tag, [*TEXTS, *documents_of(MODEL)]),
    "decision tag": (as_decision_tag, [*TEXTS, *documents_of(DECISION)]),
    "scores tag": (as_scores_tag, [*TEXTS, *(f"[{each}]" for each in documents_of(SCORE))]),
    "changed model": (as_model, list(changed(MODEL))),
    "changed spec": (as_spec, [*changed(SPEC), *(SPEC | {"columns": each} for each in changed(COLUMNS))]),
    "header": (as_header, forged_headers()),
}
# What lies in a file before the door is opened.
BEFORE: dict[str, Callable[[Any], object]] = {
    "yaml": Path("attack.yaml").write_text,
    "document": lambda text: Path("attack.yaml").write_text(text, encoding="utf-8"),
    "header": forge,
}
HARMLESS: list[tuple[Callable[[Any], None], Any]] = [
    (as_estimator, "sklearn.linear_model:Ridge"),
    (as_estimator, "sklearn.linear_model.Ridge"),
    (as_transformer, "sklearn.preprocessing:PowerTransformer"),
    (as_strategy, "KFold"),
    (as_splitter, "sklearn.model_selection:KFold"),
    (as_splitter, "sklearn.model_selection.KFold"),
    (as_nested_strategy, "KFold"),
    (as_registry, "sklearn.linear_model:Ridge"),
    (as_manifest, "KFold"),
    (as_model, {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2", "neg_mean_absolute_error"]}),
    (as_recipe_tag, json.dumps(MODEL)),
    (as_decision_tag, json.dumps(DECISION)),
    (as_scores_tag, json.dumps([SCORE])),
    (as_document, "strategy: KFold"),
]


def _short(payload: Any) -> str:
    try:
        return repr(payload)[:120]
    except RecursionError:
        return "very deep"


def attacked(watch: Watch, kind: str, only: list[str]) -> list[dict[str, Any]]:
    door, payloads = DOORS[kind]
    told = []
    for i, payload in enumerate(payloads):
        if only and payload not in only:
            continue
        if kind in BEFORE:
            BEFORE[kind](payload)
        watch.seen, watch.on, answer = [], True, "accepted"
        try:
            door(payload)
        except Exception as error:
            answer = f"{type(error).__module__}.{type(error).__name__}: {error}"
        finally:
            watch.on = False
        told.append({"i": i, "payload": _short(payload), "answer": answer[:300], "seen": watch.seen})
    return told


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    watch = Watch()
    Path("attack.yaml").write_text("strategy: KFold")
    warmed_up()
    told: dict[str, Any] = {kind: attacked(watch, kind, []) for kind in DOORS}
    told["marks"] = [str(mark) for mark in Path().rglob("*.ran")]
    del os.environ["PREFECT__FLOW_RUN_ID"]
    told["at a terminal"] = attacked(watch, "estimator", ["evil:X", "os:system"])
    sys.stdout.write(json.dumps(told))
