"""RocksDB's settings, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, WriteOptions

__all__ = ["RocksDBOptions"]


@dataclass(frozen=True)
class RocksDBOptions:
    """Settings of one store.

    Args:
        block_cache_bytes: memory for blocks read; 64 MiB as in Kafka Streams, whose default is 50.
        write_buffer_bytes: memory of one memtable.
        max_write_buffers: memtables before writes wait.
        block_bytes: size of a block on disk.
        bloom_bits_per_key: of the filters that spare reads for keys that are not there.
        max_background_jobs: threads that flush and compact.
    """

    block_cache_bytes: int = 64 << 20
    write_buffer_bytes: int = 32 << 20
    max_write_buffers: int = 3
    block_bytes: int = 4 << 10
    bloom_bits_per_key: int = 10
    max_background_jobs: int = 2

    def to_options(self) -> Options:
        """As rocksdict wants them; keys and values stay raw bytes."""
        table = BlockBasedOptions()
        table.set_block_cache(Cache(self.block_cache_bytes))
        table.set_block_size(self.block_bytes)
        table.set_bloom_filter(float(self.bloom_bits_per_key), False)  # type: ignore[arg-type]
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_size(self.write_buffer_bytes)
        options.set_max_write_buffer_number(self.max_write_buffers)
        options.set_max_background_jobs(self.max_background_jobs)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(1 << 20)
        options.set_stats_dump_period_sec(0)
        return options

    @staticmethod
    def to_write_options() -> WriteOptions:
        """Through the WAL, not synced: it outlives a killed process, and the changelog outlives a lost host."""
        options = WriteOptions()
        options.sync = False
        return options
