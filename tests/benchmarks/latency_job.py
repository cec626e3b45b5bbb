"""Keeps the time of the newest order of each customer: what comes out says when it went in."""

import argparse

from airflow_provider.streaming import RocksDBOptions, StatefulJob, run, stream
from airflow_provider.streaming import functions as F

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("id")
parser.add_argument("source", nargs="?", default="orders")
parser.add_argument("sink", nargs="?", default="newest")
parser.add_argument("--cache-mib", type=int, default=64, help="memory for each task's blocks read")
arguments = parser.parse_args()
job = StatefulJob(
    arguments.id,
    stream(arguments.source, schema="customer STRING, at BIGINT", key="customer")
    .group_by("customer")
    .aggregate(F.max("at").alias("at"), F.count().alias("orders"), name="state")
    .sink(arguments.sink),
).options(rocksdb=RocksDBOptions(block_cache_bytes=arguments.cache_mib << 20))

if __name__ == "__main__":
    run(job)
