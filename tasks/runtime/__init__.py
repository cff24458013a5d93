"""What steps run on: the home, settings, files, locks and limits."""
