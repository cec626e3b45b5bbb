from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.errors import ConfigurationError

MIB = 1 << 20


@pytest.mark.parametrize("record_bytes", [1, 100, 10_000, MIB, 100 * MIB])
def test_records_in_hand_fit_a_quarter_of_the_memory_whatever_their_size(record_bytes: int) -> None:
    settings = RestoreSettings(memory_bytes=256 * MIB)

    number = settings.poll_records(record_bytes)

    assert 1 <= number <= 10_000
    assert number == 1 or number * record_bytes <= 64 * MIB


def test_first_take_is_small_because_nothing_is_known_yet() -> None:
    assert RestoreSettings().poll_records(None) == 500
    assert RestoreSettings(max_poll_records=20).poll_records(None) == 20


def test_parts_of_the_memory_add_up_to_its_bound() -> None:
    settings = RestoreSettings(memory_bytes=64 * MIB)

    memtables = settings.write_buffer_bytes * settings.max_write_buffers
    assert settings.queue_bytes + memtables + settings.memory_bytes // 4 == settings.memory_bytes
    assert settings.to_consumer_config()["queued.max.messages.kbytes"] == 16 * 1024


def test_answer_holds_what_a_partition_may_fetch() -> None:
    config = RestoreSettings(max_partition_fetch_bytes=5 * MIB, fetch_max_bytes=MIB).to_consumer_config()

    assert config["fetch.max.bytes"] >= config["fetch.message.max.bytes"] == 5 * MIB


@pytest.mark.parametrize("bad", [{"max_poll_records": -1}, {"memory_bytes": MIB}, {"max_bytes_per_s": 0}])
def test_settings_that_cannot_be_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        RestoreSettings(**bad)
