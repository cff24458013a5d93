"""Splits of any size: decided, measured, audited and joined wherever their rows lie, with the same figures."""
