"""Prefect tasks whose results are named by content, how flows run them, and what they tell Prefect."""
