"""The record in MLflow: the only place that imports it."""
