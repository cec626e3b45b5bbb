from __future__ import annotations

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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["orders", "--role", "viewer", "--principal", "me"], "give it as 'User:me'", id="principal"),
        pytest.param(["or/ders", "--role", "viewer", "--principal", "User:me"], "'or/ders' cannot name", id="id"),
    ],
)
def test_what_cannot_be_granted_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acls", *words]) == 1

    assert said in capsys.readouterr().err
