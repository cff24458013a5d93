"""Prefect tasks around pure calls, and the record in MLflow."""
