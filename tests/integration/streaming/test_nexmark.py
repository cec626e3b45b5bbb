"""Queries of Nexmark on real instances: a worker is killed, and two failovers follow.

Some queries at a time are one application, so that they share a broker and instances. What their sinks come to is
compared with batch SQL, which knows nothing of instances.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from airflow_provider.common.task_id import tasks_of
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.job_description import TopicKind
from airflow_provider.control.records.status import InstanceState, Role, TaskState, TaskStatus
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.testing.source_rows import local_spark
from tests.benchmarks.gate import committed_ends
from tests.brokers import settings_of_broker
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import records_of
from tests.nexmark import job
from tests.nexmark.generator import Event, Model, side_input
from tests.nexmark.oracle import Oracle
from tests.nexmark.queries import QUERIES
from tests.nexmark.results import CLOSING, Row, differences, rows_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

GROUPS: Final = (
    ("q0", "q5", "q8"),
    ("q3", "q7", "q13"),
    ("q4", "q9", "q20"),
    ("q1", "q2", "q11", "q14", "q15", "q16", "q17", "q18", "q19", "q21", "q22"),
)
"""All of them: about as many stages each, and something that comes out at once in each. The first is a long test, the
others run with those of the marker `schedules`."""
RUNNING: Final = TaskState.RUNNING
PARTITIONS: Final = 2
EVENTS: Final = 3_000
BATCH: Final = 100
"""Records of a micro-batch."""
_PART: Final = 50
_FEW: Final = 100
"""So few are to be unprocessed before the next ones are sent."""
_AT_THE_LATEST_S: Final = 10.0
"""After that some are sent all the same: a partition in which nothing comes for a minute is not waited for."""
DEADLINE_S: Final = 1200.0
SIDE_INPUT: Final = side_input(range(1_000, 1_200))


class RunningQueries(Accounts):
    """The application of some of them, and the events of a model, of which each part is sent once."""

    def __init__(self, bootstrap_servers: str, queries: Sequence[str], folder: Path, model: Model) -> None:
        super().__init__(bootstrap_servers, "nexmark", folder, num_tasks=1, seed=1)
        self.job = (str(job.__file__), self.id, *queries, "--batch", str(BATCH))
        self.queries, self.model, self.events = queries, model, model.stream()
        self._left, self._sent_at = list(self.events), 0.0
        admin, description = TopicAdmin(self.connection), job.job_of(self.id, queries).description()
        self.sources = description.names(TopicKind.SOURCE)
        admin.ensure([TopicSpec(name=name, partitions=PARTITIONS) for name in self.sources])
        described, _ = create_described_topics(admin, description)
        write_control(self.connection, self.id, described)
        self.tasks = tasks_of(described.num_partitions)
        self._sender = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def share(self, active: Sequence[str], standby: str | None = None) -> None:
        """The tasks go to these in turn, and have a standby where it is another one."""
        chosen = {task: active[number % len(active)] for number, task in enumerate(self.tasks)}
        others = {task: standby for task, name in chosen.items() if standby not in (None, name)}
        self.give(chosen, others)
        self.wait(self.given, "the tasks to run, and warm copies of them")

    def given(self) -> bool:
        """Whether the newest assignment is carried out, wherever the tasks are in their input by now."""
        view = self.view
        return view.assignment is not None and all(
            (copy := view.statuses[name].task(task)) is not None
            and (copy.ready if name in of.standbys else (copy.state, copy.generation) == (RUNNING, of.active_since))
            for task, of in view.assignment.tasks.items()
            for name in (of.active, *of.standbys)
            if name is not None
        )

    def send(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.topic in self.sources:
                self._sender.produce(event.topic, json.dumps(event.value), event.key)
        assert self._sender.flush(60) == 0

    def wait(self, predicate: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Meanwhile the events go on."""

        def asked() -> bool:
            self._go_on()
            return predicate()

        super().wait(asked, what, deadline_s)

    def _go_on(self) -> None:
        """Send some more events, so that all that befalls an instance befalls each query in the midst of them."""
        tasks, now = self.active_tasks(), time.monotonic()
        few = len(tasks) == len(self.tasks) and sum(task.source.lag_records or 0 for task in tasks) < _FEW
        if self._left and now > self._sent_at + (1.0 if few else _AT_THE_LATEST_S):
            self.send(self._left[:_PART])
            del self._left[:_PART]
            self._sent_at = now

    def wait_until_sent(self, share: float) -> None:
        self.wait(lambda: len(self._left) <= (1 - share) * len(self.events), f"{share} of the events to be sent")

    def written(self) -> Counter[str]:
        """By query, where its committed records end, over the partitions."""
        partitions = {query: [TopicPartition(query, number) for number in range(PARTITIONS)] for query in self.queries}
        return Counter({query: sum(committed_ends(self._admin, of).values()) for query, of in partitions.items()})

    def has_processed_all(self) -> bool:
        return all(task.source.lag_records == 0 for task in self.active_tasks())

    def active_tasks(self) -> list[TaskStatus]:
        return [
            task
            for status in self.view.statuses.values()
            if status.state.alive
            for task in status.tasks
            if task.role is Role.ACTIVE
        ]

    def rows(self, query: str) -> list[Row]:
        """Of its sink, as it is now."""
        records = records_of(self.connection.bootstrap_servers, query, settled=False)
        return rows_of(query, ((one.key.decode(), json.loads(one.value)) for one in records if one.value is not None))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = local_spark()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    yield session
    session.stop()


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningQueries]:
    """On a broker of its own: the topics have the queries' names."""
    model = Model(events=EVENTS, seed=random.randrange(2**32))
    print(model)
    with EmbeddedBroker(settings_of_broker(tmp_path / "kafka")) as broker:
        running = RunningQueries(broker.bootstrap_servers, request.param, tmp_path, model)
        yield running
        running.close()


@pytest.mark.parametrize(
    "running",
    [pytest.param(group, marks=[] if number == 0 else pytest.mark.schedules) for number, group in enumerate(GROUPS)],
    ids="-".join,
    indirect=True,
)
def test_queries_come_to_what_sql_says_though_a_worker_and_two_instances_are_killed(
    running: RunningQueries, spark: SparkSession
) -> None:
    events, closing = running.events, running.model.closing()
    running.send(SIDE_INPUT)
    for name in ("i1", "i2", "i3"):
        running.launch(name, master="local[1]")
    for name in ("i1", "i2", "i3"):
        running.wait_for_state(name, InstanceState.RUNNING, DEADLINE_S)
    running.share(["i1", "i2"], "i3")

    running.wait_until_sent(0.25)
    running.worker_of("i1", 0).send_signal(signal.SIGKILL)

    running.wait_until_sent(0.5)
    running.signal("i2", signal.SIGKILL)
    running.wait_for_state("i2", InstanceState.ENDED)
    running.share(["i1", "i3"], "i3")

    running.wait_until_sent(0.75)
    running.signal("i1", signal.SIGKILL)
    running.wait_for_state("i1", InstanceState.ENDED)
    at_the_last = running.written()
    running.share(["i3"])
    running.wait_until_sent(1.0)
    running.send(closing)

    first, all_of_them = Oracle(spark, [*SIDE_INPUT, *events]), Oracle(spark, [*SIDE_INPUT, *events, *closing])
    wanted = {query: (first if query in CLOSING else all_of_them).rows(query) for query in running.queries}
    assert all(wanted.values())
    assert at_the_last.total() < sum(map(len, wanted.values())), "the last failover found nothing to do"
    wrong = dict.fromkeys(running.queries, "not looked at")

    def nothing_is_wrong() -> bool:
        for query, rows in wanted.items():
            wrong[query] = wrong[query] and differences(rows, running.rows(query))
        return not any(wrong.values())

    try:
        running.wait(nothing_is_wrong, "all results", DEADLINE_S)
    finally:
        print("\n".join(f"{query}: {found}" for query, found in wrong.items() if found))
    # Nothing comes twice after that.
    running.wait(running.has_processed_all, "the last events to be processed", DEADLINE_S)
    assert not [query for query, rows in wanted.items() if differences(rows, running.rows(query))]
    assert {(task.late_records, task.failed_records) for task in running.active_tasks()} == {(0, 0)}


def test_every_query_is_in_a_group() -> None:
    assert sorted(query for group in GROUPS for query in group) == sorted(QUERIES)
