"""The suite that any splitter can be checked with: what it promises must be true."""

from . import promises as promises  # registers the checks
from .checks import CHECKS, Check, check, check_conformance, failures
from .data import trial_of

__all__ = ["CHECKS", "Check", "check", "check_conformance", "failures", "trial_of"]
