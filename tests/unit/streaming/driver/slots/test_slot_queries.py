from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.streaming.driver.slots.slot_decisions import Brought, SlotGoal
from airflow_provider.streaming.driver.slots.slot_queries import SlotQueries
from airflow_provider.streaming.driver.slots.slot_report import SlotReport
from airflow_provider.streaming.worker.tasks.lost_input import LostInput, lost_input
from tests.unit.streaming.driver.fakes import STANDBY, FakeQuery, plan, status_of

BOTH = SlotGoal((plan(0), plan(1)))
REPORT = SlotReport({TaskId(0, 0): status_of(0, source_offset=7), TaskId(0, 1): status_of(1)})


def slot_queries(
    start: Callable[[int, Mapping[TaskId, int | None], dict[TaskId, Brought]], FakeQuery],
    find_lost: Callable[[Mapping[TaskId, int | None]], Mapping[TaskId, LostInput]] = lambda _: {},
    goes_on: bool = False,
    overlap: Callable[[Mapping[TaskId, int | None]], Mapping[TaskId, int | None]] = dict,
    clock: Callable[[], float] = lambda: 0.0,
    fell_back: Callable[[], tuple[float, Collection[TaskId]]] = lambda: (0.0, ()),
) -> SlotQueries:
    return SlotQueries(0, lambda _: "in", start, find_lost, goes_on, overlap, clock, fell_back=fell_back)


class Started:
    """Starts fake queries and keeps them."""

    def __init__(self) -> None:
        self.queries: list[FakeQuery] = []
        self.numbers: list[int] = []
        self.brought: list[dict[TaskId, Brought]] = []

    def __call__(self, number: int, tasks: Mapping[TaskId, int | None], brought: dict[TaskId, Brought]) -> FakeQuery:
        self.brought.append(brought)
        self.numbers.append(number)
        self.queries.append(FakeQuery(tasks))
        return self.queries[-1]


def test_one_query_reads_all_tasks_that_run_from_where_they_stopped() -> None:
    started = Started()
    queries = slot_queries(started)

    queries.start_missing(BOTH, REPORT)
    queries.start_missing(BOTH, REPORT)

    assert [query.offsets for query in started.queries] == [{TaskId(0, 0): 7, TaskId(0, 1): None}]


def test_query_goes_on_for_the_others_when_a_task_is_given_away_and_is_replaced_later() -> None:
    """Another query would have to get ready, and moves often follow each other."""
    started, now = Started(), [0.0]
    queries = slot_queries(started, clock=lambda: now[0])
    queries.start_missing(BOTH, REPORT)
    less = SlotGoal((plan(0), plan(1, STANDBY)))

    for seconds in (1.0, 200.0, 300.0):
        now[0] = seconds
        assert queries.tick(less, lambda: REPORT) is False
        queries.start_missing(less, REPORT)
    assert [query.active for query in started.queries] == [True]

    now[0] = 302.0
    queries.tick(less, lambda: REPORT)
    queries.start_missing(less, REPORT)

    assert [query.active for query in started.queries] == [False, True]
    assert started.queries[1].offsets == {TaskId(0, 0): 7}
    assert started.numbers == [1, 2]


def test_query_ends_with_its_last_task() -> None:
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)

    queries.tick(SlotGoal((plan(0, STANDBY), plan(1, STANDBY))), lambda: REPORT)

    assert not started.queries[0].active


def test_task_that_comes_back_is_read_by_another_query_from_where_it_is_then() -> None:
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)

    queries.tick(SlotGoal((plan(0), plan(1, generation=3))), lambda: REPORT)

    assert not started.queries[0].active


def test_query_over_a_source_that_has_fallen_back_since_it_began_is_begun_again() -> None:
    """It began one record early, so nobody refuses it: the next one begins where its task stands, and is refused."""
    started, fell_back = Started(), (3.0, {TaskId(0, 0)})
    queries = slot_queries(started, clock=lambda: 5.0, fell_back=lambda: fell_back)
    queries.start_missing(BOTH, REPORT)

    started.queries[0].active_for_s = 1.0  # that was seen of what it follows
    queries.tick(BOTH, lambda: REPORT)
    goes_on = started.queries[0].active
    started.queries[0].active_for_s = 3.0
    queries.tick(BOTH, lambda: REPORT)

    assert (goes_on, started.queries[0].active) == (True, False)


def test_task_whose_store_was_set_back_is_read_by_another_query_although_no_further_row_comes() -> None:
    """Its changelog had lost its newest commits: only what is read again brings their rows back."""
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)
    started.brought[0][TaskId(0, 0)] = Brought(1, 9)
    at_9 = SlotReport({**REPORT.statuses, TaskId(0, 0): status_of(0, source_offset=9)})
    set_back = SlotReport({**REPORT.statuses, TaskId(0, 0): status_of(0)})

    queries.tick(BOTH, lambda: at_9)
    stays = started.queries[0].active
    queries.tick(BOTH, lambda: set_back)
    queries.start_missing(BOTH, set_back)

    assert (stays, started.queries[0].active) == (True, False)
    assert started.queries[1].offsets == {TaskId(0, 0): None, TaskId(0, 1): None}


def test_micro_batch_that_ends_while_a_query_is_looked_at_does_not_end_it() -> None:
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)

    def newest() -> SlotReport:
        started.brought[0][TaskId(0, 0)] = Brought(1, 9)
        return REPORT

    queries.tick(BOTH, newest)

    assert started.queries[0].active


def test_all_queries_end_when_the_slot_stops() -> None:
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)

    queries.tick(SlotGoal(stopping=True), lambda: REPORT)

    assert not started.queries[0].active


def ended(query: FakeQuery, error: str = "Cannot fetch offset 7") -> None:
    query.active, query.error = False, error


def test_error_of_a_query_stays_with_its_tasks_until_others_run_for_a_while() -> None:
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0])

    assert queries.tick(BOTH, lambda: REPORT) is True
    assert {task: failure.cause.message for task, failure in queries.failures.items()} == dict.fromkeys(
        (TaskId(0, 0), TaskId(0, 1)), "Cannot fetch offset 7"
    )

    queries.start_missing(BOTH, REPORT)
    assert queries.tick(BOTH, lambda: REPORT) is False
    assert set(queries.failures) == {TaskId(0, 0), TaskId(0, 1)}

    for query in started.queries[1:]:
        query.active_for_s = 6.0
    queries.tick(BOTH, lambda: REPORT)
    assert queries.failures == {}


def test_query_may_begin_earlier_unless_the_one_before_met_an_error() -> None:
    started = Started()
    queries = slot_queries(started, overlap=lambda tasks: {**tasks, TaskId(0, 0): 6})
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0])
    queries.tick(BOTH, lambda: REPORT)
    queries.start_missing(BOTH, REPORT)

    assert [query.offsets for query in started.queries] == [
        {TaskId(0, 0): 6, TaskId(0, 1): None},
        {TaskId(0, 0): 7},
        {TaskId(0, 1): None},
    ]


def test_task_that_ends_its_queries_stops_no_other_and_is_given_up_after_some_tries() -> None:
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0])
    queries.tick(BOTH, lambda: REPORT)
    queries.start_missing(BOTH, REPORT)
    culprit, other = started.queries[1:]
    assert [query.offsets for query in (culprit, other)] == [{TaskId(0, 0): 7}, {TaskId(0, 1): None}]

    other.active_for_s = 6.0
    for _ in range(10):
        ended(started.queries[-1] if len(started.queries) > 3 else culprit)
        queries.tick(BOTH, lambda: REPORT)
        queries.start_missing(BOTH, REPORT)

    assert other.active
    assert set(queries.failures) == {TaskId(0, 0)}
    assert queries.failures[TaskId(0, 0)].given_up
    assert len(started.queries) < 10


@pytest.mark.parametrize(
    ("generation", "replay"),
    [pytest.param(2, None, id="a-newer-generation"), pytest.param(1, "replay-1", id="a-replay")],
)
def test_task_that_was_given_up_is_tried_again_where_a_person_asks_for_it(generation: int, replay: str | None) -> None:
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0], "pyspark.errors.AnalysisException: [UNRESOLVED_COLUMN] customer?")
    queries.tick(BOTH, lambda: REPORT)
    assert queries.failures[TaskId(0, 0)].given_up

    again = SlotGoal((plan(0, generation=generation, replay=replay), plan(1)))
    newer = SlotReport({**REPORT.statuses, TaskId(0, 0): status_of(0, generation=generation, source_offset=7)})
    queries.tick(again, lambda: REPORT)
    queries.start_missing(again, newer)
    assert TaskId(0, 0) not in queries.failures
    assert started.queries[-1].offsets == {TaskId(0, 0): 7}


@pytest.mark.parametrize(
    ("error", "given_up"),
    [
        pytest.param("pyspark.errors.AnalysisException: [UNRESOLVED_COLUMN] customer?", True, id="analysis"),
        pytest.param("Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: no", True, id="rights"),
        pytest.param("Caused by: org.apache.kafka.common.errors.TimeoutException: slow", False, id="brokers"),
        pytest.param("airflow_provider.errors.BrokerUnreachableError: no answer", False, id="worker-brokers"),
        pytest.param("airflow_provider.errors.TopicMissingError: not yet", False, id="a-broker-that-just-started"),
    ],
)
def test_what_every_try_meets_is_given_up_at_once_and_brokers_never(error: str, given_up: bool) -> None:
    started = Started()
    queries = slot_queries(started)
    for _ in range(1 if given_up else 20):
        queries.start_missing(BOTH, REPORT)
        for query in started.queries:
            if query.active:
                ended(query, error)
        queries.tick(BOTH, lambda: REPORT)

    assert {failure.given_up for failure in queries.failures.values()} == {given_up}
    before = len(started.queries)
    queries.start_missing(BOTH, REPORT)
    assert (len(started.queries) == before) is given_up


def test_value_that_a_step_cannot_compute_with_fails_its_own_task_once_that_is_read_alone() -> None:
    error = "pyspark.errors.exceptions.captured.ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0], error)
    queries.tick(BOTH, lambda: REPORT)
    assert not any(failure.given_up for failure in queries.failures.values())

    queries.start_missing(BOTH, REPORT)
    ended(started.queries[1], error)
    started.queries[2].active_for_s = 6.0
    queries.tick(BOTH, lambda: REPORT)

    (task, failure), *others = queries.failures.items()
    assert (task, failure.given_up, failure.cause.kind, others) == (TaskId(0, 0), True, "StepError", [])
    assert failure.cause.message.startswith("in[0]: A step's expression")
    assert started.queries[2].active


def test_query_that_cannot_even_start_fails_its_tasks_and_not_the_slot() -> None:
    def refuse(*_: object) -> FakeQuery:
        raise TypeError("of the job")

    queries = slot_queries(refuse)

    assert queries.start_missing(BOTH, REPORT) is True
    assert {failure.cause.kind for failure in queries.failures.values()} == {"TypeError"}
    assert all(failure.given_up for failure in queries.failures.values())


def lost_up_to(end: int) -> Callable[[Mapping[TaskId, int | None]], Mapping[TaskId, LostInput]]:
    return lambda tasks: lost_input(tasks, dict.fromkeys((0, 1), end), {})


def ends_at(end: int) -> Callable[[Mapping[TaskId, int | None]], Mapping[TaskId, LostInput]]:
    return lambda tasks: lost_input(tasks, {}, dict.fromkeys((0, 1), end))


@pytest.mark.parametrize("goes_on", [False, True], ids=["fail", "continue"])
def test_lost_input_ends_its_own_task_or_is_counted_by_the_jobs_policy(goes_on: bool) -> None:
    started = Started()
    queries = slot_queries(started, lost_up_to(12), goes_on)
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0], "Cannot fetch offset 7: some data may have been lost")
    queries.tick(BOTH, lambda: REPORT)
    queries.start_missing(BOTH, REPORT)

    if goes_on:
        assert [query.offsets for query in started.queries[1:]] == [{TaskId(0, 0): 12}, {TaskId(0, 1): None}]
        assert queries.lost.of_tasks == {TaskId(0, 0): 5}
        ended(started.queries[1])
        queries.tick(BOTH, lambda: REPORT)
        queries.start_missing(BOTH, REPORT)
        assert queries.lost.of_tasks == {TaskId(0, 0): 5}
    else:
        assert [query.offsets for query in started.queries[1:]] == [{TaskId(0, 1): None}]
        failure = queries.failures[TaskId(0, 0)]
        assert list(queries.failures) == [TaskId(0, 0)], "the other task of its query has lost nothing"
        assert (failure.cause.kind, failure.given_up) == ("InputLostError", True)
        assert "in[0]: the offsets 7 to 11 (5 records at the most)" in failure.cause.message
        assert "on_data_loss('continue')" in failure.cause.message


def test_lost_input_is_the_first_that_is_said_of_a_query_that_ended_for_want_of_it() -> None:
    started = Started()
    queries = slot_queries(started, lost_up_to(12))
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0], "Cannot fetch offset 7: some data may have been lost")

    assert queries.tick(BOTH, lambda: REPORT) is True

    assert {task: failure.cause.kind for task, failure in queries.failures.items()} == {TaskId(0, 0): "InputLostError"}


def test_query_whose_brokers_do_not_say_what_is_lost_is_reported_as_spark_does() -> None:
    def find_lost(_: object) -> Mapping[TaskId, LostInput]:
        raise BrokerUnreachableError("no broker answered")

    started = Started()
    queries = slot_queries(started, find_lost)
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0])

    assert queries.tick(BOTH, lambda: REPORT) is True

    assert {failure.cause.message for failure in queries.failures.values()} == {"Cannot fetch offset 7"}


@pytest.mark.parametrize("goes_on", [False, True], ids=["fail", "continue"])
def test_source_whose_end_fell_back_skips_nothing_in_silence(goes_on: bool) -> None:
    started = Started()
    queries = slot_queries(started, ends_at(4), goes_on)
    queries.start_missing(BOTH, REPORT)
    ended(started.queries[0], "Partition in-0's offset was changed from 7 to 4, some data may have been missed")
    queries.tick(BOTH, lambda: REPORT)
    queries.start_missing(BOTH, REPORT)

    if goes_on:
        assert [query.offsets for query in started.queries[1:]] == [{TaskId(0, 0): 4}, {TaskId(0, 1): None}]
        assert queries.lost.of_tasks == {TaskId(0, 0): 3}
    else:
        assert [query.offsets for query in started.queries[1:]] == [{TaskId(0, 1): None}]
        failure = queries.failures[TaskId(0, 0)]
        assert (failure.cause.kind, failure.given_up) == ("InputLostError", True)
        assert "in[0] ends at offset 4" in failure.cause.message
        assert "the offsets 4 to 6 now (3 records at the most) would be skipped" in failure.cause.message


def test_end_that_falls_back_is_counted_once_although_it_grows_meanwhile() -> None:
    started, end = Started(), [4]
    queries = slot_queries(started, lambda tasks: ends_at(end[0])(tasks), goes_on=True)
    queries.start_missing(BOTH, REPORT)
    for end[0] in (4, 6):
        ended(next(query for query in started.queries if query.active), "some data may have been missed")
        queries.tick(BOTH, lambda: REPORT)
        queries.start_missing(BOTH, REPORT)

    assert queries.lost.of_tasks == {TaskId(0, 0): 3}


def test_query_that_left_by_itself_is_forgotten_without_an_error() -> None:
    started = Started()
    queries = slot_queries(started)
    queries.start_missing(BOTH, REPORT)
    started.queries[0].active = False

    assert queries.tick(BOTH, lambda: REPORT) is False
    queries.start_missing(BOTH, REPORT)

    assert queries.failures == {}
    assert len(started.queries) == 2
    assert [query.cleared for query in started.queries] == [True, False]  # what it left on the disk is removed


def test_query_that_may_not_read_its_source_is_tried_again_ever_less_often() -> None:
    started, now = Started(), 0.0
    queries = slot_queries(started, clock=lambda: now)
    alone = SlotGoal((plan(0),))
    tried: list[float] = []

    for second in range(40):
        now = float(second)
        before = len(started.queries)
        queries.start_missing(alone, REPORT)
        if len(started.queries) > before:
            tried.append(now)
            ended(started.queries[-1], "org.apache.kafka.common.errors.TopicAuthorizationException: [in]")
            queries.tick(alone, lambda: REPORT)
        assert queries.failures[TaskId(0, 0)].given_up

    assert tried == [0.0, 5.0, 15.0, 35.0]
