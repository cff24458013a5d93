"""How the flows run on a schedule."""
