"""Why an acceptance run ends."""

__all__ = ["AcceptanceError"]


class AcceptanceError(Exception):
    """Something that is promised did not come true; the text says what was seen instead."""
