"""The pages of evaluations and of what is decided by them."""
