"""How a restore may use the machine: its settings, and what keeps it to a rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.errors import ConfigurationError

_MEMTABLES: Final = 4
_COPIES: Final = 2
"""Of a record in hand: the client's or the column's, and the one that is written."""
_MESSAGE_OVERHEAD_BYTES: Final = 250
"""Of a record in Python's memory, beside its bytes."""
_MAX_READ_BYTES: Final = 512 << 20
"""Of one read: an Arrow column holds 2 GiB, and records may be larger than of late."""


@dataclass(frozen=True, kw_only=True)
class RestoreSettings:
    """Settings of restoring and following, in Kafka's words where Kafka has one.

    Memory is bounded whatever the changelog holds: a quarter of `memory_bytes` is for what was fetched, a quarter for
    the records in hand, half for RocksDB's memtables.

    Args:
        max_partition_fetch_bytes: of one partition in one answer of a broker.
        fetch_max_bytes: of one answer of a broker.
        memory_bytes: bound for one task's restore; 256 MiB.
        max_bytes_per_s: bound for what each slot reads, so that a restore leaves the network and the disk to others;
            None for none. A standby whose changelog grows faster never catches up.
    """

    max_poll_records: int = 10_000
    max_partition_fetch_bytes: int = 8 << 20
    fetch_max_bytes: int = 64 << 20
    memory_bytes: int = 256 << 20
    max_bytes_per_s: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigurationError: a bound is not above 0, or the memory is too small to work with.
        """
        for name in (
            "max_poll_records",
            "max_partition_fetch_bytes",
            "fetch_max_bytes",
            "max_bytes_per_s",
        ):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"RestoreSettings.{name} is {value}: it must be above 0.")
        if self.memory_bytes < 16 << 20:
            raise ConfigurationError(
                f"RestoreSettings.memory_bytes is {self.memory_bytes:,}: at least {16 << 20:,} are needed."
            )

    @property
    def queue_bytes(self) -> int:
        """For what was fetched and not yet taken."""
        return self.memory_bytes // 4

    @property
    def write_buffer_bytes(self) -> int:
        """Of one memtable."""
        return self.memory_bytes // 2 // _MEMTABLES

    @property
    def max_write_buffers(self) -> int:
        """Memtables before writes wait."""
        return _MEMTABLES

    def poll_records(self, record_bytes: float | None) -> int:
        """How many records may be taken at once.

        Args:
            record_bytes: what a record was of late, in the mean; None before any was seen.
        """
        if record_bytes is None:
            return min(self.max_poll_records, 500)
        fit = min(self.memory_bytes // 4, _MAX_READ_BYTES) / (_COPIES * record_bytes + _MESSAGE_OVERHEAD_BYTES)
        if self.max_bytes_per_s is not None:  # not more than a second's worth at once
            fit = min(fit, self.max_bytes_per_s / max(1.0, record_bytes))
        return max(1, min(self.max_poll_records, int(fit)))

    def to_consumer_config(self) -> dict[str, int]:
        """As librdkafka wants them."""
        return {
            # Its names: a partition's bytes in an answer, and all bytes of one, which must hold a partition's.
            "fetch.message.max.bytes": self.max_partition_fetch_bytes,
            "fetch.max.bytes": max(self.fetch_max_bytes, self.max_partition_fetch_bytes),
            "queued.max.messages.kbytes": max(1, self.queue_bytes >> 10),
        }


class Throttle:
    """Says how long to wait after each piece, so that the mean rate stays below a bound. It owns no clock.

    A token bucket that holds a second's worth: who was idle may catch up for a second at full speed.
    """

    def __init__(self, max_bytes_per_s: int | None) -> None:
        self._rate = max_bytes_per_s
        self._free_at = 0.0

    def took(self, number: int, now: float) -> None:
        """Some bytes were read at `now`, seconds of a monotonic clock."""
        if self._rate is not None:
            self._free_at = max(self._free_at, now - 1.0) + number / self._rate

    def wait_s(self, now: float) -> float:
        """How long to read nothing from `now` on."""
        return max(0.0, self._free_at - now)
