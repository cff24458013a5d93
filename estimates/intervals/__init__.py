"""Intervals of an estimate."""
