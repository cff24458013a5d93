"""The flow that tunes."""

from __future__ import annotations

from evenfold.flows import definitions
from evenfold.flows.flow import published
from evenfold.flows.tuning import check_tuning

tune = published(check_tuning)(definitions.tune)
