from __future__ import annotations

import socket

import pytest

from airflow_provider.kit.errors import PortBusyError
from airflow_provider.kit.ports import LOOPBACK, free_ports, is_free, require_free


def test_no_port_is_handed_out_twice() -> None:
    ports = [port for _ in range(50) for port in free_ports(2)]

    assert len(set(ports)) == len(ports)


def test_ports_can_be_listened_on() -> None:
    (port,) = free_ports(1)

    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)


def test_taken_port_is_refused_with_its_purpose() -> None:
    (port,) = free_ports(1)

    require_free(port, "the test")
    with (
        socket.create_server((LOOPBACK, port)),
        pytest.raises(PortBusyError, match=f"Port {port} on {LOOPBACK} is taken, and the test needs it"),
    ):
        require_free(port, "the test")


def test_port_of_a_connection_that_is_closing_is_free() -> None:
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port)) as server, socket.create_connection((LOOPBACK, port)) as client:
        accepted, _ = server.accept()
        accepted.close()  # the listener's side closes first, and keeps the port in TIME_WAIT
        assert client.recv(1) == b""

    assert is_free(port)
