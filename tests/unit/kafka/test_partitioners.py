from __future__ import annotations

import zlib

import pytest

from airflow_provider.kafka.partitioners import PARTITIONERS, by_crc32, by_murmur2


def test_keys_of_many_lengths_come_to_the_partitions_that_each_has_alone() -> None:
    keys = [bytes(range(length)) * times for length in range(1, 9) for times in (1, 2)] + [b"", b"ann", b"\xff" * 21]

    together = by_murmur2(keys, 7).tolist()

    assert together == [int(by_murmur2([key], 7)[0]) for key in keys]
    assert len(set(together)) == 7


def test_crc32_is_taken_without_a_sign() -> None:
    keys = [b"ann", b"bob", b"cara"]

    assert by_crc32(keys, 5).tolist() == [zlib.crc32(key) % 5 for key in keys]
    assert min(by_crc32(keys, 5)) >= 0


@pytest.mark.parametrize("name", PARTITIONERS)
def test_no_keys_have_no_partitions(name: str) -> None:
    assert PARTITIONERS[name]([], 3).tolist() == []
