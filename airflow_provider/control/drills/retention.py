"""Whether the settings of a topic explain that young records are gone from it: a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["compacts", "explains", "settings_text"]

_CLOCKS_MS: Final = 3_600_000
"""By how much the clock that timed a record may be behind."""
_NAMES: Final = ("cleanup.policy", "retention.ms", "retention.bytes")


def compacts(config: Mapping[str, str]) -> bool:
    """Whether the topic does not keep every record.

    Args:
        config: the topic's, as `TopicAdmin.describe` gives it.
    """
    return "compact" in config.get("cleanup.policy", "")


def explains(config: Mapping[str, str], age_ms: int | None) -> bool:
    """Whether compaction or retention may have removed records of an age; so also where that is not known.

    Args:
        config: the topic's, as `TopicAdmin.describe` gives it.
        age_ms: of the oldest that are gone, at the most; None where it is not known.
    """
    if age_ms is None or compacts(config):
        return True
    if "delete" not in config.get("cleanup.policy", ""):
        return False
    # How large a partition was before, nobody says.
    by_size = int(config.get("retention.bytes", "-1")) >= 0
    kept_ms = int(config.get("retention.ms", "-1"))
    return by_size or 0 <= kept_ms <= age_ms + _CLOCKS_MS


def settings_text(config: Mapping[str, str]) -> str:
    """The settings that were looked at, for a message.

    Args:
        config: the topic's.
    """
    return ", ".join(f"{name}={config.get(name)}" for name in _NAMES)
