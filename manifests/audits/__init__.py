"""Faults of a split, in sentences with numbers, and the gates that stop on them."""
