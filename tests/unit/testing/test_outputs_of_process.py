"""Outputs of `process()` with a name, through the tester: each is a stream of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.errors import ConfigurationError, ProcessError, RecordTooLargeError
from airflow_provider.streaming import StatefulJob, Stream, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.testing import InputRecord, JobTester, check_batching

ORDERS: Final = stream("orders", schema="customer STRING, product STRING, amount BIGINT", key="customer")
REFUNDS: Final = "amount BIGINT, product STRING"


def checked(_: str, rows: list[dict[str, Any]], state: Any) -> Iterator[Any]:
    for row in rows:
        state.update((state.get() or 0) + 1)
        if row["amount"] < 0:
            yield "refunds", {"amount": -row["amount"], "product": row["product"]}
        else:
            yield {"n": state.get()}


def processed(function: Any = checked, **given: Any) -> Stream:
    given = {"schema": "n BIGINT", "outputs": {"refunds": REFUNDS}, "name": "checked"} | given
    return ORDERS.group_by("customer").process(function, ["amount", "product"], **given)


def order(amount: int, customer: str = "ann", product: str = "tea") -> InputRecord:
    return InputRecord({"customer": customer, "product": product, "amount": amount}, topic="orders")


def values(tester: JobTester, sink: str) -> list[dict[str, Any]]:
    return [record.value for record in tester.read_output(sink)]


def test_an_output_is_written_beside_the_rows_of_its_function_in_one_stage() -> None:
    made = processed()
    job = StatefulJob("app", made.sink("counts"), made.output("refunds").sink("refunds"))

    assert [(stage.name, stage.outputs) for stage in job.stages] == [("checked", ("counts", "refunds"))]
    with JobTester(job) as tester:
        tester.pipe_inputs([order(1), order(-2), order(3)])

        assert values(tester, "counts") == [{"customer": "ann", "n": 1}, {"customer": "ann", "n": 3}]
        (refund,) = tester.read_output("refunds")
        assert (refund.key, refund.value) == ("ann", {"customer": "ann", "amount": 2, "product": "tea"})


def test_an_output_is_grouped_and_joined_as_other_streams_are() -> None:
    prices = table("prices", schema="product STRING, price BIGINT", key="product")
    refunds = processed().output("refunds")
    job = StatefulJob(
        "app",
        refunds.group_by("product").aggregate(F.sum("amount").alias("sum")).sink("sums"),
        refunds.join(prices, on="product").sink("priced"),
    )
    with JobTester(job) as tester:
        tester.pipe_input({"product": "tea", "price": 7}, topic="prices")
        tester.pipe_inputs([order(-2), order(-3, "bob")])

        assert values(tester, "sums")[-1] == {"product": "tea", "sum": 5}
        priced = [{"customer": "ann", "amount": 2, "price": 7}, {"customer": "bob", "amount": 3, "price": 7}]
        assert values(tester, "priced") == [one | {"product": "tea"} for one in priced]


def test_what_nobody_reads_is_left_and_the_functions_own_rows_may_be() -> None:
    with JobTester(StatefulJob("app", processed().sink("counts"))) as tester:
        tester.pipe_inputs([order(-1), order(1)])
        assert values(tester, "counts") == [{"customer": "ann", "n": 2}]

    with JobTester(StatefulJob("app", processed().output("refunds").sink("refunds"))) as tester:
        tester.pipe_inputs([order(-1), order(1)])
        assert values(tester, "refunds") == [{"customer": "ann", "amount": 1, "product": "tea"}]
        assert tester.state("ann", store="checked") == 2


def test_timers_put_rows_out_too() -> None:
    def rings(_: str, time_ms: int, state: Any) -> Iterator[Any]:
        yield "refunds", {"amount": time_ms}

    def sets(_: str, rows: list[dict[str, Any]], state: Any) -> None:
        state.timers.at(rows[0]["at"])

    timed = stream("orders", schema="id STRING, at BIGINT", key="id", event_time="at", watermark="0 seconds")
    made = timed.group_by("id").process(sets, ["at"], on_timer=rings, outputs={"refunds": REFUNDS}, name="checked")
    with JobTester(StatefulJob("app", made.output("refunds").sink("refunds"))) as tester:
        tester.pipe_inputs([{"id": "a", "at": 5}, {"id": "b", "at": 9}])
        assert values(tester, "refunds") == [{"id": "a", "amount": 5}, {"id": "b", "amount": 9}]


def test_a_description_says_which_topic_is_of_which_output() -> None:
    made = processed()
    job = StatefulJob("app", made.sink("counts"), made.output("refunds").filter("amount > 1", name="one").sink("large"))

    text = job.describe().splitlines()
    assert "  does    process checked(amount, product) also into refunds" in text
    assert "  writes  counts" in text
    assert "  writes  app-large-process-repartition, of its output refunds" in text
    assert '    s0 -->|"refunds"| t1' in job.describe("mermaid").splitlines()
    description = job.description()
    # As Kafka keeps it, and as it is compared with the next version.
    assert from_json(to_json(description), JobDescription) == description


# -- event time -----------------------------------------------------------------------------------------------------

TIMED: Final = stream("orders", schema="id STRING, at BIGINT", key="id", event_time="at", watermark="2 seconds")


def moved(_: str, rows: list[dict[str, Any]], state: Any) -> Iterator[Any]:
    yield "seen", {"when": rows[0]["at"]}
    yield {"at": rows[0]["at"]}


def timed(function: Any = moved, **given: Any) -> Stream:
    outputs = {"seen": "when BIGINT", "timed": "at BIGINT"}
    return TIMED.group_by("id").process(
        function, ["at"], schema="at BIGINT", outputs=outputs, event_time="at", name="moved", **given
    )


def counted(made: Stream) -> Stream:
    return made.group_by("id", window("at", "1 second")).aggregate(F.count().alias("n"), emit="close", name="windows")


def test_what_is_put_out_has_an_event_time_for_windows_behind() -> None:
    assert timed().output("timed").event_time is not None
    assert timed().output("seen").event_time is None
    records = [{"id": "a", "at": at} for at in (0, 900, 1_500, 400, 9_000, 20)]
    with JobTester(StatefulJob("app", counted(timed()).sink("windows"))) as tester:
        tester.pipe_inputs(records)
        assert [value["n"] for value in values(tester, "windows")] == [3, 1]
        assert tester.counts.late == 1


def test_windows_behind_do_not_depend_on_micro_batches() -> None:
    made = timed()
    job = StatefulJob("app", counted(made).sink("windows"), made.output("seen").sink("seen"))
    records = [InputRecord({"id": "ab"[n % 2], "at": 300 * n - (n % 5) * 900}, timestamp_ms=1) for n in range(30)]
    check_batching(job, records, cuts=4, seed=1)


def test_what_is_late_follows_from_the_rows_of_its_own_partition() -> None:
    plain = stream("orders", schema="id STRING, at BIGINT", event_time="at", watermark="2 seconds")
    made = plain.group_by("id").process(
        moved, ["at"], schema="at BIGINT", outputs={"seen": "when BIGINT"}, event_time="at", name="moved"
    )
    with JobTester(StatefulJob("app", made.sink("moved")), partitions=2) as tester:
        records = [
            InputRecord({"id": "a", "at": at}, partition=to) for to, at in ((0, 9_000), (1, 10), (1, 20), (0, 1))
        ]
        tester.pipe_inputs(records)
        assert sorted(value["at"] for value in values(tester, "moved")) == [10, 20, 9_000]
        assert tester.counts.late == 1


def test_a_timer_puts_a_row_out_in_time_and_none_before() -> None:
    def sets(_: str, rows: list[dict[str, Any]], state: Any) -> None:
        state.timers.at(rows[0]["at"] + 500)

    def rings(_: str, time_ms: int, state: Any) -> Iterator[Any]:
        yield {"at": time_ms}

    def rings_of_before(_: str, time_ms: int, state: Any) -> Iterator[Any]:
        yield "timed", {"at": time_ms - 1}

    records = [{"id": "a", "at": at} for at in (100, 9_000)]
    with JobTester(StatefulJob("app", counted(timed(sets, on_timer=rings)).sink("windows"))) as tester:
        tester.pipe_inputs(records)
        assert [value["n"] for value in values(tester, "windows")] == [1]
    job = StatefulJob("app", timed(sets, on_timer=rings_of_before).sink("moved"))
    with JobTester(job) as tester, pytest.raises(ConfigurationError, match="'at' at 599, and the watermark is at 600"):
        tester.pipe_inputs(records)


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (lambda: processed(event_time="at"), "the source has no event time"),
        (lambda: TIMED.group_by("id").process(moved, ["at"], event_time="at"), "no schema has that column"),
        (
            lambda: TIMED.group_by("at").process(moved, ["at"], schema="at BIGINT", event_time="at"),
            "which is the key's column",
        ),
        (
            lambda: TIMED.group_by("id").process(moved, ["at"], outputs={"a": "at STRING"}, event_time="at"),
            "the column 'at' of type STRING",
        ),
    ],
    ids=["no time", "no column", "the key", "no time in it"],
)
def test_event_time_that_is_none_is_refused(of: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        of()


def test_a_row_without_its_event_time_is_an_error_of_the_record() -> None:
    def without(_: str, rows: list[dict[str, Any]], state: Any) -> Iterator[Any]:
        yield "timed", {}

    job = StatefulJob("app", timed(without).sink("moved"))
    with JobTester(job) as tester, pytest.raises(ProcessError, match="an event time got None"):
        tester.pipe_input({"id": "a", "at": 1})


# -- a changed job --------------------------------------------------------------------------------------------------


def test_outputs_may_be_added_and_taken_out_over_the_same_state() -> None:
    made = processed()
    both = StatefulJob("app", made.sink("counts"), made.output("refunds").sink("refunds"))
    one = StatefulJob("app", processed(outputs=None).sink("counts"))
    with JobTester(one) as tester:
        tester.pipe_input(order(1))
        tester.restart(job=both)
        tester.pipe_inputs([order(-2), order(3)])

        assert [value["n"] for value in values(tester, "counts")] == [1, 3]
        assert [value["amount"] for value in values(tester, "refunds")] == [2]
        tester.restart(job=one)
        tester.pipe_input(order(4))
        assert [value["n"] for value in values(tester, "counts")] == [4]


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("put_out", "outputs", "why"),
    [
        (
            ("refunds", {"amount": "2"}),
            {"refunds": REFUNDS},
            "'amount' of a row of the output 'refunds' is '2' (str), and",
        ),
        (("refunds", {"amount": True}), {"refunds": REFUNDS}, "is True (bool), and BIGINT"),
        (("refunds", {"amount": 2**63}), {"refunds": REFUNDS}, "is 9223372036854775808 (int), and BIGINT"),
        (("refunds", {"amunt": 2}), {"refunds": REFUNDS}, "has the column 'amunt', and its schema is"),
        (("refundz", {"amount": 2}), {"refunds": REFUNDS}, "out to 'refundz', and those of process() are 'refunds'"),
        (("refunds", {"amount": 2}), None, "out to 'refunds', and process() was given none"),
        (("refunds", "no dict"), {"refunds": REFUNDS}, "a row that is a str"),
        (("refunds", {"amount": 2}, 3), {"refunds": REFUNDS}, "a row that is a tuple"),
        (("refunds", {"customer": "bob"}), {"refunds": REFUNDS}, "the key is 'ann'"),
    ],
    ids=["a text", "a bool", "too large", "no column", "no output", "no outputs", "no row", "no pair", "another key"],
)
def test_what_fits_no_output_is_an_error_of_the_record(put_out: Any, outputs: Any, why: str) -> None:
    def wrong(_: str, rows: list[dict[str, Any]], state: Any) -> list[Any]:
        return [put_out]

    job = StatefulJob("app", processed(wrong, outputs=outputs).sink("counts"))
    with JobTester(job) as tester, pytest.raises(ProcessError, match=re.escape(why)):
        tester.pipe_input(order(1))


def test_nulls_and_columns_that_are_left_out_fit() -> None:
    def sparse(_: str, rows: list[dict[str, Any]], state: Any) -> list[Any]:
        return [("refunds", {"amount": None})]

    with JobTester(StatefulJob("app", processed(sparse).output("refunds").sink("refunds"))) as tester:
        tester.pipe_input(order(1))
        assert values(tester, "refunds") == [{"customer": "ann", "amount": None}]


def test_a_row_that_its_topic_does_not_take_leaves_its_record_out() -> None:
    def large(_: str, rows: list[dict[str, Any]], state: Any) -> Iterator[Any]:
        for row in rows:
            yield {"n": 1}
            yield "refunds", {"product": "x" * (row["amount"] * 1_000_000)}

    made = processed(large)
    job = StatefulJob("app", made.sink("counts"), made.output("refunds").sink("refunds"))
    with JobTester(job) as tester, pytest.raises(RecordTooLargeError, match="'refunds' takes"):
        tester.pipe_input(order(2))
    with JobTester(job.on_error("skip")) as tester:
        tester.pipe_inputs([order(0), order(2), order(0, "bob")])
        assert len(values(tester, "counts")) == len(values(tester, "refunds")) == 2
        assert tester.counts.failed == 1


@pytest.mark.parametrize(
    ("outputs", "why"),
    [
        (["refunds"], "process() got outputs="),
        ({"refunds": 3}, "{'refunds': 3}"),
        ({"": REFUNDS}, "give schemas by the outputs' names"),
        ({"refunds": "amount BIGNT"}, "for the output 'refunds', got a schema whose column 'amount' is of type BIGNT"),
    ],
    ids=["a list", "no text", "no name", "no type"],
)
def test_outputs_without_a_name_or_a_schema_are_refused(outputs: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        processed(outputs=outputs)


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (lambda: processed().output("refundz"), "those of process() of orders are 'refunds'"),
        (lambda: processed(outputs=None).output("refunds"), "process() of orders has none"),
        (lambda: processed().filter("n > 1", name="first").output("refunds"), "not what process() returned"),
        (lambda: processed().output("refunds").output("refunds"), "not what process() returned"),
        (lambda: ORDERS.output("refunds"), "not what process() returned"),
        (lambda: StatefulJob("app", processed().output("refunds")), "without sink()"),
    ],
    ids=["another name", "no outputs", "steps behind", "an output", "a topic", "no sink"],
)
def test_output_of_what_has_none_is_refused(of: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        of()
