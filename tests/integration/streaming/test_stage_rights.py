"""A job of two stages, the second with windows, under ACLs: nobody has more rights than the page lists."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil
import pytest
from confluent_kafka import Producer

from airflow_provider.cli.main import main
from airflow_provider.common.files import create_private_file
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.application.job_topics import application_tasks
from airflow_provider.control.application.rights import Acl, Resource, Role, acls_of
from airflow_provider.control.application.topic_repair import find_described_problems
from airflow_provider.control.drills.outputs import count_outputs, take_cut
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceState, TaskState
from airflow_provider.control.topics.commits import CommitTopics
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.guarded_broker import LOGIN, GuardedBroker
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import ends_of, newest_by_key, records_of
from tests.integration.streaming.pages_job import PARTITIONS, WINDOW_MS, job_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).parent / "pages_job.py"
SOURCES: Final = 2
"""Partitions of the source."""
TASKS = (*(TaskId(0, number) for number in range(SOURCES)), *(TaskId(1, number) for number in range(PARTITIONS)))
ROUND_MS = 60_000
"""Beyond the watermark, so that each round ends the windows of those before."""
PAGES = [f"page-{number}" for number in range(30)]


class Pages(Accounts):
    """The application, with visits for orders. Airflow's part is done as another user than the instance's."""

    def __init__(self, guarded: GuardedBroker, application_id: str, folder: Path) -> None:
        self.guarded, self.description = guarded, job_of(application_id).description()
        guarded.grant_for(self.description, Role.INSTANCE)
        guarded.grant_for(self.description, Role.AIRFLOW, user=guarded.another)
        guarded.grant_for(self.description, Role.VIEWER, user=guarded.guest)
        self.visits, self.sink = f"{application_id}-visits", f"{application_id}-page-counts"
        producers = TopicAdmin(guarded.as_admin)
        producers.ensure([TopicSpec(name=self.visits, partitions=SOURCES)])
        described, _ = create_described_topics(TopicAdmin(guarded.another), self.description)
        write_control(guarded.another, application_id, described)
        super().__init__(guarded.bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.job = (str(JOB), application_id)
        self.truth: Counter[str] = Counter()
        self._sender = Producer({"bootstrap.servers": guarded.bootstrap_servers})
        self._rounds = 0

    def start(self) -> None:
        plain, self.connection = self.connection, self.guarded.user
        self.launch("i1")
        self.connection = plain
        given = {task: TaskAssignment(active="i1", standbys=()) for task in TASKS}
        publisher = AssignmentPublisher(self.guarded.another, self.id)
        publisher.publish(Assignment.empty(self.id, TASKS).next(given, "the test says so", carried_out=0))

    def visit(self) -> None:
        """A round: each page in each of two windows, from each partition of the source."""
        begin = self._rounds * ROUND_MS
        self._rounds += 1
        for start in (begin, begin + WINDOW_MS):
            for number, page in enumerate(PAGES):
                for partition in range(SOURCES):
                    self._sender.produce(self.visits, json.dumps({"page": page, "at": start + number}), None, partition)
                at = datetime.fromtimestamp(start / 1000, UTC).isoformat(timespec="milliseconds")
                self.truth[f"{page}@{at.replace('+00:00', 'Z')}"] += SOURCES
        assert self._sender.flush(30) == 0

    def send_what_cannot_be_read(self) -> None:
        self._sender.produce(self.visits, b"no JSON", b"no page", 0)
        assert self._sender.flush(30) == 0

    def counted(self) -> bool:
        records = records_of(self.guarded.bootstrap_servers, self.sink, settled=False)
        newest = newest_by_key(records)
        return {key.decode(): json.loads(value)["n"] for key, value in newest.items() if value} == dict(self.truth)


@pytest.fixture(scope="module")
def pages(guarded: GuardedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    id_ = f"pages-{uuid.uuid4().hex[:8]}"
    with closing(Pages(guarded, id_, tmp_path_factory.mktemp(id_))) as made:
        made.start()
        made.wait_for_state("i1", InstanceState.RUNNING, 600)
        yield made


def test_stages_and_windows_need_no_more_rights_than_the_page_lists(
    pages: Pages, guarded: GuardedBroker, tmp_path: Path
) -> None:
    airflow = guarded.another
    for _ in range(5):
        pages.visit()
        pages.wait(pages.counted, "the visits of a round to be counted", 600)
    pages.send_what_cannot_be_read()

    # Airflow's: who has which tasks, whether the topics are as needed, and what came out.
    assert application_tasks(airflow, pages.id, "state") == TASKS
    with ControlReader(airflow, pages.id) as reader:
        view = reader.read_to_end()
    assert view.job is not None
    assert find_described_problems(TopicAdmin(airflow), view, view.job) == ()
    topics = CommitTopics.of(view, "state")
    servers, errors = guarded.bootstrap_servers, f"{pages.id}-errors"
    pages.wait(lambda: sum(ends_of(servers, errors, "read_committed").values()) > 0, "the dead letter", 600)
    before = take_cut(airflow, pages.id, topics, TASKS)
    pages.visit()
    pages.wait(pages.counted, "the last visits to be counted", 600)
    checked = count_outputs(airflow, pages.id, topics, before)
    assert checked.unmeasured is None
    found = {count.topic: (count.missing, count.doubled) for count in checked.counts}
    assert found == {pages.sink: (0, 0), f"{pages.id}-errors": (0, 0)}

    # The instance's: what is processed goes, between the stages and behind the watermark.
    admin = TopicAdmin(guarded.as_admin)
    between, changelog = f"{pages.id}-pages-repartition", f"{pages.id}-pages-changelog"

    def purged() -> bool:
        earliest, ends = (of(between, range(PARTITIONS)) for of in (admin.earliest_offsets, admin.latest_offsets))
        # The last record stays, and behind it the ends of the transactions of those that write there.
        return all(0 < ends[number] - earliest[number] <= 1 + SOURCES for number in range(PARTITIONS))

    pages.wait(purged, "what was processed to be deleted", 600)
    pages.wait(
        lambda: all(admin.earliest_offsets(changelog, range(PARTITIONS)).values()), "the changelog to be cut", 600
    )

    # A viewer's.
    config = tmp_path / "viewer.properties"
    create_private_file(config, LOGIN.format(guarded.guest).encode())
    for command in ("status", "describe", "history", "metrics"):
        assert main([command, pages.id, "--config", str(config)]) == 0, command
    assert not any(task.error for task in pages.status("i1").tasks)


TAKEN_S: Final = 20.0
"""How long a right is away at the most, where nothing is said of it."""


def said_of(pages: Pages, acl: Acl) -> bool:
    """Whether the instance, or one of its tasks, names what it may not use."""
    status = pages.status("i1")
    return any(acl.name in str(error) for error in (status.error, *(task.error for task in status.tasks)))


def kill_workers(pages: Pages) -> None:
    """The next ones know of no failure before, and so do not wait longer after each."""
    for process in pages.processes("i1"):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("pyspark.daemon" in word for word in process.cmdline()) and not process.children():
                process.kill()


def test_rights_that_are_taken_one_after_the_other_and_given_back_cost_no_result_and_need_nobody(
    pages: Pages, guarded: GuardedBroker
) -> None:
    servers, errors = guarded.bootstrap_servers, f"{pages.id}-errors"
    pages.visit()
    pages.wait(pages.counted, "the first visits to be counted", 900)
    launched, unreadable, noticed = pages.status("i1").incarnation, len(records_of(servers, errors)), set[str]()
    for acl in acls_of(Role.INSTANCE, pages.description):
        rules = guarded.take(acl)
        pages.visit()
        pages.send_what_cannot_be_read()
        unreadable += 1
        until = time.monotonic() + TAKEN_S
        while time.monotonic() < until and not said_of(pages, acl):
            time.sleep(0.2)
        if said_of(pages, acl):
            noticed.add(acl.name)
        for rule in rules:
            guarded.allow_again(rule)

        pages.wait(pages.counted, f"the visits to be counted after {acl} was given back", 900)
        pages.wait(
            lambda: all(task.error is None and task.state is TaskState.RUNNING for task in pages.status("i1").tasks),
            f"every task to be well after {acl} was given back",
            900,
        )
        kill_workers(pages)

    pages.wait(lambda: pages.status("i1").error is None, "nothing to be refused any more", 900)
    assert pages.status("i1").incarnation == launched
    assert len(records_of(servers, errors)) == unreadable
    used = {acl.name for acl in acls_of(Role.INSTANCE, pages.description) if acl.resource is Resource.TOPIC}
    assert noticed >= used - {f"{pages.id}-{name}" for name in ("status", "metrics", "lookups")}
