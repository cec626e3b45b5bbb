from __future__ import annotations

import logging

import pytest

from airflow_provider.control.topics.publisher import PUBLISHER_LOG


def test_take_over_by_a_newer_publisher_alone_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    fenced = "Fatal error: Local: This instance has been fenced by a newer instance: Failed to add partitions"
    refused = "127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused"

    for level, line in ((logging.CRITICAL, fenced), (logging.ERROR, refused)):
        PUBLISHER_LOG.log(level, "%s [%s] [thrd:main]: %s", "FAC", "app-publisher#producer-1", line)

    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith("Connection refused")
