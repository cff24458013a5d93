"""Which split a project's own MLflow runs use: the run that is active when folds are taken is tagged with it.

MLflow imports this file in every process that begins a run, so it imports nothing of ours but what is as light.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from typing import Any

from evenfold.splitters.errors import bind
from mlflow.tracking.context.abstract_context import RunContextProvider


class SplitContext(RunContextProvider):  # type: ignore[misc]
    """The split that ``EVENFOLD_SPLIT`` names: ``flights@1.0``, or a split_id.

    A person writes it for code that reads folds from a column. The run that is active when ``as_cv``, ``fold_of`` or
    ``train_test`` gives folds is told by these.
    """

    def in_context(self) -> bool:
        """Return whether a split is named."""
        return bool(self.tags())

    def tags(self) -> dict[str, str]:
        """Return the tags by which every run on a split is found."""
        reference = os.environ.get("EVENFOLD_SPLIT", "")
        if len(reference) == 64 and not set(reference) - set("0123456789abcdef"):
            return {"split": reference[:12], "evenfold.split_id": reference}
        return {"spec": reference} if reference else {}


def _tag(used: Any) -> None:
    import mlflow

    run = mlflow.active_run()
    if run is not None and hasattr(used, "split_id"):
        with suppress(Exception):  # a store that is out of reach for a tag does not keep folds from the user
            _told(run.info.run_id, used.split_id, f"{used.name}@{used.version}")


@lru_cache(maxsize=64)
def _told(run_id: str, split_id: str, spec: str) -> None:
    import mlflow

    mlflow.set_tags({"split": split_id[:12], "spec": spec, "evenfold.split_id": split_id})


bind(hear=_tag)
