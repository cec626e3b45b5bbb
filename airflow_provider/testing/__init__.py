"""Tests a job without Kafka and without a cluster, through the code that processes it in production.

::

    from airflow_provider.testing import JobTester

    def test_totals():
        with JobTester(job) as tester:
            tester.pipe_input({"customer": "ann", "amount": 2.0})
            tester.pipe_input({"customer": "ann", "amount": 3.0})
            assert tester.read_output()[-1].value == {"customer": "ann", "orders": 2, "spent": 5.0}
            assert tester.state("ann") == {"orders": 2, "spent": 5.0}

A worker's slot runs in the test's process, with real RocksDB stores in a temporary folder; its two Kafka clients write
to and read from memory. A job without `filter` and `with_column`, whose schema has plain types only, needs no Spark: a
record takes milliseconds. Other jobs run these steps in a local Spark session, which the first of them starts (some
seconds) and the others of the process share. What is not here: Spark's Kafka source, brokers, timing, snapshots.
"""

from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.testing.batching import check_batching
from airflow_provider.testing.job_tester import JobTester
from airflow_provider.testing.records import Counts, InputRecord, OutputRecord
from airflow_provider.testing.store_check import check_store

__all__ = ["Counts", "DeadLetter", "InputRecord", "JobTester", "OutputRecord", "check_batching", "check_store"]
