"""docs/security.md lists the rights that `acls_of` gives, which are those that the tests on real brokers set."""

from __future__ import annotations

import dataclasses

from airflow_provider.kafka.acls import Acl, Resource, Role, acls_of
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_findings import WantedTopics
from tests.docs.commands import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMES = {"source": "each source topic", "output": "each sink and dead-letter topic"}
KINDS = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "consumer group",
    Resource.TRANSACTIONAL_ID: "transactional id",
}


def place(acl: Acl) -> str:
    if acl.prefixed:
        return f"{KINDS[acl.resource]}s that begin with `{acl.name}` (prefixed)"
    return NAMES.get(acl.name, f"{KINDS[acl.resource]} `{acl.name}`")


def test_table_of_rights_is_the_functions() -> None:
    topics = WantedTopics(application_id="<app>", stores=("<store>",), sources=("source",), outputs=("output",))
    rights = {role: {place(acl): ", ".join(acl.operations) for acl in acls_of(role, topics)} for role in Role}
    places = dict.fromkeys(where for granted in rights.values() for where in granted)

    rows = [" | ".join([where, *(rights[role].get(where, "") for role in Role)]) for where in places]

    table = "|---|---|---|---|---|\n" + "".join(f"| {row} |\n" for row in rows) + "\n"
    assert table in PAGE


def test_every_field_of_a_connection_is_on_the_page() -> None:
    for field in dataclasses.fields(KafkaConnection):
        assert f"`{field.name}`" in PAGE
