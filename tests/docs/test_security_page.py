"""docs/security.md lists the rights that `acls_of` gives, which are those that the tests on real brokers set."""

from __future__ import annotations

import dataclasses

from airflow_provider.control.application.rights import Acl, Resource, Role, acls_of
from airflow_provider.control.records.job_description import JobDescription, JobTopic, TopicKind
from airflow_provider.kafka.connection import KafkaConnection
from tests.docs.commands import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
WINDOWS = "<app>-<store>-changelog of windows"
NAMES = {
    "source": "each source topic",
    "output": "each sink and dead-letter topic",
    WINDOWS: "topic `<app>-<store>-changelog` of a store of windows",
}
KINDS = {
    Resource.TOPIC: "topic",
    Resource.GROUP: "consumer group",
    Resource.TRANSACTIONAL_ID: "transactional id",
}


def place(acl: Acl) -> str:
    if acl.prefixed:
        return f"{KINDS[acl.resource]}s that begin with `{acl.name.replace('7', '<stage>')}` (prefixed)"
    return NAMES.get(acl.name, f"{KINDS[acl.resource]} `{acl.name}`")


def job() -> JobDescription:
    """Of each kind of topic one; the page says <stage> where there is a number."""
    stage = 7
    topics = [
        JobTopic(name="source", kind=TopicKind.SOURCE, stage=stage),
        JobTopic(name="<app>-<name>-repartition", kind=TopicKind.REPARTITION, stage=stage),
        JobTopic(name="<app>-<store>-changelog", kind=TopicKind.CHANGELOG, stage=stage),
        JobTopic(name=WINDOWS, kind=TopicKind.CHANGELOG, stage=stage, windowed=True),
        JobTopic(name="<app>-<stage>-commits", kind=TopicKind.COMMITS, stage=stage),
        JobTopic(name="output", kind=TopicKind.SINK, stage=stage),
        JobTopic(name="output", kind=TopicKind.DEAD_LETTERS, stage=stage),
    ]
    return JobDescription(application_id="<app>", stages=(), topics=tuple(topics))


def test_table_of_rights_is_the_functions() -> None:
    rights = {role: {place(acl): ", ".join(acl.operations) for acl in acls_of(role, job())} for role in Role}
    places = dict.fromkeys(where for granted in rights.values() for where in granted)

    rows = [" | ".join([where, *(rights[role].get(where, "") for role in Role)]) for where in places]

    table = "|---|---|---|---|---|\n" + "".join(f"| {row} |\n" for row in rows) + "\n"
    assert table in PAGE, table


def test_every_field_of_a_connection_is_on_the_page() -> None:
    for field in dataclasses.fields(KafkaConnection):
        assert f"`{field.name}`" in PAGE
