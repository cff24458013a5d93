"""The registry of models: what is kept of one, what has to hold before one is promoted, and its aliases."""
