"""Which partition a key belongs to, by the rule of Kafka's Java clients."""

from __future__ import annotations

from airflow_provider.kafka.partitioners import by_murmur2


def partition_of(key: bytes | None, partitions: int) -> int:
    """The partition of a key: murmur2, made positive, modulo their number.

    Args:
        key: of the record; None goes to partition 0, while Kafka takes any.
    """
    return 0 if key is None or partitions == 1 else int(by_murmur2([key], partitions)[0])
