from __future__ import annotations

import os
import signal
import socket
import time
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from airflow_provider.kit.__main__ import main, topic_option
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.errors import BrokerStartError
from airflow_provider.kit.ports import LOOPBACK, free_ports, require_free
from airflow_provider.kit.process import GroupLeader
from airflow_provider.kit.settings import BrokerSettings


def test_start_that_takes_too_long_says_how_long_it_was_given_and_what_gives_more(tmp_path: Path) -> None:
    broker = EmbeddedBroker(BrokerSettings.on_free_ports(tmp_path))

    with pytest.raises(BrokerStartError, match=r"not ready within 7 s; .* longer \(the kit's --start-timeout\)"):
        broker.await_ready(GroupLeader.of(os.getpid()), time.monotonic(), 7.0, {})


@pytest.mark.parametrize("command", [["produce", "orders"], ["consume", "orders"], ["create", "orders:4"]])
def test_broker_that_is_away_is_one_line(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)

    assert main([*command, "--bootstrap-servers", f"{LOOPBACK}:{port}"]) == 1

    said = capfd.readouterr().err
    assert said.startswith("kit: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--port", "{}", "create", "orders:4"], id="before-the-command"),
        pytest.param(["create", "--port", "{}", "orders:4"], id="behind-it"),
    ],
)
def test_port_of_a_command_is_that_of_the_broker(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)

    assert main([word.format(port) for word in words]) == 1

    assert f"{LOOPBACK}:{port}" in capfd.readouterr().err


def test_topic_to_create_needs_a_name_and_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["create", "orders:many"])

    assert "expected name:partitions" in capsys.readouterr().err


def test_port_that_is_taken_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Before it looks at the ports, the real one resolves Kafka's jars; and it is ended by signals.
    monkeypatch.setattr(EmbeddedBroker, "start", lambda broker, _: require_free(broker.settings.port, "the test"))
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    with socket.create_server((LOOPBACK, 0)) as server:
        assert main(["--dir", str(tmp_path), "--port", str(server.getsockname()[1])]) == 1

    assert "choose another. The option is --port." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "name", "partitions"),
    [pytest.param("orders:4", "orders", 4, id="both"), pytest.param("a.b_c-d", "a.b_c-d", 1, id="name alone")],
)
def test_option_names_topic_and_partitions(text: str, name: str, partitions: int) -> None:
    spec = topic_option(text)

    assert (spec.name, spec.partitions, spec.replication_factor) == (name, partitions, 1)


@pytest.mark.parametrize("text", ["", ":4", "orders:", "orders:0", "orders:-1", "orders:four", "or ders:4"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected name:partitions"):
        topic_option(text)
