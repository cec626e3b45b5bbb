"""What is reported of an error: its text, bounded."""

from __future__ import annotations

from typing import Final

MAX_ERROR_CHARS: Final = 2000
"""Of an error's text in a status, an incident, a dead letter or a log line.

A status of the control topics holds one for each task and has to fit into a Kafka record.
"""

_TAIL_CHARS: Final = 300


def error_text(error: BaseException) -> str:
    """The text of an error, whatever it is, in at most `MAX_ERROR_CHARS`."""
    try:
        return bounded(str(error))
    except Exception as why:  # a user's error may not even be able to say what it is
        return f"its text cannot be read: str() raised {type(why).__name__}"


def error_line(error: BaseException) -> str:
    """The class and the text of an error, in one line, for a terminal."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def bounded(text: str, limit: int = MAX_ERROR_CHARS) -> str:
    """A text of at most `limit` characters that can be encoded: what a long one leaves out is from its middle.

    Args:
        text: of any length; lone surrogates become question marks.
    """
    if len(text) > limit:
        note = f" ... ({len(text):,} characters in all) ... "
        tail = min(_TAIL_CHARS, limit // 4)
        text = text[: max(0, limit - tail - len(note))] + note + text[len(text) - tail :]
    return text.encode("utf-8", "replace").decode("utf-8")


class LastReported:
    """Which error was reported last, so that one that comes again and again is a line in the log once."""

    def __init__(self) -> None:
        self._last = ""

    def is_news(self, error: BaseException) -> bool:
        """Whether it is another one than the last, which it is from now on."""
        before, self._last = self._last, repr(error)
        return before != self._last

    def over(self) -> None:
        """It works again: the next error is news, whichever it is."""
        self._last = ""
