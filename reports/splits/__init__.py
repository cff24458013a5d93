"""The page of a split: its numbers, its pictures, and what it says."""
