"""This project's own flows."""
