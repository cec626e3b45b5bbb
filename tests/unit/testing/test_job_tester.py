"""What a user's test sees of a job."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError, DecodeError, ProcessError, RecordError, StoreCorruptedError
from airflow_provider.streaming import StatefulJob, ValueState, stream
from airflow_provider.streaming import functions as F
from airflow_provider.testing import Counts, InputRecord, JobTester, OutputRecord
from airflow_provider.testing.in_memory_clients import partition_of
from airflow_provider.testing.records import value_bytes
from tests.unit.testing.jobs import ANYWHERE, LARGEST, LARGEST_ANYWHERE, ORDERS, TOTALS, Row, of_orders, order


@pytest.fixture
def totals() -> Iterator[JobTester]:
    with JobTester(TOTALS) as tester:
        yield tester


def test_records_come_out_as_state_and_output(totals: JobTester) -> None:
    totals.pipe_input(order("ann", 2.0))
    totals.pipe_input(order("ann", 3.0))

    assert totals.read_output() == [
        OutputRecord("ann", {"customer": "ann", "orders": 1, "spent": 2.0}),
        OutputRecord("ann", {"customer": "ann", "orders": 2, "spent": 5.0}),
    ]
    assert totals.state("ann") == {"orders": 2, "spent": 5.0}
    assert totals.counts == Counts(processed=2, filtered={}, failed=0)


def test_records_piped_together_are_one_micro_batch(totals: JobTester) -> None:
    totals.pipe_inputs([order("ann", 2.0), order("bob", 1.0), order("ann", 3.0)])

    assert sorted(record.key for record in totals.read_output()) == ["ann", "bob"]
    assert totals.states() == {"ann": {"orders": 2, "spent": 5.0}, "bob": {"orders": 1, "spent": 1.0}}


def test_output_is_read_once(totals: JobTester) -> None:
    totals.pipe_input(order("ann", 2.0))

    assert len(totals.read_output()) == 1
    assert totals.read_output() == []

    totals.pipe_input(order("bob", 2.0))
    assert [record.key for record in totals.read_output()] == ["bob"]


def test_nothing_was_piped_and_nothing_is_there(totals: JobTester) -> None:
    totals.pipe_inputs([])

    assert totals.state("ann") is None
    assert totals.states() == {}
    assert totals.read_output() == []
    assert totals.dead_letters() == []
    assert totals.counts == Counts(processed=0, filtered={}, failed=0)


def test_every_aggregate_is_shown_as_in_the_output() -> None:
    aggregates = [F.count(), F.avg("amount"), F.min("amount"), F.max("amount"), F.first("note"), F.last("note")]
    orders = stream("orders", schema="customer STRING, amount INT, note STRING", key="customer")
    job = of_orders(orders.group_by("customer").aggregate(*aggregates))

    with JobTester(job) as tester:
        tester.pipe_inputs([{"customer": "ann", "amount": 1, "note": "a"}, {"customer": "ann", "amount": 4}])

        (output,) = tester.read_output()
        assert output.value == {"customer": "ann", **tester.state("ann")}
        assert tester.state("ann")["avg(amount)"] == 2.5
        assert tester.state("ann")["last(note)"] is None


def test_state_of_a_function_is_its_own_value() -> None:
    with JobTester(LARGEST) as tester:
        tester.pipe_inputs([order("ann", 2.0), order("ann", 1.0), order("ann", 3.0), order("bob", 0.0)])

        assert tester.state("ann") == [3.0, 2.0]
        assert tester.state("bob") is None
        assert [(r.key, r.value["largest"]) for r in tester.read_output()] == [("ann", [3.0, 2.0]), ("bob", [])]

        tester.pipe_input(order("ann", 0.0))
        assert tester.states() == {}


def test_job_without_a_sink_has_no_output() -> None:
    with JobTester(of_orders(ORDERS.aggregate(F.count().alias("orders")), sink=None)) as tester:
        tester.pipe_input(order("ann", 2.0))

        assert tester.read_output() == []
        assert tester.state("ann") == {"orders": 1}


@pytest.mark.parametrize(
    "value",
    [pytest.param('{"customer": "ann", "amount": 2.0}', id="text"), pytest.param(b'{"customer": "ann"}', id="bytes")],
)
def test_text_and_bytes_are_taken_as_they_are(totals: JobTester, value: str | bytes) -> None:
    totals.pipe_input(value)

    assert totals.state("ann")["orders"] == 1


def test_key_chooses_the_partition() -> None:
    with JobTester(TOTALS, partitions=3) as tester:
        for customer in ("ann", "bob", "cara", "dan"):
            tester.pipe_input(order(customer, 1.0))

        assert sorted(tester.states()) == ["ann", "bob", "cara", "dan"]
        with pytest.raises(DecodeError) as caught:
            tester.pipe_input("no JSON", key="cara")
        assert caught.value.partition == partition_of(b"cara", 3)


def test_partition_that_does_not_exist_is_refused(totals: JobTester) -> None:
    with pytest.raises(ConfigurationError, match="is for partition 1 of 'orders', which has 1"):
        totals.pipe_inputs([order("ann", 1.0), InputRecord(order("ann", 1.0), partition=1)])
    totals.pipe_inputs([])
    assert totals.counts.processed == 0, "nothing of what was refused came into the topic"


@pytest.mark.parametrize("given", [TOTALS.sinks[0], "orders", None], ids=["a-sink", "a-text", "nothing"])
def test_what_is_no_job_is_refused_in_one_line(given: Any, totals: JobTester) -> None:
    with pytest.raises(ConfigurationError, match=r"^JobTester\(\) got .*: give a job, such as StatefulJob\(.*\)\.$"):
        JobTester(given)
    if given is not None:
        with pytest.raises(
            ConfigurationError, match=r"^restart\(\) got job=.*: give a job, such as StatefulJob\(.*\)\.$"
        ):
            totals.restart(job=given)


def test_tester_without_partitions_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="partitions=0"):
        JobTester(TOTALS, partitions=0)


# -- records that cannot be processed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        pytest.param("no JSON", DecodeError, "correct the job or the producer", id="undecodable"),
        pytest.param(order(None, 1.0), RecordError, "'customer' is null", id="null-key"),
        pytest.param(order("ann", -1.0), ProcessError, "ValueError in the job's function: -1 is negative", id="raises"),
    ],
)
def test_bad_record_raises_what_stops_the_task(value: object, kind: type[RecordError], reason: str) -> None:
    with JobTester(LARGEST) as tester:
        tester.pipe_input(order("ann", 2.0))
        with pytest.raises(kind, match=reason) as caught:
            tester.pipe_inputs([order("ann", 3.0), value])

        assert (caught.value.topic, caught.value.partition) == ("orders", 0)
        assert tester.state("ann") == [2.0]
        assert tester.counts == Counts(processed=1, filtered={}, failed=0)


def test_stopped_task_meets_the_same_record_wherever_it_goes_on_and_stops_no_other() -> None:
    with JobTester(LARGEST_ANYWHERE, partitions=2) as tester:
        with pytest.raises(ProcessError, match="offset 0"):
            tester.pipe_input(order("ann", -1.0), partition=0)
        with pytest.raises(ProcessError, match="offset 0"):
            tester.pipe_input(order("ann", 1.0), partition=0)
        with pytest.raises(ProcessError, match="offset 0"):
            tester.restart()
        with pytest.raises(ProcessError, match="offset 0"):
            tester.promote_standby()
        tester.pipe_input(order("bob", 1.0), partition=1)

        assert tester.states() == {"bob": [1.0]}


def test_each_stopped_task_raises_its_own_error() -> None:
    with JobTester(LARGEST_ANYWHERE, partitions=2) as tester:
        bad = [InputRecord(order(customer, -1.0), partition=at) for at, customer in enumerate(("ann", "bob"))]
        with pytest.raises(ProcessError, match=r"orders\[0\] at offset 0, key 'ann'"):
            tester.pipe_inputs(bad)
        with pytest.raises(ProcessError, match=r"orders\[1\] at offset 0, key 'bob'"):
            tester.pipe_input(order("bob", 1.0), partition=1)


def test_function_is_called_once_for_a_bad_record() -> None:
    calls = []

    def fails(key: str, rows: object, state: object) -> None:
        calls.append(key)
        raise ValueError("no")

    with (
        JobTester(of_orders(ORDERS.process(fails, ["amount"]))) as tester,
        pytest.raises(ProcessError, match="ValueError"),
    ):
        tester.pipe_input(order("ann", 1.0))

    assert calls == ["ann"]


def test_skipped_record_is_counted() -> None:
    with JobTester(LARGEST.on_error("skip")) as tester:
        tester.pipe_inputs([order("ann", 2.0), order("ann", -1.0), "no JSON", order("ann", 3.0)])

        assert tester.state("ann") == [3.0, 2.0]
        assert tester.counts == Counts(processed=4, filtered={}, failed=2)
        assert tester.dead_letters() == []


def test_dead_letter_is_the_record_as_it_was_and_why() -> None:
    with JobTester(LARGEST.on_error("dead_letter", topic="bad-orders")) as tester:
        bad = order("ann", -1.0)
        tester.pipe_inputs([order("ann", 2.0), InputRecord(bad, key="k", timestamp_ms=77), InputRecord("no JSON")])

        raised, undecodable = tester.dead_letters()
        assert (raised.key, raised.value, raised.timestamp_ms) == (b"k", b'{"customer":"ann","amount":-1.0}', 77)
        assert (raised.topic, raised.partition, raised.offset, raised.error) == ("orders", 0, 1, "ProcessError")
        assert raised.message == "ValueError in the job's function: -1 is negative"
        assert "in largest" in raised.stack
        assert (undecodable.key, undecodable.value, undecodable.error) == (None, b"no JSON", "DecodeError")
        assert tester.counts.failed == 2


# -- restarts ----------------------------------------------------------------------------------------------------


def restart(tester: JobTester) -> None:
    tester.restart()


def lose_the_store(tester: JobTester) -> None:
    tester.restart(store="empty")


def promote(tester: JobTester) -> None:
    tester.promote_standby()


def promote_twice(tester: JobTester) -> None:
    tester.promote_standby()
    tester.promote_standby()


@pytest.mark.parametrize("event", [restart, lose_the_store, promote, promote_twice])
def test_nothing_is_lost_or_doubled_when_the_task_moves(event: object) -> None:
    assert callable(event)
    with JobTester(LARGEST.on_error("skip"), partitions=2) as tester:
        tester.pipe_inputs([order("ann", 2.0), order("bob", 5.0), order("cara", 1.0), order("ann", -1.0)])
        tester.pipe_input(order("cara", 0.0))
        states, counts = tester.states(), tester.counts

        event(tester)

        assert tester.states() == states == {"ann": [2.0], "bob": [5.0]}
        assert tester.counts == counts == Counts(processed=5, filtered={}, failed=1)
        tester.pipe_input(order("ann", 7.0))
        assert tester.state("ann") == [7.0, 2.0]
        assert len(tester.read_output()) == 5


def test_lost_store_is_the_error_of_its_task_and_is_restored_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with JobTester(TOTALS) as tester:
        tester.pipe_input(order("ann", 2.0))
        tester.restart()  # what is opened again lies in files
        for file in tmp_path.glob("*/i1/state/orders/0_0/**/*.sst"):
            file.write_bytes(b"\xff" * file.stat().st_size)

        with pytest.raises(StoreCorruptedError, match="moved aside and restored"):
            tester.pipe_input(order("ann", 3.0))
        for look in (tester.states, lambda: tester.state("ann"), lambda: tester.counts):
            with pytest.raises(StoreCorruptedError, match="moved aside and restored"):
                look()

        tester.pipe_input(order("ann", 4.0))
        assert tester.state("ann") == {"orders": 3, "spent": 9.0}


def test_lost_store_of_one_task_holds_up_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    anywhere = of_orders(ANYWHERE.aggregate(F.count().alias("orders"), F.sum("amount").alias("spent")))
    with JobTester(anywhere, partitions=2) as tester:
        tester.pipe_inputs([InputRecord(order(name, 2.0), partition=at) for at, name in enumerate(("ann", "bob"))])
        tester.restart()
        for file in tmp_path.glob("*/i1/state/orders/0_0/**/*.sst"):
            file.write_bytes(b"\xff" * file.stat().st_size)
        with pytest.raises(StoreCorruptedError):
            tester.pipe_input(order("ann", 3.0), partition=0)

        tester.pipe_input(order("bob", 3.0), partition=1)

        assert tester.states() == {"ann": {"orders": 2, "spent": 5.0}, "bob": {"orders": 2, "spent": 5.0}}


def test_closed_tester_processes_nothing() -> None:
    tester = JobTester(TOTALS)
    tester.close()

    with pytest.raises(RuntimeError, match="closed"):
        tester.pipe_input(order("ann", 2.0))


def test_stores_are_gone_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        tester = JobTester(TOTALS)
        assert list(Path(folder).glob("*/i1/state/orders/0_0/**/CURRENT"))

        tester.close()
        tester.close()

        assert not list(Path(folder).iterdir())


def test_job_that_the_worker_decodes_loads_no_spark() -> None:
    script = """
        import sys
        from airflow_provider.testing import JobTester
        from tests.unit.testing.jobs import TOTALS, order
        with JobTester(TOTALS) as tester:
            tester.pipe_input(order("ann", 2.0))
            tester.restart()
            assert tester.state("ann") == {"orders": 1, "spent": 2.0}
        assert not [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")]
    """
    root = Path(__file__).parents[3]

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=root, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_restart_refuses_a_word_for_the_store_that_it_does_not_know(totals: JobTester) -> None:
    totals.pipe_input(order("ann", 2.0))

    with pytest.raises(ConfigurationError, match=r"store='emtpy'.*'kept'.*'empty'"):
        totals.restart(store="emtpy")  # type: ignore[arg-type]

    assert totals.state("ann") == {"orders": 1, "spent": 2.0}  # nothing was restarted


@pytest.mark.parametrize("key", [pytest.param(5, id="number"), pytest.param(date(2026, 1, 2), id="date")])
def test_key_that_is_no_text_says_which_text_it_wants(totals: JobTester, key: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"its text, such as '{key}'"):
        totals.state(key)
    with pytest.raises(ConfigurationError, match=f"its text, such as '{key}'"):
        totals.pipe_input(order("ann", 2.0), key=key)


def test_aggregates_have_the_types_that_a_function_gets() -> None:
    job = StatefulJob(
        "sales",
        stream("sales", schema="shop STRING, amount DECIMAL(38, 2), day DATE, at TIMESTAMP, share DOUBLE", key="shop")
        .group_by("shop")
        .aggregate(
            F.sum("amount").alias("revenue"),
            F.max("day").alias("day"),
            F.max("at").alias("at"),
            F.max("share"),
            F.min("at"),
            name="state",
        ),
    )
    with JobTester(job) as tester:
        tester.pipe_input(
            '{"shop": "a", "amount": 123456789012345678901234567890.30, "day": "2026-01-02", '
            '"at": "2026-01-02T03:04:05Z", "share": "NaN"}'
        )
        state = tester.state("a")

        assert state["revenue"] == Decimal("123456789012345678901234567890.30")
        assert state["day"] == date(2026, 1, 2)
        assert state["at"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        assert math.isnan(state["max(share)"])

        tester.pipe_input('{"shop": "b", "at": "+12026-01-02T03:04:05Z"}')  # which Python cannot hold
        assert tester.state("b")["at"] == "+12026-01-02T03:04:05.000000Z"
        assert tester.state("b")["revenue"] is None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
def test_number_that_is_not_finite_is_piped_as_producers_write_it(totals: JobTester, number: float) -> None:
    with pytest.raises(DecodeError):
        totals.pipe_input({"customer": "ann", "amount": number})


def test_numbers_that_are_not_finite_are_found_in_what_a_value_holds() -> None:
    value = {"a": [1.5, math.nan], "b": {"c": -math.inf, "d": None}, "e": (math.inf,)}

    assert value_bytes(value) == b'{"a":[1.5,NaN],"b":{"c":-Infinity,"d":null},"e":[Infinity]}'


def test_value_without_the_key_column_says_so_whatever_the_records_key(totals: JobTester) -> None:
    with pytest.raises(RecordError, match=r"the value has no 'customer'.*the record's key.*'k'.*not read"):
        totals.pipe_input({"amount": 2.0}, key="k")


def test_function_that_returns_a_dict_is_told_to_return_a_list() -> None:
    def wrong(key: str, rows: list[Row], state: ValueState) -> Any:
        return {"spent": 1.0}

    with (
        JobTester(of_orders(ORDERS.process(wrong, ["amount"]))) as tester,
        pytest.raises(ProcessError, match=r"a dict.*return a list of dicts"),
    ):
        tester.pipe_input(order("ann", 2.0))


def test_row_that_is_no_dict_is_told_so() -> None:
    def wrong(key: str, rows: list[Row], state: ValueState) -> Any:
        return [1.0]

    with (
        JobTester(of_orders(ORDERS.process(wrong, ["amount"]))) as tester,
        pytest.raises(ProcessError, match=r"a float.*return a list of dicts"),
    ):
        tester.pipe_input(order("ann", 2.0))


def test_function_cannot_name_another_key_in_its_rows() -> None:
    def renaming(key: str, rows: list[Row], state: ValueState) -> list[Row]:
        return [{"customer": "zzz" if rows[0]["amount"] else key}]

    with JobTester(of_orders(ORDERS.process(renaming, ["amount"]))) as tester:
        tester.pipe_input(order("ann", 0.0))
        assert [record.value for record in tester.read_output()] == [{"customer": "ann"}]

        with pytest.raises(ProcessError, match=r"'customer' of an output row.*'zzz'.*'ann'"):
            tester.pipe_input(order("ann", 2.0))
