from __future__ import annotations

import shlex

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.acls import Acl, Resource, Role, acls_of
from airflow_provider.kafka.names import publisher_transactional_id, transactional_id
from airflow_provider.kafka.topic_findings import WantedTopics

ORDERS = WantedTopics(application_id="orders", sources=("events",), outputs=("totals",), stores=("one", "two"))


def operations(role: Role, name: str) -> set[str]:
    return {operation for acl in acls_of(role, ORDERS) if acl.name == name for operation in acl.operations}


@pytest.mark.parametrize("role", Role)
def test_nobody_is_given_all_rights_or_the_topics_of_an_application_whose_id_begins_alike(role: Role) -> None:
    acls = acls_of(role, ORDERS)

    assert "All" not in {operation for acl in acls for operation in acl.operations}
    assert all(acl.resource is Resource.TRANSACTIONAL_ID for acl in acls if acl.prefixed)
    assert len({(acl.resource, acl.name) for acl in acls}) == len(acls)


def test_viewer_writes_and_creates_nothing() -> None:
    acls = acls_of(Role.VIEWER, ORDERS)

    assert {operation for acl in acls for operation in acl.operations} == {"Describe", "Read"}
    assert not {"events", "totals", "orders-one-changelog"} & {acl.name for acl in acls}


def test_each_store_has_its_changelog() -> None:
    for changelog in ("orders-one-changelog", "orders-two-changelog"):
        assert "Write" in operations(Role.INSTANCE, changelog)
        assert "Write" not in operations(Role.AIRFLOW, changelog)


def test_instance_writes_for_its_tasks_and_publishes_no_assignment() -> None:
    (own,) = (acl for acl in acls_of(Role.INSTANCE, ORDERS) if acl.resource is Resource.TRANSACTIONAL_ID)

    assert own.prefixed
    assert transactional_id("orders", TaskId(0, 12)).startswith(own.name)
    assert not publisher_transactional_id("orders").startswith(own.name)


def test_right_is_a_line_of_a_shell() -> None:
    acl = Acl(Resource.TRANSACTIONAL_ID, "orders-0_", ("Describe", "Write"), prefixed=True)

    assert shlex.split(acl.to_command("User:CN=my orders", "one:9093", "/etc/admin.properties")) == [
        *("kafka-acls.sh", "--bootstrap-server", "one:9093", "--command-config", "/etc/admin.properties"),
        *("--add", "--allow-principal", "User:CN=my orders", "--operation", "Describe", "--operation", "Write"),
        *("--transactional-id", "orders-0_", "--resource-pattern-type", "prefixed"),
    ]


def test_principal_without_a_type_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give it as 'User:orders'"):
        Acl(Resource.TOPIC, "events", ("Read",)).to_command("orders", "one:9092")
