"""The flow that retrains."""

from __future__ import annotations

from functools import partial

from evenfold.flows import definitions
from evenfold.flows.evaluation import check_evaluation
from evenfold.flows.flow import published

retrain = published(partial(check_evaluation, in_batches=True))(definitions.retrain)
