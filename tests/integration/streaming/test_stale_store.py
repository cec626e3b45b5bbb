"""A store that must not be resumed is restored afresh, and what was found is kept for people to look at."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider.changelog.commit_record import COMMIT_KEY, SourcePosition
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState, TaskStatus
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.store import Store
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from tests.builders import commit_of
from tests.integration.streaming.application import Application, InstancePlans, active, standby, the_only
from tests.integration.streaming.committed import commits, newest_by_key, records_of
from tests.integration.streaming.orders import batches_of, random_orders, record_batches
from tests.waiting import wait_until

ORDERS = random_orders(seed=11, number=80)
FIRST, SECOND = batches_of(ORDERS, 40)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def process_first(application: Application) -> InstancePlans:
    """An instance that committed the first batch and let go."""
    plans = application.instance("i1")
    plan = plans.plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, FIRST)), False)
    application.settle()
    return plans


def tamper(plans: InstancePlans, change: Callable[[Position], Position]) -> None:
    """Give the store a key that its changelog never had, and another position."""
    store = Store(plans.directory.database(TaskId(0, 0)), ["state"])
    assert store.position is not None
    store.write({"state": [(b"bogus", b"1")]}, change(store.position))
    store.close()


def applied(position: Position) -> ChangelogPosition:
    (at,) = position.changelogs.values()
    return at


def moved(position: Position, **change: int) -> Position:
    ((changelog, at),) = position.changelogs.items()
    return position.moved(changelog, dataclasses.replace(at, **change), position.commit)  # type: ignore[arg-type]


def slept(position: Position) -> Position:
    return moved(position, complete_at_ms=now_ms() - 25 * 3_600_000)


def past_the_end(position: Position) -> Position:
    return moved(position, offset=applied(position).offset + 1_000_000)


def of_another_changelog(position: Position) -> Position:
    return dataclasses.replace(position, changelogs={"other-state-changelog": applied(position)})


def delete_records(application: Application, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": application.connection.bootstrap_servers})
    (done,) = admin.delete_records([TopicPartition(application.changelog, 0, before)]).values()
    done.result(30)


def recreate(application: Application, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": application.connection.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    topics = TopicAdmin(application.connection)
    wait_until(lambda: topics.describe(topic) is None, 30, f"{topic} to be gone")
    changelog = changelog_spec(application.spec.application_id, "state", 1)
    topics.ensure([changelog if topic == changelog.name else TopicSpec(name=topic, partitions=1)])


@pytest.fixture(params=[active, standby], ids=["active", "standby"])
def task(request: pytest.FixtureRequest) -> TaskPlan:
    kind: Callable[[int, int], TaskPlan] = request.param
    return kind(0, 3)


def is_ready(status: TaskStatus) -> bool:
    return status.state is TaskState.RUNNING or (status.role is Role.STANDBY and status.lag_records == 0)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(slept, id="not-applied-for-longer-than-deletions-are-kept"),
        pytest.param(past_the_end, id="position-past-the-end"),
        pytest.param(of_another_changelog, id="applied-from-another-changelog"),
    ],
)
def test_store_that_must_not_be_resumed_is_moved_aside_and_restored(
    change: Callable[[Position], Position], task: TaskPlan, application: Application
) -> None:
    plans = process_first(application)
    tamper(plans, change)

    with closing(Slot(plans.plan(task))) as slot:
        status = the_only(slot.call(plans.plan(task), (), False))

    assert is_ready(status)
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert plans.stored() == newest_by_key(changelog)
    (aside,) = plans.quarantined
    found = Store(aside, ["state"])
    assert found.get_many("state", [b"bogus"]) == [b"1"]
    found.close()


def zero_manifest(store: Path) -> None:
    (manifest,) = store.glob("MANIFEST-*")
    manifest.write_bytes(b"\0" * manifest.stat().st_size)


def lose_table(store: Path) -> None:
    tables = list(store.glob("*.sst"))
    assert tables
    for file in tables:
        file.unlink()


def scribble_table(store: Path) -> None:
    tables = list(store.glob("*.sst"))
    assert tables
    for file in tables:
        file.write_bytes(bytes(byte ^ 0xFF for byte in file.read_bytes()))


@pytest.mark.parametrize("damage", [zero_manifest, lose_table, scribble_table], ids=lambda damage: damage.__name__)
def test_corrupted_store_is_moved_aside_and_restored(
    damage: Callable[[Path], None], task: TaskPlan, application: Application
) -> None:
    plans = process_first(application)
    damage(plans.directory.database(TaskId(0, 0)))

    with closing(Slot(plans.plan(task))) as slot:
        status = the_only(slot.call(plans.plan(task), (), False))

    assert is_ready(status)
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert plans.stored() == newest_by_key(changelog)
    assert len(plans.quarantined) == 1


def test_lost_state_folder_is_restored_from_the_changelog(task: TaskPlan, application: Application) -> None:
    plans = process_first(application)
    shutil.rmtree(plans.settings.state_dir)

    with closing(Slot(plans.plan(task))) as slot:
        status = the_only(slot.call(plans.plan(task), (), False))

    assert is_ready(status)
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert plans.stored() == newest_by_key(changelog) != {}
    assert plans.quarantined == []


@pytest.fixture
def truncated(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Application:
    """Somebody let the brokers delete from the changelog: a compacted topic cannot be cut."""
    policy = {"cleanup.policy": "compact,delete"}
    return Application.create(bootstrap_servers, application_id, tmp_path, changelog_config=policy)


def test_store_before_the_start_of_a_cut_changelog_is_restored(task: TaskPlan, truncated: Application) -> None:
    application = truncated
    plans = process_first(application)
    other = application.instance("i2")
    with closing(Slot(other.plan(active(0, 2)))) as slot:
        slot.call(other.plan(active(0, 2)), (), False)
        slot.call(other.plan(active(0, 2)), record_batches((0, SECOND)), False)
    end = records_of(application.connection.bootstrap_servers, application.changelog)[-1].offset
    delete_records(application, end - 1)

    with closing(Slot(plans.plan(task))) as slot:
        status = the_only(slot.call(plans.plan(task), (), False))

    assert is_ready(status)
    assert plans.stored() == newest_by_key(records_of(application.connection.bootstrap_servers, application.changelog))
    assert len(plans.quarantined) == 1


@pytest.mark.parametrize("task", [active(0, 3), standby(0, 3)], ids=["promoted", "demoted"])
def test_held_store_is_restored_when_its_changelog_was_cut_meanwhile(task: TaskPlan, truncated: Application) -> None:
    old, new = truncated.instance("i1"), truncated.instance("i2")
    with closing(Slot(old.plan(active(0)))) as held, closing(Slot(new.plan(active(0, 2)))) as owner:
        held.call(old.plan(active(0)), (), False)
        held.call(old.plan(active(0)), record_batches((0, FIRST)), False)
        owner.call(new.plan(active(0, 2)), (), False)
        owner.call(new.plan(active(0, 2)), record_batches((0, SECOND)), False)
        end = records_of(truncated.connection.bootstrap_servers, truncated.changelog)[-1].offset
        delete_records(truncated, end - 1)

        outdated = the_only(held.call(old.plan(task), (), False))
        restored = the_only(held.call(old.plan(task), (), False))

    assert outdated.error_kind == "StoreOutdatedError"
    assert is_ready(restored)
    assert restored.error is None
    assert old.stored() == newest_by_key(records_of(truncated.connection.bootstrap_servers, truncated.changelog))
    assert len(old.quarantined) == 1


def test_store_whose_changelog_was_created_again_is_kept_until_a_replay_is_asked_for(
    task: TaskPlan, application: Application
) -> None:
    plans = process_first(application)
    state = plans.stored()
    recreate(application, application.changelog)
    again = application.started_again().instance("i1")

    with closing(Slot(again.plan(task))) as slot:
        refused = the_only(slot.call(again.plan(task), (), False))
    assert (plans.stored(), plans.quarantined) == (state, [])
    replay = dataclasses.replace(task, replay="the-state-may-be-lost")
    with closing(Slot(again.plan(replay))) as slot:
        replayed = the_only(slot.call(again.plan(replay), (), False))

    assert (refused.error_kind, is_ready(refused)) == ("TopicMismatchError", False)
    assert "deleted and created again" in str(refused.error)
    assert (is_ready(replayed), replayed.source_offset) == (True, None)
    assert plans.stored() == {}
    assert len(plans.quarantined) == 1


def test_source_that_was_created_again_and_has_grown_past_the_old_offset_is_refused(application: Application) -> None:
    process_first(application)
    recreate(application, application.spec.input.topic)
    plans = application.started_again().instance("i2")

    with closing(Slot(plans.plan(active(0, 2)))) as slot:
        refused = the_only(slot.call(plans.plan(active(0, 2)), (), False))
        slot.call(plans.plan(active(0, 2)), record_batches((0, SECOND)), False)

    assert (refused.state, refused.error_kind) == (TaskState.FAILED, "TopicMismatchError")
    assert f"up to offset {FIRST[-1].offset + 1}," in str(refused.error)
    records = records_of(application.connection.bootstrap_servers, application.changelog)
    assert len(commits(records, 0)) == 1


@pytest.fixture
def foreign(application: Application) -> Application:
    """The changelog holds another application's commit."""
    theirs = commit_of(
        application_id="other-application",
        instance="i9",
        committed_at_ms=now_ms(),
        sources={"orders": SourcePosition(5)},
    )
    producer = Producer({"bootstrap.servers": application.connection.bootstrap_servers})
    producer.produce(application.changelog, b"1", b"theirs", partition=0)
    producer.produce(application.changelog, theirs.to_bytes(), COMMIT_KEY, partition=0)
    assert producer.flush(30) == 0
    return application


def test_another_applications_changelog_is_refused(task: TaskPlan, foreign: Application) -> None:
    plans = foreign.instance("i1")
    plan = plans.plan(task)
    with closing(Slot(plan)) as slot:
        statuses = [the_only(slot.call(plan, (), False)) for _ in range(2)]
        slot.call(plan, record_batches((0, FIRST)), False)

    for status in statuses:
        assert status.error_kind == "TopicMismatchError"
        assert "other-application" in str(status.error)
        assert status.state is not TaskState.RUNNING
        assert not status.warm
    assert records_of(foreign.connection.bootstrap_servers, str(foreign.spec.sink_topic)) == []


@pytest.mark.parametrize("task", [active(0), standby(0)], ids=["active", "standby"])
def test_quiet_store_is_never_taken_for_one_that_slept(
    task: TaskPlan, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.changelog.completeness._TOUCH_MS", 50)
    plans = process_first(application)
    plan = plans.plan(task, budget_s=0.0)
    slot = Slot(plan)
    wait_until(lambda: is_ready(the_only(slot.call(plan, (), False))), 30, "the end of the changelog")
    if task.role is Role.ACTIVE:
        slot.call(plan, record_batches((0, SECOND)), False)
    ready_ms = now_ms()

    # Nothing comes, for as many rounds as it takes the clock to move on.
    wait_until(lambda: slot.call(plan, (), False) and now_ms() > ready_ms + 500, 30, "quiet rounds")
    slot.close()

    store = Store(plans.directory.database(TaskId(0, 0)), ["state"])
    position = store.position
    store.close()
    assert position is not None
    assert applied(position).complete_at_ms > ready_ms


def test_owner_that_was_followed_by_another_is_not_kept_fresh(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.changelog.completeness._TOUCH_MS", 0)
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(old.plan(active(0)))) as zombie, closing(Slot(new.plan(active(0, 2)))) as owner:
        zombie.call(old.plan(active(0)), (), False)
        zombie.call(old.plan(active(0)), record_batches((0, FIRST)), False)
        owner.call(new.plan(active(0, 2)), (), False)
        owner.call(new.plan(active(0, 2)), record_batches((0, SECOND)), False)
        # A commit returns before its marker is written; until then nobody can know that something followed.
        servers = application.connection.bootstrap_servers
        wait_until(
            lambda: commits(records_of(servers, application.changelog), 0)[-1]["generation"] == 2, 30, "the commit"
        )
        taken_over_ms = now_ms()
        assert the_only(zombie.call(old.plan(active(0)), (), False)).state is TaskState.RUNNING

    store = Store(old.directory.database(TaskId(0, 0)), ["state"])
    position = store.position
    store.close()
    assert position is not None
    assert applied(position).complete_at_ms <= taken_over_ms
