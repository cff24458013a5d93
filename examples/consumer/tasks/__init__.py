"""This project's own tasks."""
