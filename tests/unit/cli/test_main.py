from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from airflow_provider.cli.main import main
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.kit.ports import LOOPBACK, free_ports

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = {
    "acls", "assign", "broker", "certify", "describe", "drill", "failover", "health", "history", "lookup", "metrics",
    "run", "snapshot",
    "status", "stop", "topics",
}  # fmt: skip


def test_error_is_one_line_and_exit_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "orders/1"]) == 1

    said = capsys.readouterr().err
    assert said.startswith("stateful-streams: ConfigurationError: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["status"], ["stop", "orders"]], ids=["none", "no-application", "no-instance"]
)
def test_wrong_arguments_give_a_usage_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: stateful-streams")


def test_broker_is_the_kits_command_under_this_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["broker", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: stateful-streams broker")
    assert "--example" in said

    (port,) = free_ports(1)
    assert main(["broker", "consume", "orders", "--bootstrap-servers", f"{LOOPBACK}:{port}"]) == ExitStatus.ERROR


@pytest.mark.parametrize("options", [[], ["--bootstrap-servers", "127.0.0.1:1"]], ids=["none", "options"])
def test_what_is_described_may_stand_before_and_behind_options(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def act(given: argparse.Namespace) -> int:
        asked.append(given.what)
        return 0

    monkeypatch.setattr("airflow_provider.cli.description._act", act)

    assert main(["describe", "orders", "0_3", *options]) == main(["describe", "orders", *options, "0_3"]) == 0
    assert asked == ["0_3", "0_3"]


@pytest.mark.parametrize("arguments", [["describe", "orders", "--oops"], ["describe", "orders", "a", "b"]])
def test_argument_that_is_not_known_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_says_what_it_takes_and_the_page_has_its_section(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    assert f"stateful-streams {command}" in capsys.readouterr().out
    assert f"## {command.capitalize()}\n" in PAGE


def test_page_names_every_exit_status() -> None:
    named = [int(line.split("|")[1]) for line in PAGE.splitlines() if line[:3].strip("| ").isdigit()]

    assert named == sorted(ExitStatus)
