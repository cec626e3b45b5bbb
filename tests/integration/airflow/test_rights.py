"""Airflow's tasks under ACLs: what the page lists is enough, and what is missing is named, and not tried again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import AclOperation, ResourceType
from structlog.testing import capture_logs

from airflow_provider.control.application.rights import Role
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import changelog_spec
from airflow_provider.operators.assignment import AssignTasksOperator, FailOverOperator
from airflow_provider.operators.checks import CheckSloOperator
from airflow_provider.operators.drill import InjectFaultOperator
from airflow_provider.operators.instance_commands import StopInstanceOperator
from airflow_provider.operators.repair import HistoryOperator
from airflow_provider.operators.topics import CreateChangelogTopicsOperator
from airflow_provider.sensors.figures import StandbyLagSensor
from airflow_provider.triggers import IncidentTrigger
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.builders import active, assigned, instance, standby
from tests.integration.airflow.conftest import Deploy, make_pair
from tests.integration.airflow.running import context, run
from tests.integration.airflow.test_forecasts import keep
from tests.integration.airflow.test_recovery_drill import check, recover
from tests.integration.control.writing import Writing
from tests.integration.guarded_broker import GuardedBroker
from tests.integration.launch.application import Application
from tests.waiting import wait_until
from tests.watched import watched

pytestmark = pytest.mark.xdist_group("guarded")

ON_TOPICS = "Describe and DescribeConfigs on its topics, Read on those that it reads, Write on those that it writes"


@pytest.fixture
def application(guarded: GuardedBroker, application_id: str, monkeypatch: pytest.MonkeyPatch) -> Application:
    """It has an assignment and statuses; the connection of Airflow is that of the user, who has what the page lists."""
    monkeypatch.setenv(DEFAULT_CONNECTION, airflow_connection(guarded.user))
    made = Application.create(guarded.bootstrap_servers, application_id)
    TopicAdmin(made.connection).ensure([changelog_spec(application_id, "state", 2)])
    made.publish(assigned("a b", "b a", application_id=application_id))
    guarded.grant(application_id, Role.AIRFLOW, source=f"{application_id}-source", sink=f"{application_id}-sink")
    return made


def test_upgrade_drill_and_failover_need_no_more_rights_than_the_page_lists(
    application: Application, guarded: GuardedBroker, deploy: Deploy
) -> None:
    guarded.grant(application.id, Role.INSTANCE, source=f"{application.id}-source", sink=f"{application.id}-sink")
    _, before = make_pair(application, deploy)

    after = run(deploy("b", env_vars={"VERSION": "2"}, on_change="upgrade"), context("upgrade"))
    run(AssignTasksOperator(task_id="assign", application_id=application.id))
    run(StandbyLagSensor(task_id="warm", application_id=application.id))
    run(AssignTasksOperator(task_id="balance", application_id=application.id, balance=True))
    assert after["incarnation"] > before["incarnation"]

    with closing(Writing(guarded.bootstrap_servers, application.id)) as writing:
        writing.commit(0, 5)
        fault = recover(application)
        writing.commit(0, 3)
        reported = check(application, fault)
    (count,) = reported["outputs"]["counts"]
    assert (count["topic"], count["found"], count["lost"]) == (writing.sink, 3, 0)
    kept = run(HistoryOperator(task_id="history", application_id=application.id))
    assert {(one["kind"], one["outcome"]) for one in kept} == {
        (kind, "passed") for kind in ("upgrade", "drill", "failover")
    }


def test_each_right_that_is_taken_stops_the_step_that_needs_it_which_goes_on_once_it_is_given_back(
    application: Application, guarded: GuardedBroker, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The instances have all of theirs, as another user.
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_OF_INSTANCES", airflow_connection(guarded.another))
    source, sink = f"{application.id}-source", f"{application.id}-sink"
    guarded.grant(application.id, Role.INSTANCE, source=source, sink=sink, user=guarded.another)
    of_instances = {"instance_kafka_conn_id": "kafka_of_instances"}
    _, before = make_pair(application, deploy, **of_instances)

    def refused(act: Callable[[], Any], kind: ResourceType, name: str, operation: AclOperation, named: str) -> None:
        rule = guarded.deny(kind, name.format(application.id), operation)
        with pytest.raises(ConfigurationError, match=re.escape(named.format(application.id))) as found:
            act()
        guarded.allow_again(rule)
        assert isinstance(found.value, AirflowFailException), "no further try"

    def upgrade() -> Any:
        return run(deploy("b", env_vars={"VERSION": "2"}, on_change="upgrade", **of_instances), context("upgrade"))

    claim = (ResourceType.TRANSACTIONAL_ID, "{}-assignment", AclOperation.WRITE, CLAIM)
    refused(upgrade, *claim)
    refused(upgrade, TOPIC, "{}-assignment", AclOperation.WRITE, "{}-assignment is not authorized")
    refused(upgrade, TOPIC, "{}-status", AclOperation.READ, "{}-status")
    assert application.view().statuses["b"].incarnation == before["incarnation"]
    assert upgrade()["incarnation"] > before["incarnation"]
    run(AssignTasksOperator(task_id="assign", application_id=application.id))
    run(StandbyLagSensor(task_id="warm", application_id=application.id))
    run(AssignTasksOperator(task_id="balance", application_id=application.id, balance=True))

    with closing(Writing(guarded.bootstrap_servers, application.id)) as writing:
        writing.commit(0, 5)

        def inject() -> Any:
            return run(InjectFaultOperator(task_id="fault", application_id=application.id))

        refused(inject, TOPIC, "{}-history", AclOperation.READ, "{}-history")
        refused(inject, TOPIC, "{}-history", AclOperation.WRITE, "{}-history")
        refused(inject, *claim)
        assert not application.view().faults
        fault = recover(application)
        writing.commit(0, 3)
        refused(lambda: check(application, fault), TOPIC, "{}-state-changelog", AclOperation.READ, "{}-state-changelog")
        refused(lambda: check(application, fault), TOPIC, "{}-history", AclOperation.WRITE, "{}-history")
        rule = guarded.deny(TOPIC, writing.sink, AclOperation.READ)
        assert writing.sink in check(application, fault)["outputs"]["unmeasured"]
        guarded.allow_again(rule)
        (count,) = check(application, fault)["outputs"]["counts"]
    assert (count["topic"], count["found"], count["lost"]) == (writing.sink, 3, 0)

    keep(application, "a", minutes=1)

    def monitor() -> Any:
        with watched(application.id):
            return run(CheckSloOperator(task_id="slo", application_id=application.id))

    refused(monitor, TOPIC, "{}-metrics", AclOperation.READ, "{}-metrics")
    assert monitor()["instances"] == 2


def creates(application_id: str) -> BaseOperator:
    sources = f"{application_id}-source"
    return CreateChangelogTopicsOperator(
        task_id="t", application_id=application_id, source_topics=sources, stores="another"
    )


def assigns(application_id: str) -> BaseOperator:
    return AssignTasksOperator(task_id="t", application_id=application_id, instances=["c"])


def fails_over(application_id: str) -> BaseOperator:
    return FailOverOperator(task_id="t", application_id=application_id, instance="a")


def stops(application_id: str) -> BaseOperator:
    return StopInstanceOperator(task_id="t", application_id=application_id, instance="a")


def waits(application_id: str) -> BaseOperator:
    return StandbyLagSensor(task_id="t", application_id=application_id, timeout_s=60.0, deferrable=True)


def pokes(application_id: str) -> BaseOperator:
    return StandbyLagSensor(task_id="t", application_id=application_id, timeout_s=60.0, deferrable=False)


TOPIC = ResourceType.TOPIC
CLAIM = "Describe and Write on the transactional id '{}-assignment'"
WRITE_ASSIGNMENT = "Describe and Write on the topics {}-assignment"


@pytest.mark.parametrize(
    ("make", "kind", "name", "operation", "named"),
    [
        pytest.param(creates, TOPIC, "{}-another-changelog", AclOperation.ALL, [ON_TOPICS], id="creates-a-topic"),
        pytest.param(
            creates, TOPIC, "{}-source", AclOperation.DESCRIBE, ["{}-source", ON_TOPICS], id="sees-the-source"
        ),
        pytest.param(
            assigns,
            ResourceType.TRANSACTIONAL_ID,
            "{}-assignment",
            AclOperation.WRITE,
            [CLAIM],
            id="publishes",
        ),
        pytest.param(
            assigns, TOPIC, "{}-assignment", AclOperation.WRITE, [WRITE_ASSIGNMENT], id="writes-the-assignment"
        ),
        pytest.param(
            assigns, TOPIC, "{}-status", AclOperation.DESCRIBE, ["{}-status", ON_TOPICS], id="assigns-without-statuses"
        ),
        pytest.param(
            fails_over, TOPIC, "{}-status", AclOperation.READ, ["{}-status", ON_TOPICS], id="answers-without-statuses"
        ),
        pytest.param(stops, TOPIC, "{}-assignment", AclOperation.WRITE, [WRITE_ASSIGNMENT], id="commands"),
        pytest.param(waits, TOPIC, "{}-status", AclOperation.DESCRIBE, ["{}-status", ON_TOPICS], id="waits-unseeing"),
        pytest.param(waits, TOPIC, "{}-status", AclOperation.READ, ["{}-status", ON_TOPICS], id="waits-unread"),
        pytest.param(pokes, TOPIC, "{}-status", AclOperation.DESCRIBE, ["{}-status", ON_TOPICS], id="pokes-unseeing"),
        pytest.param(pokes, TOPIC, "{}-status", AclOperation.READ, ["{}-status", ON_TOPICS], id="pokes-unread"),
    ],
)
def test_operator_that_lacks_a_right_fails_for_good_and_names_it(
    make: Callable[[str], BaseOperator],
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    named: list[str],
    application: Application,
    guarded: GuardedBroker,
) -> None:
    a, b = instance("a", active(0), standby(1)), instance("b", active(1), standby(0))
    application.write(of(application, a), of(application, b))
    guarded.deny(kind, name.format(application.id), operation)

    with pytest.raises(ConfigurationError) as refused:
        run(make(application.id))

    assert isinstance(refused.value, AirflowFailException), "no further try"
    for words in named:
        assert words.format(application.id) in str(refused.value)
    assert "check that the brokers answer" not in str(refused.value)


def test_watcher_without_a_right_says_which_and_goes_on_once_it_has_it(
    application: Application, guarded: GuardedBroker
) -> None:
    rule = guarded.deny(TOPIC, f"{application.id}-status", AclOperation.READ)
    watcher = IncidentTrigger(application.id, instance_timeout_s=1.0, start_timeout_s=1.0)

    async def watch(said: list[Any]) -> dict[str, Any]:
        events = watcher.run()
        assert isinstance(events, AsyncGenerator)
        async with contextlib.aclosing(events):
            fired = asyncio.ensure_future(anext(events))
            refused = f"{application.id}-status is not authorized"
            await asyncio.to_thread(wait_until, lambda: refused in str(said), 30.0, "the warning")
            guarded.allow_again(rule)
            event = await asyncio.wait_for(fired, 60.0)
        payload: dict[str, Any] = event.payload
        return payload

    with capture_logs() as said:
        assert asyncio.run(watch(said))["application_id"] == application.id


def of(application: Application, status: InstanceStatus) -> InstanceStatus:
    return dataclasses.replace(status, application_id=application.id)
