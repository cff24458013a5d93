"""The leak bench: planted leaks and clean tables, our audit beside others'."""
