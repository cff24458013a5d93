"""The flow that retrains."""

from __future__ import annotations

from evenfold.flows import definitions
from evenfold.flows.evaluation import check_evaluation
from evenfold.flows.flow import published

retrain = published(check_evaluation)(definitions.retrain)
