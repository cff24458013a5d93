"""What is wrong with a split, in sentences with numbers, and the gates that stop on it."""
