"""Leaks that nobody named: checks that learn from the data, out of the manifest's own folds."""
