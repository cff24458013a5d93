"""The one error that every strategy raises."""


class SplitError(ValueError):
    """Rows cannot be split as asked: what is wrong, in numbers, then what would work."""
