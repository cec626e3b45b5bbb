from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.errors import BrokerUnreachableError, InstanceError
from airflow_provider.streaming.driver.slots import slot_calls, slot_driver
from airflow_provider.streaming.driver.slots.slot_decisions import Brought
from airflow_provider.streaming.driver.slots.slot_driver import SlotDriver
from airflow_provider.streaming.worker.tasks.plan import SlotPlan
from tests.unit.streaming.driver.fakes import FakeRows, FakeSpark, compiled, plan, settings_in, status_of
from tests.waiting import wait_until

CALL_TIMEOUT_S = 0.05


@pytest.fixture
def spark() -> Iterator[FakeSpark]:
    spark = FakeSpark()
    yield spark
    spark.let.set()


@pytest.fixture
def reported() -> list[TaskStatus]:
    return []


def nothing_lost(_: str, __: Collection[int]) -> dict[int, int]:
    return {}


@pytest.fixture
def driver(spark: FakeSpark, reported: list[TaskStatus], tmp_path: Path) -> SlotDriver:
    settings = settings_in(tmp_path, call_timeout_s=CALL_TIMEOUT_S, round_interval_s=0.01)
    session = cast(SparkSession, spark)
    return SlotDriver(
        session, compiled(), settings, 0, lambda _, statuses: reported.extend(statuses), nothing_lost, nothing_lost
    )


def error_of(driver: SlotDriver) -> InstanceError | None:
    """What the driver found; None as long as nothing is wrong."""
    try:
        driver.check()
    except InstanceError as error:
        return error
    return None


def test_call_that_never_comes_back_is_an_error_and_does_not_hold_up_the_end(
    driver: SlotDriver, spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_driver, "_STUCK_S", 0.05)
    spark.let.clear()
    driver.start()

    error = wait_until(lambda: error_of(driver), 10, "the call to be missed")
    assert "call_timeout_s (0.05 s)" in str(error)
    driver.stop()


def test_slot_whose_call_does_not_return_is_left_after_its_time(driver: SlotDriver, spark: FakeSpark) -> None:
    spark.let.clear()
    driver.start()
    wait_until(lambda: spark.calls, 10, "a call")

    driver.stop(0.01)

    # Long before the call is one that does not come back.
    assert error_of(driver) is None


def test_calls_that_came_back_are_not_missed(
    driver: SlotDriver, spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.start()
    wait_until(lambda: spark.calls > 3, 10, "some calls")
    driver.stop()

    # No call may take any time now: one that is still held to be under way would be found.
    monkeypatch.setattr(slot_driver, "_STUCK_S", -CALL_TIMEOUT_S)
    driver.check()


class DeadQuery:
    """Ends as soon as it begins."""

    error = "Cannot fetch offset 7: it is not in the log any more"
    active, active_for_s = False, 0.0

    def __init__(self, *_: Any) -> None:
        self.tasks = frozenset({TaskId(0, 0)})

    def start(self) -> None:
        return None


def test_query_that_ends_again_and_again_is_reported(
    driver: SlotDriver, spark: FakeSpark, reported: list[TaskStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_driver, "SourceQuery", DeadQuery)
    monkeypatch.setattr(slot_driver, "_RETRY_S", 0.01)
    spark.statuses = (status_of(0, source_offset=7),)
    driver.apply_goal([plan(0)], paused=False)
    driver.start()

    wait_until(
        lambda: reported and reported[-1].error_kind == "StreamingQueryException", 10, "the query's end in the status"
    )

    assert "Cannot fetch offset 7" in str(reported[-1].error)
    wait_until(lambda: reported[-1].state is TaskState.FAILED, 10, "the task to fail after some tries")
    driver.check()
    driver.stop()


def test_calls_that_fail_again_and_again_end_the_instance(
    driver: SlotDriver, spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_driver, "_RETRY_S", 0.001)
    spark.error = RuntimeError("the worker died")
    driver.apply_goal([plan(0)], paused=False)
    driver.start()

    error = wait_until(lambda: error_of(driver), 10, "the slot to be given up")
    assert "times in a row, the last time with RuntimeError: the worker died" in str(error)
    driver.stop()


@pytest.mark.parametrize(
    ("error", "state"),
    [
        pytest.param(BrokerUnreachableError("no answer"), TaskState.OWNING, id="brokers"),
        pytest.param(TypeError("of the job"), TaskState.FAILED, id="programming-error"),
    ],
)
def test_calls_that_wait_for_brokers_or_for_a_person_do_not_end_the_instance(
    error: Exception,
    state: TaskState,
    driver: SlotDriver,
    spark: FakeSpark,
    reported: list[TaskStatus],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slot_driver, "_RETRY_S", 0.001)
    spark.error = error
    driver.apply_goal([plan(0)], paused=False)
    driver.start()

    wait_until(lambda: spark.calls > 50, 10, "many calls")

    driver.check()
    assert (reported[-1].state, reported[-1].error_kind) == (state, type(error).__name__)
    driver.stop()


def test_call_that_fails_is_reported_and_tried_again(
    driver: SlotDriver, spark: FakeSpark, reported: list[TaskStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_driver, "_RETRY_S", 0.01)
    spark.error = RuntimeError("the worker died")
    driver.apply_goal([plan(0)], paused=False)
    driver.start()
    wait_until(lambda: reported and reported[-1].error == "the worker died", 10, "the error in the status")

    spark.statuses = (status_of(0, TaskState.RESTORING),)
    spark.error = None

    wait_until(lambda: reported[-1].error is None, 10, "the call to be made again")
    driver.stop()


def test_last_call_of_a_slot_names_no_task(
    driver: SlotDriver, spark: FakeSpark, sent_tasks: Callable[[], list[tuple[TaskId, ...]]]
) -> None:
    driver.apply_goal([plan(0)], paused=False)
    driver.start()
    wait_until(lambda: (TaskId(0, 0),) in sent_tasks(), 10, "a call with the task")

    driver.stop()
    driver.apply_goal([plan(0)], paused=False)

    assert sent_tasks()[-1] == ()


@pytest.fixture
def sent_tasks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[tuple[TaskId, ...]]]:
    """By call, the tasks of the plan."""
    sent: list[tuple[TaskId, ...]] = []

    def keep(**fields: Any) -> SlotPlan:
        sent.append(tuple(task.task for task in fields["tasks"]))
        return SlotPlan(**fields)

    monkeypatch.setattr(slot_calls, "SlotPlan", keep)
    return lambda: list(sent)


class Started:
    """A query, as much of it as a slot needs: a test brings its micro-batches."""

    leaving = False

    def __init__(self, *given: Any) -> None:
        self.tasks, self._on_batch = frozenset(given[3]), given[5]

    def start(self) -> None:
        """Nothing comes by itself."""

    def leave(self) -> None:
        self.leaving = True

    def bring(self, rows: Any) -> Any:
        return self._on_batch(self, rows)


def test_query_brings_no_rows_of_a_task_that_was_given_away_since_it_was_found_to_run(
    driver: SlotDriver, spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_driver, "SourceQuery", Started)

    query: Any = driver._start_query(1, {TaskId(0, 0): None}, {TaskId(0, 0): Brought(1, None)})  # noqa: SLF001

    assert query.bring(FakeRows(spark.answer)) == {}
    assert (query.tasks, query.leaving) == (frozenset(), True)
