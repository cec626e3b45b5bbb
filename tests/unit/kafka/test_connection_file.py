from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.common.files import create_private_file
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.connection_file import connection_from_file


def test_security_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.touch(0o600)
    file.write_text(
        "# the cluster\nbootstrap.servers = one:9093,two:9093\n\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.username=me\nsasl.password=a=b\n"
    )

    assert connection_from_file(file) == KafkaConnection(
        "one:9093,two:9093",
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="me",
        sasl_password="a=b",
    )
    assert connection_from_file(file, "three:1").bootstrap_servers == "three:1"


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x0b", "\x1c", "\x0c"])
def test_password_may_hold_what_some_take_for_the_end_of_a_line(odd: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.touch(0o600)
    lines = ["bootstrap.servers=one:1", "security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "sasl.username=me"]
    file.write_text("\r\n".join([*lines, f"sasl.password=a{odd}ssl.ca.location=/evil{odd}"]) + "\r\n", encoding="utf-8")

    found = connection_from_file(file)

    assert (found.sasl_password, found.ssl_ca_location) == (f"a{odd}ssl.ca.location=/evil{odd}", None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("sasl.pasword=hunter2", "Line 1 of"),
        ("security.protocol=SSL", "no line bootstrap.servers=host:port"),
    ],
    ids=["missing", "unknown", "no-servers"],
)
def test_file_that_says_nothing_of_use_is_refused_without_showing_it(
    content: str | None, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_text(content)

    with pytest.raises(ConfigurationError, match=words) as refused:
        connection_from_file(file)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("mode", "refused"), [(0o600, False), (0o440, False), (0o644, True)])
def test_password_that_everybody_may_read_is_refused(tmp_path: Path, mode: int, refused: bool) -> None:
    file = tmp_path / "kafka.properties"
    create_private_file(
        file,
        b"bootstrap.servers=h:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n",
    )
    file.chmod(mode)

    if refused:
        with pytest.raises(ConfigurationError, match=r"holds a password, and every user of this host.*chmod o-r"):
            connection_from_file(file)
    else:
        assert connection_from_file(file).sasl_password == "p"
