"""The forms that folds leave in, by the words of --to: a command names them without loading what writes them."""

from __future__ import annotations

from typing import Literal

Format = Literal[
    "sklearn", "h2o", "spark", "nnunet", "csv", "groups", "autogluon", "torch", "vertex", "databricks", "bigquery",
    "croissant", "sql",
]  # fmt: skip
Dialect = Literal["duckdb", "spark", "bigquery", "snowflake", "postgres"]
