"""What every error of the package is, and the one that every strategy raises."""


class EvenfoldError(Exception):
    """Every error that evenfold raises on purpose is one: its message is a sentence, fit to be shown to who asked.

    Each is also a ValueError (what was given is at fault) or a RuntimeError (it was fine, and something failed). Two
    verdicts are told in the words of others: a SplitSpec or ModelSpec that is made of bad fields raises pydantic's
    ValidationError, and a conformance check raises AssertionError. What else is no EvenfoldError nobody meant to raise.
    """


class SplitError(EvenfoldError, ValueError):
    """Rows cannot be split as asked: what is wrong, in numbers, then what would work."""
