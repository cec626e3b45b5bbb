"""What a missing ACL does to an instance and to its tasks: an error that names the right, until that is given back."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider.control.application.rights import Role
from airflow_provider.control.records.status import InstanceState, TaskState, TaskStatus
from airflow_provider.control.topics.cursor import LOOK_EVERY_S
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.error_decision import is_permanent
from airflow_provider.errors import AccessError
from airflow_provider.kafka.names import assignment_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.streaming.driver.watches.topic_verification import TopicWatch
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from tests.integration.guarded_broker import GuardedBroker
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.application import Application, active, standby, the_only
from tests.integration.streaming.committed import outputs_by_key, records_of
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches
from tests.integration.streaming.refusing_case import RefusingCase, lives
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

ORDERS = random_orders(seed=5, number=80)
BEFORE, AFTER = batches_of(ORDERS, 40)


@pytest.fixture
def application(guarded: GuardedBroker, application_id: str, tmp_path: Path) -> Application:
    """The user has all rights that the page lists, and what lies in the topics was written by another instance."""
    made = Application.create(guarded.bootstrap_servers, application_id, tmp_path)
    guarded.grant(application_id, Role.INSTANCE, source=made.spec.input.topic, sink=str(made.spec.sink_topic))
    plan = made.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, BEFORE)), False)
    made.settle()
    return made


def taken_over(application: Application, guarded: GuardedBroker) -> list[TaskStatus]:
    """What the task is after it was owned and restored, and after rows came, of an instance of the user's."""
    plan = dataclasses.replace(application, connection=guarded.user).instance("i2").plan(active(0, 2))
    with closing(Slot(plan)) as slot:
        calls = [(), record_batches((0, AFTER)), ()]
        return [the_only(slot.call(plan, rows, False)) for rows in calls]


def test_task_needs_no_more_rights_than_the_page_lists(application: Application, guarded: GuardedBroker) -> None:
    owned, processed, _ = taken_over(application, guarded)

    assert (owned.state, owned.error) == (TaskState.RUNNING, None)
    assert (processed.state, processed.error) == (TaskState.RUNNING, None)
    sink = records_of(guarded.bootstrap_servers, str(application.spec.sink_topic))
    assert outputs_by_key(sink) == expected_outputs(ORDERS)


@pytest.mark.parametrize(
    ("kind", "name", "operation", "named"),
    [
        pytest.param(
            ResourceType.TRANSACTIONAL_ID,
            "{}-0_0",
            AclOperation.WRITE,
            ["Describe and Write on the transactional id '{}-0_0' ("],
            id="transactional-id",
        ),
        pytest.param(
            ResourceType.TOPIC,
            "{}-state-changelog",
            AclOperation.READ,
            ["{}-state-changelog[0]", "Read on those that it reads"],
            id="read-the-changelog",
        ),
        pytest.param(
            ResourceType.TOPIC,
            "{}-state-changelog",
            AclOperation.DESCRIBE,
            ["{}-state-changelog[0]", "Describe and DescribeConfigs on its topics"],
            id="describe-the-changelog",
        ),
        pytest.param(
            ResourceType.TOPIC,
            "{}-state-changelog",
            AclOperation.WRITE,
            ["Describe and Write on {}-state-changelog ("],
            id="write-the-changelog",
        ),
        pytest.param(
            ResourceType.TOPIC,
            "{}-sink",
            AclOperation.WRITE,
            ["Describe and Write on {}-sink ("],
            id="write-the-sink",
        ),
        pytest.param(
            ResourceType.TOPIC,
            "{}-source",
            AclOperation.READ,
            ["grant the connection's user Describe and Read on {}-source ("],
            id="commit-what-was-read",
        ),
        pytest.param(ResourceType.GROUP, "{}", AclOperation.READ, ["Read on the consumer group '{}' ("], id="group"),
    ],
)
def test_task_that_lacks_a_right_fails_and_is_held(
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    named: list[str],
    application: Application,
    guarded: GuardedBroker,
) -> None:
    application_id = application.spec.application_id
    guarded.deny(kind, name.format(application_id), operation)

    *_, last = taken_over(application, guarded)

    assert (last.state, last.error_kind) == (TaskState.FAILED, "AccessError")
    assert is_permanent(last.error_kind), "no failover moves it"
    for words in named:
        assert words.format(application_id) in str(last.error)
    sink = records_of(guarded.bootstrap_servers, str(application.spec.sink_topic))
    assert outputs_by_key(sink) == expected_outputs(BEFORE)


def test_warm_standby_that_may_not_read_its_changelog_any_more_says_so_until_it_may(
    application: Application, guarded: GuardedBroker
) -> None:
    i2 = dataclasses.replace(application, connection=guarded.user).instance("i2")
    plan = i2.plan(standby(0), budget_s=0.5)
    with closing(Slot(plan)) as slot:
        wait_until(lambda: the_only(slot.call(plan, (), False)).lag_records == 0, 30.0, "it to be warm")
        rule = guarded.deny(ResourceType.TOPIC, application.changelog, AclOperation.READ)
        owner = application.instance("i1").plan(active(0, 2))
        with closing(Slot(owner)) as active_slot:
            active_slot.call(owner, (), False)
            active_slot.call(owner, record_batches((0, AFTER)), False)

        def said() -> str | None:
            return the_only(slot.call(plan, (), False)).error

        error = wait_until(said, 30.0, "the standby to say so")
        guarded.allow_again(rule)
        wait_until(lambda: the_only(slot.call(plan, (), False)).lag_records == 0, 60.0, "it to be warm again")
    assert f"{application.changelog}[0] is not authorized" in str(error)


@pytest.mark.parametrize("role", [active, standby])
def test_task_that_may_not_be_opened_is_tried_again_by_itself(
    role: Callable[[int, int], TaskPlan], application: Application, guarded: GuardedBroker
) -> None:
    rule = guarded.deny(ResourceType.TOPIC, application.changelog, AclOperation.DESCRIBE)
    plan = dataclasses.replace(application, connection=guarded.user).instance("i2").plan(role(0, 2))
    with closing(Slot(plan)) as slot:
        refused = the_only(slot.call(plan, (), False))
        guarded.allow_again(rule)

        wait_until(lambda: the_only(slot.call(plan, (), False)).error is None, 60.0, "it to be tried again")
        wait_until(lambda: the_only(slot.call(plan, (), False)).lag_records == 0, 60.0, "it to work")

    assert (refused.state, refused.error_kind) == (TaskState.FAILED, "AccessError")
    assert f"{application.changelog}[0] is not authorized" in str(refused.error)


def test_task_that_runs_again_goes_on_where_it_stood_once_its_right_is_given_back(
    application: Application, guarded: GuardedBroker
) -> None:
    plan = dataclasses.replace(application, connection=guarded.user).instance("i2").plan(active(0, 2))
    with closing(Slot(plan)) as slot:
        assert the_only(slot.call(plan, (), False)).state is TaskState.RUNNING
        rule = guarded.deny(ResourceType.TOPIC, str(application.spec.sink_topic), AclOperation.WRITE)
        refused = the_only(slot.call(plan, record_batches((0, AFTER)), False))
        guarded.allow_again(rule)

        def runs() -> bool:
            return the_only(slot.call(plan, (), False)).state is TaskState.RUNNING

        wait_until(runs, 60.0, "it to run again")
        done = the_only(slot.call(plan, record_batches((0, AFTER)), False))

    assert (refused.state, refused.error_kind) == (TaskState.FAILED, "AccessError")
    assert (done.state, done.generation, done.error) == (TaskState.RUNNING, 2, None)
    sink = records_of(guarded.bootstrap_servers, str(application.spec.sink_topic))
    assert outputs_by_key(sink) == expected_outputs(ORDERS)


def test_transaction_timeout_that_the_brokers_refuse_fails_the_task(application: Application) -> None:
    spec = dataclasses.replace(application.spec, transaction_timeout_ms=24 * 3_600_000)
    plan = dataclasses.replace(application, spec=spec).instance("i2").plan(active(0, 2))

    with closing(Slot(plan)) as slot:
        status = the_only(slot.call(plan, (), False))

    assert (status.state, status.error_kind) == (TaskState.FAILED, "ConfigurationError")
    assert "was refused by the brokers" in str(status.error)


@pytest.fixture
def case(guarded: GuardedBroker, application_id: str, tmp_path: Path) -> RefusingCase:
    made = RefusingCase.create(guarded.bootstrap_servers, application_id, tmp_path)
    made.topics()
    guarded.grant(application_id, Role.INSTANCE, source=f"{application_id}-source", sink=f"{application_id}-sink")
    return made


@pytest.mark.parametrize(
    ("topic", "operation"),
    [
        pytest.param("source", AclOperation.DESCRIBE, id="see-the-source"),
        pytest.param("state-changelog", AclOperation.DESCRIBE, id="see-the-changelog"),
        pytest.param("sink", AclOperation.DESCRIBE_CONFIGS, id="settings-of-the-sink"),
        pytest.param("assignment", AclOperation.READ, id="read-the-assignment"),
    ],
)
def test_instance_that_lacks_a_right_ends_with_an_error_that_names_it(
    topic: str, operation: AclOperation, case: RefusingCase, guarded: GuardedBroker
) -> None:
    guarded.deny(ResourceType.TOPIC, f"{case.application_id}-{topic}", operation)

    ended = case.ended(case.launch(guarded.user))

    assert (ended.state, ended.error_kind) == (InstanceState.ENDED, "AccessError")
    assert f"{case.application_id}-{topic}" in str(ended.error)
    assert "Describe and DescribeConfigs on its topics, Read on those that it reads" in str(ended.error)
    assert "check that the brokers answer" not in str(ended.error)


def test_instance_that_may_not_report_itself_ends_with_the_reason_in_its_log(
    case: RefusingCase, guarded: GuardedBroker
) -> None:
    guarded.deny(ResourceType.TOPIC, f"{case.application_id}-status", AclOperation.WRITE)

    launched = case.launch(guarded.user)

    wait_until(lambda: not lives(launched), 120.0, "the launcher to end")
    log = Path(launched.log_file).read_text()
    assert f"{case.application_id}-status is not authorized" in log
    assert f"Describe and Write on the topic {case.application_id}-status (" in log


def test_right_to_look_at_a_topic_is_missed_until_it_is_given_back(case: RefusingCase, guarded: GuardedBroker) -> None:
    source = TopicSpec(name=f"{case.application_id}-source", partitions=2, required=frozenset())
    watch = TopicWatch(TopicAdmin(guarded.user), [source], interval_s=0.2)
    watch.start()
    watch.check()

    rule = guarded.deny(ResourceType.TOPIC, source.name, AclOperation.DESCRIBE_CONFIGS)

    def refused() -> str | None:
        try:
            watch.check()
        except AccessError as error:
            return str(error)
        return None

    said = wait_until(refused, 30.0, "the watch to find it")
    assert f"'{source.name}'" in str(said)
    assert "DescribeConfigs" in str(said)
    guarded.allow_again(rule)
    wait_until(lambda: refused() is None, 30.0, "the watch to go on")
    watch.stop()


def test_reader_of_the_assignment_says_that_it_may_not_read_it_until_it_may(
    case: RefusingCase, guarded: GuardedBroker
) -> None:
    topic = assignment_topic(case.application_id)
    with ControlReader(guarded.user, case.application_id, statuses=False) as reader:
        reader.read_to_end()

        def refused() -> str | None:
            try:
                reader.poll(0.1)
            except AccessError as error:
                return str(error)
            return None

        rule = guarded.deny(ResourceType.TOPIC, topic, AclOperation.READ)
        said = wait_until(refused, 60.0, "the reader to say it")
        until = time.monotonic() + 3 * LOOK_EVERY_S  # over the next looks, after each of which it is another consumer
        while time.monotonic() < until:
            assert refused() == said
        guarded.allow_again(rule)

        wait_until(lambda: refused() is None, 60.0, "it to read again, though nothing was written")
    assert f"Reading {topic} is not authorized" in str(said)


@pytest.fixture(scope="module")
def accounts(guarded: GuardedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    """An instance with the user's rights has both tasks."""
    id_ = f"accounts-{uuid.uuid4().hex[:8]}"
    with closing(Accounts(guarded.bootstrap_servers, id_, tmp_path_factory.mktemp(id_), num_tasks=2, seed=9)) as made:
        guarded.grant(id_, Role.INSTANCE, source=made.orders.topic, sink=made.totals)
        plain, made.connection = made.connection, guarded.user
        made.launch("i1")
        made.connection = plain
        made.assign("i1", "i1")
        yield made


def test_instance_needs_no_more_rights_than_the_page_lists(accounts: Accounts) -> None:
    accounts.orders.write(100, [0, 1])

    accounts.check(120.0)


def test_right_to_read_the_source_that_is_taken_away_fails_the_tasks_until_it_is_given_back(
    accounts: Accounts, guarded: GuardedBroker
) -> None:
    accounts.orders.write(20, [0, 1])
    accounts.check(240.0)

    rule = guarded.deny(ResourceType.TOPIC, accounts.orders.topic, AclOperation.READ)
    accounts.orders.write(20, [0, 1])

    def failed() -> tuple[TaskStatus, ...] | None:
        tasks = accounts.status("i1").tasks
        return tasks if tasks and all(task.state is TaskState.FAILED for task in tasks) else None

    for task in wait_until(failed, 120.0, "the tasks to fail") or ():
        assert task.error_kind == "AccessError"
        assert accounts.orders.topic in str(task.error)
        assert "Read on those that it reads" in str(task.error)

    guarded.allow_again(rule)
    accounts.check(240.0)
    wait_until(lambda: not failed(), 120.0, "no task to be failed any more")
