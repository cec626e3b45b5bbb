from __future__ import annotations

import pytest

from airflow_provider.control.job_change import refuse_change, refuse_other_stages
from airflow_provider.control.job_description import JobDescription
from airflow_provider.control.job_text import description_text
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, stream, table
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.operations.aggregate import Aggregate

COUNT = F.count().alias("n")
ORDERS = stream("orders", schema="customer STRING, country STRING, amount DOUBLE", key="customer")
CUSTOMERS = table("customers", schema="customer STRING, city STRING", key="customer")


def per_customer(*more: Aggregate) -> Sink:
    """A stage with a store."""
    return ORDERS.group_by("customer").aggregate(COUNT, *more, name="customers").sink("per-customer")


def per_country(partitions: int | None = None, name: str = "countries") -> Sink:
    """A stage without a store, and one with."""
    return ORDERS.group_by("country", partitions=partitions).aggregate(COUNT, name=name).sink("per-country")


def large(topic: str = "large") -> Sink:
    """A stage without a store."""
    return ORDERS.filter("amount > 9", name="other").sink(topic)


def small(topic: str = "small") -> Sink:
    return ORDERS.filter("amount <= 9", name="other").sink(topic)


def described(*sinks: Sink, before: JobDescription | None = None, orders: int = 4) -> JobDescription:
    """A version of the job, as it is kept once its topics are there."""
    job: JobDescription = StatefulJob("app", *sinks).description()
    return job.with_partitions({"orders": orders, "customers": 4, "invoices": 4}).after(before)


JOIN = ORDERS.join(CUSTOMERS, on="customer").sink("with-city")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param([per_customer()], [per_customer(), per_country()], id="stages-and-a-store-added"),
        pytest.param([per_customer()], [per_customer(), JOIN], id="join-added"),
        pytest.param([per_customer()], [per_customer(F.sum("amount").alias("spent"))], id="aggregate-added"),
        pytest.param([per_customer(), per_country()], [per_customer()], id="last-sink-removed"),
        pytest.param([large()], [large("larger")], id="sink-renamed"),
        pytest.param([per_country()], [per_country(name="lands")], id="store-renamed"),
        pytest.param([per_country()], [per_country(4)], id="partitions-chosen-as-they-were-copied"),
    ],
)
def test_what_goes_on_is_taken(before: list[Sink], now: list[Sink]) -> None:
    refuse_change(described(*before), described(*now))


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        pytest.param(
            [large(), per_country()],
            [per_country()],
            r"stage 1 \(countries-repartition\) became stage 0; stage 2 \(countries\) became stage 1",
            id="first-sink-removed",
        ),
        pytest.param(
            [large(), small()],
            [small(), large()],
            r"stage 1 \(small\) became stage 0; stage 0 \(large\) became stage 1",
            id="sinks-swapped",
        ),
        pytest.param(
            [per_customer()], [large(), per_customer()], r"stage 0 \(customers\) became stage 1", id="sink-put-before"
        ),
        pytest.param(
            [per_country(2)],
            [per_country(3)],
            "'app-countries-repartition' has 2 partitions and was to have 3 .*choose 2",
            id="other-partitions-chosen",
        ),
        pytest.param(
            [per_country(2)], [per_country()], "has 2 partitions and was to have 4", id="copied-where-they-were-chosen"
        ),
        pytest.param(
            [large()],
            [stream("invoices", schema="id STRING", key="id").sink("invoiced")],
            r"stage 0 \(invoiced\) reads 'invoices', and the one of that number \(large\) read 'orders'",
            id="another-source",
        ),
    ],
)
def test_what_cannot_go_on_is_refused_with_the_ways_out(before: list[Sink], now: list[Sink], why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{why}.*add new ones behind them; or .* id; or reset"):
        refuse_change(described(*before), described(*now))


def test_positions_of_a_stage_that_was_removed_are_not_taken_for_those_of_another() -> None:
    first = described(per_customer(), large())
    without = described(per_customer(), before=first)
    assert without.gone == ("app-1-commits",)

    with pytest.raises(ConfigurationError, match=r"stage 1 \(small\) has the number of one that was removed \(large\)"):
        refuse_change(without, described(per_customer(), small()))

    again = described(per_customer(), large())
    refuse_change(without, again)
    assert (again.after(without).gone, dict(again.after(without).stages_gone)) == ((), {})


def test_source_whose_partitions_were_changed_is_for_another_error() -> None:
    refuse_change(described(per_country()), described(per_country(), orders=6))


def test_first_version_is_taken() -> None:
    refuse_change(None, described(large()))


def test_topics_of_earlier_versions_are_listed_until_they_are_needed_again() -> None:
    first = described(per_customer(), per_country())
    without = described(per_customer(), before=first)

    assert without.gone == ("app-countries-repartition", "app-countries-changelog", "app-1-commits")
    assert description_text(without).splitlines()[-4:] == [
        "of an earlier version, deleted by a reset only:",
        "  app-countries-repartition",
        "  app-countries-changelog",
        "  app-1-commits",
    ]
    assert described(per_customer(), before=without).gone == without.gone
    assert described(per_customer(), per_country(), before=without).gone == ()


def test_one_task_is_not_counted_as_several() -> None:
    text = description_text(described(per_customer(), orders=1))

    assert "stage 0: customers, 1 task\n" in text
    assert "1 tasks" not in text


def test_instance_runs_the_stages_that_the_application_is_known_by_and_no_others() -> None:
    kept = described(per_customer())

    refuse_other_stages(kept, described(per_customer(F.sum("amount").alias("spent"))))
    refuse_other_stages(None, described(large()))
    with pytest.raises(ConfigurationError, match=r"stages 0: customers, 1: large, .* known by 0: customers: create"):
        refuse_other_stages(kept, described(per_customer(), large()))
    with pytest.raises(ConfigurationError, match=r"stage 0 \(customers\) became stage 1"):
        refuse_other_stages(kept, described(large(), per_customer()))
