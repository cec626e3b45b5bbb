from __future__ import annotations

import shlex

import pytest

from airflow_provider.control.application.rights import Acl, Resource
from airflow_provider.errors import ConfigurationError


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
