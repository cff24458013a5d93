"""The flow that retrains."""

from __future__ import annotations

from typing import Any

from evenfold.flows import definitions
from evenfold.flows.evaluation import check_evaluation
from evenfold.flows.flow import published
from evenfold.tasks.splits import name_of, specification
from evenfold.tasks.steps.telling import tell_of

retrain = published(check_evaluation)(definitions.retrain)


@retrain.on_failure
def _failed(flow: Any, flow_run: Any, state: Any) -> None:  # noqa: ARG001 (a hook has these three)
    """Tell Prefect once that a retraining has failed for good, after every retry, and why."""
    data, spec, name = (flow_run.parameters.get(asked) for asked in ("data", "spec", "name"))
    try:
        name = specification(data, spec, name=name).name
    except Exception:  # that may be why it failed
        name = name or name_of(data)
    tell_of("retrain.failed", name, str(state.message), flow_run=str(flow_run.id))
