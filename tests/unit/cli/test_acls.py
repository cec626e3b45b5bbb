from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.cli.main import main


def test_every_right_of_the_role_is_printed_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--role", "instance", "--principal", "User:me", "--source", "events", "--output", "totals"]

    assert main(["acls", "orders", *words, "--bootstrap-servers", "one:9093"]) == 0

    lines = capsys.readouterr().out.splitlines()
    start = "kafka-acls.sh --bootstrap-server one:9093 --add --allow-principal User:me --operation "
    assert all(line.startswith(start) for line in lines)
    assert f"{start}Read --group orders" in lines
    assert f"{start}Describe --operation DescribeConfigs --operation Read --topic events" in lines
    assert f"{start}Describe --operation DescribeConfigs --operation Write --topic totals" in lines


JOB = """
import sys
from airflow_provider.streaming import StatefulJob, functions as F, run, stream

words = stream(sys.argv[1], schema="word STRING")
job = StatefulJob("app", words.group_by("word").aggregate(F.count().alias("n")).sink("counts"))
if __name__ == "__main__":
    run(job)
"""


def test_job_file_says_of_which_topics_and_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.py"
    file.write_text(JOB)

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
