"""What was decided: specification, identity, manifest and balance. Pure."""
