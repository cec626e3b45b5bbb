from __future__ import annotations

import dataclasses
from pathlib import Path

from airflow_provider.kit.settings import BrokerSettings

SETTINGS = BrokerSettings(directory=Path("/kafka"), port=9092, controller_port=9093)


def test_listens_on_loopback_alone() -> None:
    properties = SETTINGS.to_properties(Path("/kafka/data"))

    assert properties["listeners"] == "CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert properties["advertised.listeners"] == f"CLIENT://{SETTINGS.bootstrap_servers}"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert properties["log.dirs"] == "/kafka/data"


def test_makes_no_topics_by_itself() -> None:
    assert SETTINGS.to_properties(Path("/d"))["auto.create.topics.enable"] == "false"


def test_every_replication_factor_fits_one_node() -> None:
    properties = SETTINGS.to_properties(Path("/d"))

    assert {v for k, v in properties.items() if "replication.factor" in k or "min.i" in k} == {"1"}


def test_overrides_take_precedence() -> None:
    settings = BrokerSettings(
        directory=Path("/kafka"), port=1, controller_port=2, overrides=(("num.io.threads", "1"), ("new.key", "x"))
    )

    properties = settings.to_properties(Path("/d"))

    assert (properties["num.io.threads"], properties["new.key"]) == ("1", "x")


def test_overrides_may_hold_passwords_and_are_never_shown() -> None:
    assert "hunter2" not in repr(dataclasses.replace(SETTINGS, overrides=(("ssl.key.password", "hunter2"),)))


def test_heap_is_given_in_whole_mebibytes() -> None:
    settings = BrokerSettings(directory=Path("/d"), port=1, controller_port=2, heap_bytes=200 * 1024 * 1024 + 5)

    assert settings.to_java_options()[:2] == ["-Xmx200m", "-Xms200m"]


def test_ports_of_two_brokers_differ(tmp_path: Path) -> None:
    one, two = BrokerSettings.on_free_ports(tmp_path), BrokerSettings.on_free_ports(tmp_path, node_id=2)

    assert len({one.port, one.controller_port, two.port, two.controller_port}) == 4
    assert two.node_id == 2
