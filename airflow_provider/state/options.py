"""RocksDB's settings, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, MemtableFactory, Options, WriteOptions

from airflow_provider.errors import ConfigurationError

_BULK_FILES: Final = 16
"""Files of level 0 that are left as they are in a large restore: 512 MB of memtables."""


def check_whole_numbers(settings: Any) -> None:
    """Refuse a dataclass of a store's settings one of which is no whole number above 0.

    Raises:
        ConfigurationError: it names the settings and the one.
    """
    for name, value in asdict(settings).items():
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise ConfigurationError(
                f"{type(settings).__name__} got {name}={value!r}: it must be a whole number above 0."
            )


@dataclass(frozen=True, kw_only=True)
class RocksDBOptions:
    """Settings of each store of a task; the block cache and the threads are shared by them.

    Args:
        block_cache_bytes: memory for blocks read; 64 MiB as in Kafka Streams, whose default is 50.
        bloom_bits_per_key: of the filters that spare reads for keys that are not there.
        bulk_write_buffer_bytes: memory of one memtable in a large restore.
        bulk_max_write_buffers: memtables before its writes wait.

    Raises:
        ConfigurationError: one is no whole number above 0.
    """

    block_cache_bytes: int = 64 << 20
    write_buffer_bytes: int = 32 << 20
    max_write_buffers: int = 3
    block_bytes: int = 4 << 10
    bloom_bits_per_key: int = 10
    max_background_jobs: int = 2
    bulk_write_buffer_bytes: int = 32 << 20
    bulk_max_write_buffers: int = 4

    def __post_init__(self) -> None:
        check_whole_numbers(self)

    def to_options(self, bulk: bool = False) -> Options:
        """As rocksdict wants them; keys and values stay raw bytes.

        Args:
            bulk: for a large restore, in which nothing is read: the memtable is an unsorted vector, sorted once when
                it is flushed, nothing is compressed, and nothing is compacted before there are many files.
        """
        table = BlockBasedOptions()
        table.set_block_cache(Cache(self.block_cache_bytes))
        table.set_block_size(self.block_bytes)
        table.set_bloom_filter(self.bloom_bits_per_key, False)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        # Without the WAL the position, which has a family of its own, must not reach the disk before the data.
        options.set_atomic_flush(True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_size(self.write_buffer_bytes)
        options.set_max_write_buffer_number(self.max_write_buffers)
        options.set_max_background_jobs(self.max_background_jobs)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(1 << 20)
        options.set_stats_dump_period_sec(0)
        if bulk:
            options.set_write_buffer_size(self.bulk_write_buffer_bytes)
            options.set_max_write_buffer_number(self.bulk_max_write_buffers)
            options.set_memtable_factory(MemtableFactory.vector())
            options.set_allow_concurrent_memtable_write(False)
            options.set_compression_type(DBCompressionType.none())
            options.set_level_zero_file_num_compaction_trigger(_BULK_FILES)
            # Below the number at which the normal way would stop writes when it opens the store again.
            options.set_level_zero_slowdown_writes_trigger(_BULK_FILES + 12)
            options.set_level_zero_stop_writes_trigger(_BULK_FILES + 16)
        return options

    @staticmethod
    def to_write_options(bulk: bool = False) -> WriteOptions:
        """Through the WAL, not synced: it outlives a killed process, and the changelog outlives a lost host.

        Args:
            bulk: without the WAL. A crash then loses the newest writes together with the position after them, and the
                restore goes on from an earlier one.
        """
        options = WriteOptions()
        options.sync = False
        options.disable_wal = bulk  # type: ignore[method-assign, assignment]  # a property, whatever its stub says
        return options
