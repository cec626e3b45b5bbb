from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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


def test_every_right_of_the_role_is_printed_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--role", "instance", "--principal", "User:me", "--source", "events", "--output", "totals"]

    assert main(["acls", "orders", *words, "--bootstrap-servers", "one:9093"]) == 0

    lines = capsys.readouterr().out.splitlines()
    start = "kafka-acls.sh --bootstrap-server one:9093 --add --allow-principal User:me --operation "
    assert all(line.startswith(start) for line in lines)
    assert f"{start}Read --group orders" in lines
    assert f"{start}Describe --operation DescribeConfigs --operation Read --topic events" in lines
    assert f"{start}Describe --operation DescribeConfigs --operation Write --topic totals" in lines


WORDS_JOB = """
import sys
from airflow_provider.streaming import StatefulJob, functions as F, run, stream

words = stream(sys.argv[1], schema="word STRING")
job = StatefulJob("app", words.group_by("word").aggregate(F.count().alias("n")).sink("counts"))
if __name__ == "__main__":
    run(job)
"""


def test_job_file_says_of_which_topics_and_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.py"
    file.write_text(WORDS_JOB)

    assert main(["acls", str(file), "--role", "instance", "--principal", "User:me", "--arg", "lines"]) == 0

    granted = [line.partition(" --operation ")[2] for line in capsys.readouterr().out.splitlines()]
    between = "Describe --operation DescribeConfigs --operation Read --operation Write --operation Delete"
    assert "Describe --operation DescribeConfigs --operation Read --topic lines" in granted
    assert f"{between} --topic app-counts-repartition" in granted
    for stage in (0, 1):
        id_ = f"--transactional-id app-{stage}_ --resource-pattern-type prefixed"
        assert f"Describe --operation Write {id_}" in granted


def test_store_of_windows_may_be_cut(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--role", "instance", "--principal", "User:me", "--store", "one", "--windowed-store", "two"]

    assert main(["acls", "orders", *words]) == 0

    deletes = [line for line in capsys.readouterr().out.splitlines() if "Delete" in line]
    assert [line.split()[-1] for line in deletes] == ["orders-two-changelog"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ["job.py", "--role", "viewer", "--principal", "User:me", "--store", "s"], "leave --source", id="file"
        ),
        pytest.param(
            ["orders", "--role", "viewer", "--principal", "User:me", "--arg", "a"], "name the file", id="no-file"
        ),
        pytest.param(["orders", "--role", "viewer", "--principal", "me"], "give it as 'User:me'", id="principal"),
        pytest.param(["or/ders", "--role", "viewer", "--principal", "User:me"], "'or/ders' cannot name", id="id"),
    ],
)
def test_what_cannot_be_granted_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acls", *words]) == 1

    assert said in capsys.readouterr().err
