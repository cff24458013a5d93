"""The flow that splits."""

from __future__ import annotations

from evenfold.flows import definitions
from evenfold.flows.flow import published
from evenfold.flows.splitting import check_split

split = published(check_split)(definitions.split)
