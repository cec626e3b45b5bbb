"""A job that is built from its sinks, in the tester."""

from __future__ import annotations

from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.testing import JobTester

ORDERS = stream("orders", schema="customer STRING, country STRING, amount INT", key="customer")
SPENT = F.sum("amount").alias("spent")
JOB = StatefulJob(
    "shop",
    ORDERS.group_by("customer").aggregate(SPENT).sink("spent-per-customer"),
    ORDERS.group_by("country", partitions=3).aggregate(SPENT).sink("spent-per-country"),
)


def test_each_sink_has_its_own_stages_over_the_same_records() -> None:
    with JobTester(JOB, partitions=2) as tester:
        tester.pipe_inputs(
            [
                {"customer": "a", "country": "AT", "amount": 1},
                {"customer": "b", "country": "AT", "amount": 2},
                {"customer": "a", "country": "IT", "amount": 4},
            ]
        )
        tester.promote_standby()
        tester.pipe_input({"customer": "b", "country": "IT", "amount": 8})

        assert tester.states("spent-per-customer") == {"a": {"spent": 5}, "b": {"spent": 10}}
        assert tester.states("spent-per-country") == {"AT": {"spent": 3}, "IT": {"spent": 12}}
        last = {record.key: record.value["spent"] for record in tester.read_output("spent-per-country")}
        assert last == {"AT": 3, "IT": 12}
        assert tester.counts.processed == 4


def test_rows_are_counted_of_which_nothing_but_the_key_goes_on() -> None:
    counts = ORDERS.group_by("country").aggregate(F.count().alias("orders"), combine=False)
    with JobTester(StatefulJob("shop", counts.sink("orders-per-country"))) as tester:
        tester.pipe_inputs([{"customer": "a", "country": country} for country in ("AT", "IT", "AT")])
        assert tester.states() == {"AT": {"orders": 2}, "IT": {"orders": 1}}
