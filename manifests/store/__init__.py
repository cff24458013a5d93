"""The folder on disk: written whole or not at all, read back and verified."""
