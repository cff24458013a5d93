"""Metrics: losses of rows, influence, and what no information would score."""
