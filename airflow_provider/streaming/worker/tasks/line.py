"""The line between a slot's driver and a worker that stays: a TCP connection that carries words both ways.

Who knows the token that the driver gave to the worker is let in, once. What goes over it are plans and statuses; no
password is among them.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import select
import socket
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, Protocol

HANG_UP: Final = b"E"
"""The driver's word: return from the call."""
BUSY: Final = b"B"
"""The worker's word: it processes rows from now on, which may take long."""
IDLE: Final = b"I"
"""The worker's word: it has done so."""
ASK: Final = b"A"
"""Before a stage's number, the worker's: it has read rows of it that wait for a table. All else is a `CallReport`."""
LET: Final = b"L"
"""Before a stage's number, the driver's: those rows may be processed. All else is a `SlotWork`."""

_TOKEN_CHARS: Final = 64
_CONNECT_S: Final = 10.0
_SHOW_TOKEN_S: Final = 2.0


@dataclass(frozen=True)
class LineAddress:
    """Where a driver waits for its worker, and by what it knows it."""

    host: str
    port: int
    token: str


class LineLostError(Exception):
    """The other end of a line is gone."""


class Line(Protocol):
    """One end of a line. All of it raises `LineLostError` once the other end is gone."""

    def send(self, word: bytes) -> None:
        """Say something."""

    def receive(self) -> bytes:
        """The next word; waits for it."""

    def wait(self, seconds: float, also: Collection[int] = ()) -> bool:
        """Wait for a word, at most so long; returns whether there is one.

        Args:
            also: file descriptors that end the wait once one can be read.
        """

    def close(self) -> None:
        """Hang up; a second time changes nothing."""


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError, ValueError) as error:  # ValueError: it was closed here
        raise LineLostError(str(error)) from error


class SocketLine(Line):
    """A `Line` over a connected socket, which is its own from now on."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(None)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = Connection(connected.detach())

    def send(self, word: bytes) -> None:
        with _lost():
            self._connection.send_bytes(word)

    def receive(self) -> bytes:
        with _lost():
            return self._connection.recv_bytes()

    def wait(self, seconds: float, also: Collection[int] = ()) -> bool:
        with _lost():
            own = self._connection.fileno()
            return own in select.select([own, *also], [], [], max(0.0, seconds))[0]

    def close(self) -> None:
        self._connection.close()


def call_driver(address: LineAddress) -> Line:
    """The worker's end of a line.

    Raises:
        OSError: nobody answers there.
    """
    connected = socket.create_connection((address.host, address.port), _CONNECT_S)
    connected.sendall(address.token.encode())
    return SocketLine(connected)


class Door:
    """The driver's: lets in, once, who shows the token. Close it.

    Args:
        host: the address to listen at.
        shown_as: by which workers reach it; None for the same.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(self, host: str, shown_as: str | None = None) -> None:
        self._server = socket.create_server((host, 0))
        token = secrets.token_hex(_TOKEN_CHARS // 2)
        self.address = LineAddress(shown_as or host, self._server.getsockname()[1], token)

    @classmethod
    def local(cls) -> Door:
        """One for workers on this host."""
        return cls("127.0.0.1")

    def admit(self, timeout_s: float) -> Line | None:
        """The line to who came and showed the token; None where nobody did in time, or the door was closed."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._server.settimeout(left)
                connected, _ = self._server.accept()
            except OSError:
                return None
            if self._shows_token(connected):
                return SocketLine(connected)
            connected.close()
        return None

    def close(self) -> None:
        """Let nobody in any more; a second time changes nothing."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # or who waits for somebody to come would wait on
        self._server.close()

    def _shows_token(self, connected: socket.socket) -> bool:
        connected.settimeout(_SHOW_TOKEN_S)
        shown = b""
        with contextlib.suppress(OSError):
            while len(shown) < _TOKEN_CHARS and (more := connected.recv(_TOKEN_CHARS - len(shown))):
                shown += more
        return hmac.compare_digest(shown, self.address.token.encode())
