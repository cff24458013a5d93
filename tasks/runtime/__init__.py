"""What steps run on: the home, engines, locks, and an end for orphaned processes."""
