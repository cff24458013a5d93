"""New rows join a manifest; no assigned row moves."""
