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
_MOST_STRANGERS: Final = 64


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
            return own in _readable([own, *also], seconds)

    def close(self) -> None:
        self._connection.close()


def _readable(descriptors: Collection[int], seconds: float) -> Collection[int]:
    """Those that can be read, or are gone, after so long at the most."""
    poll = select.poll()  # `select.select` takes none above 1023, and stores have hundreds of files
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)]


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
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, 0), family=family)
        self._server.setblocking(False)
        token = secrets.token_hex(_TOKEN_CHARS // 2)
        self.address = LineAddress(shown_as or host, self._server.getsockname()[1], token)

    @classmethod
    def local(cls) -> Door:
        """One for workers on this host."""
        return cls("127.0.0.1")

    def admit(self, timeout_s: float) -> Line | None:
        """The line to who came and showed the token; None where nobody did in time, or the door was closed."""
        deadline = time.monotonic() + timeout_s
        strangers = _Strangers(self.address.token)
        try:
            while (left := deadline - time.monotonic()) > 0:
                server = self._server.fileno()
                ready = _readable([server, *strangers.descriptors], min(left, _SHOW_TOKEN_S))
                if server in ready:
                    with contextlib.suppress(BlockingIOError, ConnectionAbortedError):  # who came is gone already
                        strangers.come(self._server.accept()[0])
                if (known := strangers.hear(ready)) is not None:
                    return SocketLine(known)
        except (OSError, ValueError):  # it was closed, perhaps between the two
            return None
        finally:
            strangers.send_away()
        return None

    def close(self) -> None:
        """Let nobody in any more; a second time changes nothing."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # or who waits for somebody to come would wait on
        self._server.close()


class _Strangers:
    """Who has come to a door and has not shown the token yet. They are heard side by side: the silent delay nobody."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._shown: dict[int, tuple[socket.socket, float, bytes]] = {}
        """By descriptor: since when, and what of it."""

    @property
    def descriptors(self) -> Collection[int]:
        return self._shown.keys()

    def come(self, connected: socket.socket) -> None:
        """One more; where there are too many, the first goes."""
        if len(self._shown) >= _MOST_STRANGERS:
            self._send_away(next(iter(self._shown)))
        connected.setblocking(False)
        self._shown[connected.fileno()] = connected, time.monotonic(), b""

    def hear(self, ready: Collection[int]) -> socket.socket | None:
        """Who has shown the token by now; the wrong and the slow are sent away."""
        for descriptor, (connected, since, shown) in list(self._shown.items()):
            more = self._more(connected, len(shown)) if descriptor in ready else None
            shown += more or b""
            if hmac.compare_digest(shown, self._token):
                del self._shown[descriptor]
                return connected
            if more == b"" or len(shown) == len(self._token) or time.monotonic() - since >= _SHOW_TOKEN_S:
                self._send_away(descriptor)
            else:
                self._shown[descriptor] = connected, since, shown
        return None

    def send_away(self) -> None:
        """All of them."""
        for descriptor in list(self._shown):
            self._send_away(descriptor)

    def _more(self, connected: socket.socket, known: int) -> bytes | None:
        """What one shows; None while that is nothing, no bytes where it is gone."""
        try:
            return connected.recv(len(self._token) - known)
        except BlockingIOError:
            return None
        except OSError:  # of that one alone
            return b""

    def _send_away(self, descriptor: int) -> None:
        self._shown.pop(descriptor)[0].close()
