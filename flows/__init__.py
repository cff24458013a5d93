"""The order of tasks, and the command line."""
