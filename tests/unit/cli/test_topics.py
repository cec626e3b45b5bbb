from __future__ import annotations

from collections.abc import Iterable

import pytest

from airflow_provider.cli import topics
from airflow_provider.cli.main import main
from airflow_provider.cli.topics import findings_text
from airflow_provider.control.application.described_topics import topic_specs
from airflow_provider.kafka.topic_findings import TopicFinding
from airflow_provider.kafka.topic_spec import TopicDescription, TopicSpec
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F

FINDINGS = (
    TopicFinding("it has cleanup.policy=delete.", "Set it.", topic="t", setting=("cleanup.policy", "compact")),
    TopicFinding("it has 3 partitions.", "Recreate it.", topic="u"),
)


def test_each_finding_has_what_fixes_it_and_a_dry_run_says_what_it_would_do() -> None:
    assert findings_text("orders", FINDINGS, dry_run=True).splitlines() == [
        "it has cleanup.policy=delete.",
        "  fix: Set it.",
        "  --apply would set cleanup.policy=compact on t",
        "it has 3 partitions.",
        "  fix: Recreate it.",
        "  --apply would leave this to you",
    ]
    assert "--apply" not in findings_text("orders", FINDINGS)


def test_what_was_done_and_that_all_is_well_are_said() -> None:
    assert findings_text("orders", (), ["create t"]) == "done: create t\nthe topics of orders are as it needs them"


class Admin:
    """A cluster with a source, and with the internal topic of another partition count than the job says."""

    def describe(self, name: str) -> TopicDescription | None:
        known = {"orders": 4, "app-totals-repartition": 3}
        if name not in known:
            return None
        spec = next((spec for spec in SPECS if spec.name == name), None)
        config = {} if spec is None else spec.config
        return TopicDescription(name=name, partitions=known[name], replication_factor=1, config=config)

    def partitions(self, name: str) -> int:
        return 4

    def ensure(self, specs: Iterable[TopicSpec]) -> tuple[str, ...]:
        return tuple(spec.name for spec in specs)


JOB = StatefulJob(
    "app", stream("orders", schema="country STRING").group_by("country").aggregate(F.count().alias("n")).sink("totals")
).description()
SPECS = tuple(topic_specs(JOB.with_partitions({"orders": 4})))


def test_job_that_is_not_kept_because_of_what_a_person_has_to_correct_is_not_said_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(topics, "describe_job_file", lambda *_, **__: JOB)
    monkeypatch.setattr(topics, "TopicAdmin", lambda _: Admin())
    monkeypatch.setattr(topics, "read_view_if_there", lambda *_: None)
    monkeypatch.setattr(topics, "refuse_those_of_others", lambda *_: None)

    assert main(["topics", "repair", "job.py", "--apply", "--bootstrap-servers", "127.0.0.1:1"]) == 3

    said = capsys.readouterr().out
    assert "has 3 partitions" in said
    assert "done: create app-totals-changelog with 4 partition(s)" in said
    assert "done: keep" not in said
    assert "Correct what else is named here first" in said
