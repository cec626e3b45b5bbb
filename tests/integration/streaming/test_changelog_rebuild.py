"""A changelog that was deleted is written again from a store, and the stream goes on where it was."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import changelog_spec
from airflow_provider.state.store import Store
from airflow_provider.streaming.changelog_rebuild import main
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, InstancePlans, active, standby, the_only
from tests.integration.streaming.committed import newest_by_key, outputs_by_key, records_of
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches
from tests.waiting import wait_until

ORDERS = random_orders(seed=5, number=80)
FIRST, SECOND = batches_of(ORDERS, 40)


@pytest.fixture
def plans(application: Application) -> InstancePlans:
    """An instance that committed the first batch and let go; then the changelog is lost, and created again."""
    plans = application.instance("i1")
    with closing(Slot(plans.plan(active(0)))) as slot:
        slot.call(plans.plan(active(0)), (), False)
        slot.call(plans.plan(active(0)), record_batches((0, FIRST)), False)
    lose_changelog(application)
    return plans


def lose_changelog(application: Application) -> None:
    """Delete it once all of it can be seen, and create it again, empty."""
    application.settle()
    admin = AdminClient({"bootstrap.servers": application.connection.bootstrap_servers})
    admin.delete_topics([application.changelog])[application.changelog].result(30)
    topics = TopicAdmin(application.connection)
    wait_until(lambda: topics.describe(application.changelog) is None, 30, "the changelog to be gone")
    topics.ensure([changelog_spec(application.spec.application_id, "state", 1)])


def rebuild(plans: InstancePlans, *more: str) -> int:
    settings = plans.settings
    servers = settings.connection.bootstrap_servers
    return main([settings.application_id, "--state-dir", settings.state_dir, "--bootstrap-servers", servers, *more])


def test_stream_goes_on_from_a_changelog_that_was_rebuilt_from_a_store(
    plans: InstancePlans, application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    state = plans.stored()

    assert rebuild(plans, "--look") == 0
    assert records_of(application.connection.bootstrap_servers, application.changelog) == [], "it only looked"
    assert rebuild(plans) == 0
    said = capsys.readouterr().out.splitlines()

    assert f"task 0_0: {len(state)} keys of commit 1 in 'state', as its digest says" == said[0]
    assert said[1].endswith("under commit 2")
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert newest_by_key(changelog) == state
    again = application.started_again()
    one, other = again.instance("i1"), again.instance("i2")
    with closing(Slot(one.plan(active(0, 2)))) as slot, closing(Slot(other.plan(standby(0, 2)))) as follower:
        owned = the_only(slot.call(one.plan(active(0, 2)), (), False))
        slot.call(one.plan(active(0, 2)), record_batches((0, ORDERS)), False)
        again.settle()
        followed = the_only(follower.call(other.plan(standby(0, 2)), (), False))
    assert (owned.state, owned.source_offset) == (TaskState.RUNNING, FIRST[-1].offset + 1)
    assert one.quarantined == []
    assert followed.warm
    assert one.stored() == other.stored()
    sink = records_of(application.connection.bootstrap_servers, str(application.spec.sink_topic))
    assert outputs_by_key(sink) == expected_outputs(ORDERS)


def test_changelog_that_holds_something_is_not_rebuilt(
    plans: InstancePlans, application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rebuild(plans) == 0
    before = records_of(application.connection.bootstrap_servers, application.changelog)

    assert rebuild(plans) == 1

    assert "holds records already" in capsys.readouterr().err
    assert records_of(application.connection.bootstrap_servers, application.changelog) == before


def test_store_that_is_not_what_was_committed_is_not_taken(
    plans: InstancePlans, application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Store(plans.directory.database(TaskId(0, 0)), ["state"])) as store:
        assert store.position is not None
        store.write({"state": [(b"bogus", b"1")]}, store.position)

    assert rebuild(plans, "--task", "0_0") == 1

    assert "it stands between two commits, or is damaged" in capsys.readouterr().err
    assert records_of(application.connection.bootstrap_servers, application.changelog) == []


def test_task_of_which_there_is_no_copy_is_not_looked_for_in_an_empty_store(
    plans: InstancePlans, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rebuild(plans, "--task", "0_7", "--look") == 1

    assert "holds no copy of task 0_7" in capsys.readouterr().err
    assert not plans.directory.database(TaskId(0, 7)).exists()
