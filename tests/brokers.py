"""Brokers of the tests' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider.kit.settings import BrokerSettings
from tests.class_archive import java_options


def settings_of_broker(directory: Path, **others: Any) -> BrokerSettings:
    """On free ports, gone with the process that starts it; `others` are further fields of its settings."""
    # A broker that lives for minutes does not win back what Java's second compiler costs it: a third of its start.
    quick_start = ("-XX:TieredStopAtLevel=1", *java_options("broker"))
    return BrokerSettings.on_free_ports(directory, die_with_parent=True, java_options=quick_start, **others)
