"""What librdkafka logs of a publisher, less what is no trouble."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["PUBLISHER_LOG"]

_TAKEN_OVER: Final = "fenced by a newer instance"


def _is_trouble(record: logging.LogRecord) -> bool:
    return _TAKEN_OVER not in record.getMessage()


PUBLISHER_LOG: Final = logging.getLogger(__name__)
"""Drops that a newer publisher took over: it is a `FencedError`, after which is tried again, and no fatal error.

A client hands its lines over while it is polled.
"""

PUBLISHER_LOG.addFilter(_is_trouble)
