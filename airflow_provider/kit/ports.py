"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket
import threading
from pathlib import Path

from airflow_provider.kit.errors import PortBusyError

LOOPBACK = "127.0.0.1"

_FIRST, _LAST = 20_000, 32_000
_handed_out: set[int] = set()
_guard = threading.Lock()


def free_ports(count: int) -> tuple[int, ...]:
    """Find ports that no program listens on, and that this process has not handed out before.

    They lie below the range from which the system takes the client side of connections. A listener's port
    inside that range can be lost while its owner restarts: on loopback, a client that reconnects may be
    given the very port that it is calling, and then talks to itself and holds the port.

    Another process may still take a port before it is used, so binding it can still fail.

    Raises:
        PortBusyError: fewer than `count` ports are free.
    """
    last = min(_LAST, _first_client_port() - 1)
    with _guard:
        candidates = [port for port in range(_FIRST, last + 1) if port not in _handed_out]
        random.shuffle(candidates)
        found: list[int] = []
        for port in candidates:
            if len(found) == count:
                break
            if is_free(port):
                found.append(port)
        if len(found) < count:
            raise PortBusyError(
                f"Found {len(found)} free ports between {_FIRST} and {last} on {LOOPBACK}, expected {count}. "
                "End what listens there, or name the ports yourself."
            )
        _handed_out.update(found)
    return tuple(found)


def is_free(port: int) -> bool:
    """Return whether no program listens on the loopback port; connections that are closing do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def require_free(port: int, purpose: str) -> None:
    """Return when the port is free.

    Raises:
        PortBusyError: a program listens on it.
    """
    if not is_free(port):
        raise PortBusyError(
            f"Port {port} on {LOOPBACK} is taken, and {purpose} needs it. End what listens there, or choose another."
        )


def _first_client_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    except OSError:
        return 49_152  # IANA's, which macOS and the BSDs keep to
    first = int(text.split()[0])
    return first if first > _FIRST + 1_000 else _LAST + 1
