from __future__ import annotations

import pytest

from airflow_provider.testing.partitioner import partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # What Kafka's Java clients compute.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
@pytest.mark.parametrize("partitions", [2, 7, 2**31])
def test_partition_is_the_one_that_java_clients_choose(key: bytes, hashed: int, partitions: int) -> None:
    assert partition_of(key, partitions) == (hashed & 0x7FFFFFFF) % partitions


def test_record_without_a_key_goes_to_the_first_partition() -> None:
    assert partition_of(None, 5) == 0
