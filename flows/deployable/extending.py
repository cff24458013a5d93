"""The flow that lets new rows join a split."""

from __future__ import annotations

from evenfold.flows import definitions
from evenfold.flows.flow import published
from evenfold.flows.splitting import check_extension

extend = published(check_extension)(definitions.extend)
