"""Splits of data as a first-class step for scheduled retraining with Prefect and MLflow."""
