"""The suite that any splitter can be checked with: what it promises must be true."""

from .protocol import CHECKS, Check, check_conformance, data_for, failures

__all__ = ["CHECKS", "Check", "check_conformance", "data_for", "failures"]
