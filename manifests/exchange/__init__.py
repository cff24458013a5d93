"""Manifests in the formats of others, and the difference between two of them."""
