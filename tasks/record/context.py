"""Which split a project's own MLflow runs use: any run that ``mlflow.start_run`` begins is tagged with it.

MLflow imports this file in every process that begins a run, so it imports nothing of ours: what was joined is asked of
the modules that are loaded already.
"""

from __future__ import annotations

import os
import sys

from mlflow.tracking.context.abstract_context import RunContextProvider


class SplitContext(RunContextProvider):  # type: ignore[misc]
    """The split that this process joined to data last (``as_cv``, ``fold_of``, ``train_test``), or ``EVENFOLD_SPLIT``.

    ``EVENFOLD_SPLIT`` is what a person writes for code that reads folds from a column: ``flights@1.0``, or a split_id.
    """

    def in_context(self) -> bool:
        """Return whether a split is in use."""
        return bool(self.tags())

    def tags(self) -> dict[str, str]:
        """Return the tags by which every run on a split is found."""
        manifests = sys.modules.get("evenfold.manifests.manifest")
        used = manifests.last_joined() if manifests is not None else None
        if used is not None:
            named = f"{used.name}@{used.version}"
            return {"split": used.split_id[:12], "spec": named, "evenfold.split_id": used.split_id}
        given = os.environ.get("EVENFOLD_SPLIT", "")
        if len(given) == 64 and not set(given) - set("0123456789abcdef"):
            return {"split": given[:12], "evenfold.split_id": given}
        return {"spec": given} if given else {}
