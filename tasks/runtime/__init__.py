"""What steps run on: the home, settings, files, locks, limits, and an end for orphaned processes."""
