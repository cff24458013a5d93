"""Holdouts that are looked at more than once: what a look is still worth, and answers that do not wear out."""
