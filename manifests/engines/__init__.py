"""Splits of tables that do not fit into memory: the same folds, decided out of core or on a cluster."""
