"""The flow that evaluates."""

from __future__ import annotations

from evenfold.flows import definitions
from evenfold.flows.evaluation import check_evaluation
from evenfold.flows.flow import published

evaluate = published(check_evaluation)(definitions.evaluate)
