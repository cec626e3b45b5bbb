"""Where the log of the kit's own Kafka clients goes: nowhere, since what matters comes as an error or a result."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["SILENT"]

SILENT: Final = logging.Logger("airflow_provider.kit", level=logging.CRITICAL + 1)
"""A logger that drops everything, such as the warnings of a client whose broker is only just starting."""
