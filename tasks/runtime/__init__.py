"""Services of steps: the home, settings, files, locks and limits."""
