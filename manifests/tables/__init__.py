"""Tables in: reading files, canonical columns, and finding keys."""
