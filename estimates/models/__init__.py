"""What is trained: its specification, the columns it reads, and the fit."""
