"""Splits and evaluations told to OpenLineage, where EVENFOLD_OPENLINEAGE asks for it, beside the record in MLflow.

The client finds its backend by its own settings (OPENLINEAGE_URL, openlineage.yml). Datasets are named by OpenLineage's
rules: a file is namespace ``file`` and its path, an object ``s3://bucket`` and its key; a split is namespace
``evenfold`` and ``name/version``. A run's id follows from what was made, so the same work is the same run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from evenfold.estimates import Estimate
from evenfold.manifests import BalanceReport
from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import SplitRef
from evenfold.tasks.runtime.redaction import redacted
from evenfold.tasks.runtime.settings import Settings

if TYPE_CHECKING:
    from openlineage.client.event_v2 import OutputDataset

NAMESPACE = "evenfold"


def require_client() -> None:
    """Raise SplitError where lineage is asked for and its client is not installed: before anything is recorded."""
    if not Settings.here().openlineage:
        return
    try:
        import openlineage.client  # noqa: F401
    except ImportError:
        raise SplitError(
            "EVENFOLD_OPENLINEAGE is on, and openlineage-python is not installed; install evenfold[openlineage], or "
            "unset the variable."
        ) from None


def tell_split(split: SplitRef, report: BalanceReport) -> None:
    """Tell that a split was made of its data, with its identity and balance."""
    facts = {
        "split_id": split.split_id,
        "plan_id": split.plan_id,
        "strategy": split.strategy,
        "rows": split.n_rows,
        "splits": split.n_splits,
        "worst": dict(report.worst),
    }
    _tell(f"split {split.name}", f"{_name(split)}/{split.split_id}", [_data(split)], made=(split, facts))


def tell_evaluation(split: SplitRef, recipe: str, key: str, estimates: Sequence[Estimate], failure: str | None) -> None:
    """Tell that a recipe was evaluated on a split and its data: the estimates, or the sentence why there are none."""
    figures = [
        {"metric": estimate.metric, "method": estimate.method, "value": estimate.value}
        | ({name: getattr(estimate.interval, name) for name in ("low", "high", "level")} if estimate.interval else {})
        for estimate in estimates
    ]
    read = [_data(split), (NAMESPACE, _name(split))]
    _tell(f"evaluate {recipe} on {split.name}", key, read, figures=figures, failure=failure)


def _name(split: SplitRef) -> str:
    return f"{split.name}/{split.version}"


def _data(split: SplitRef) -> tuple[str, str]:
    place = urlsplit(redacted(split.data))
    if place.netloc:
        return f"{place.scheme}://{place.netloc}", place.path.lstrip("/")
    return "file", place.path if place.scheme else str(Path(split.data).absolute())


def _tell(
    job: str,
    made_of: str,
    read: Sequence[tuple[str, str]],
    *,
    made: tuple[SplitRef, dict[str, object]] | None = None,
    figures: Sequence[Mapping[str, object]] = (),
    failure: str | None = None,
) -> None:
    """Send one event of a run that has ended. A backend that does not answer is a warning: the record stands."""
    if not Settings.here().openlineage:
        return
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, Job, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import RunFacet, error_message_run

    facets: dict[str, Any] = {}
    if figures:
        facets["evenfold_estimates"] = RunFacet().with_additional_properties(estimates=list(figures))
    if failure:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(failure, "Python")
    event = RunEvent(
        eventType=RunState.FAIL if failure else RunState.COMPLETE,
        eventTime=datetime.now(UTC).isoformat(),
        run=Run(str(uuid5(NAMESPACE_URL, f"evenfold://{made_of}")), facets),
        job=Job(NAMESPACE, job),
        producer=f"urn:evenfold:{version('evenfold')}",
        inputs=[InputDataset(namespace, name) for namespace, name in read],
        outputs=[] if made is None else [_output(*made)],
    )
    try:
        OpenLineageClient().emit(event)
    except Exception as error:
        logging.getLogger("evenfold").warning("OpenLineage was not told: %s", redacted(str(error)))


def _output(split: SplitRef, facts: Mapping[str, object]) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import DatasetFacet, dataset_version_dataset

    facets: dict[str, Any] = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(split.split_id),
        "evenfold_split": DatasetFacet().with_additional_properties(**facts),
    }
    return OutputDataset(NAMESPACE, _name(split), facets=facets)
