"""Queries of Nexmark as one application. Arguments: its id; the queries, where it is not named after its only one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_provider.streaming import RocksDBOptions, StatefulJob, run


def job_of(
    application_id: str, queries: Sequence[str] = (), batch: int | None = None, store_mb: int | None = None
) -> StatefulJob:
    """The job.

    Args:
        application_id: the query's name, where no others are given.
        queries: what it answers; topics and stores keep the names that they have where a query is alone.
        batch: how many records a micro-batch of a stage may hold; None for the default.
        store_mb: what the block cache and the write buffers of a task may hold, half of it each; None for the defaults.
    """
    from tests.nexmark.queries import QUERIES

    jobs = [QUERIES[query]() for query in queries or [application_id]]
    job = StatefulJob(application_id, *(sink for one in jobs for sink in one.sinks))
    rocksdb = None
    if store_mb is not None:
        buffers = RocksDBOptions.max_write_buffers
        half = (store_mb << 20) // 2
        rocksdb = RocksDBOptions(block_cache_bytes=half, write_buffer_bytes=half // buffers)
    return job.options(max_offsets_per_trigger=batch, rocksdb=rocksdb)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("application_id")
    parser.add_argument("queries", nargs="*")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--store-mb", type=int)
    run(job_of(**vars(parser.parse_args())))
