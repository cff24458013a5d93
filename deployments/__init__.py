"""The schedules, automations and services that run the flows."""
