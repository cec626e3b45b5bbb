"""Stands between clients and a broker: cuts connections, holds requests back, delivers them late, swallows answers."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from airflow_provider.kit.broker import EmbeddedBroker
from tests.brokers import settings_of_broker

PRODUCE: Final = 0
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
TXN_OFFSET_COMMIT: Final = 28
"""Kafka's numbers of the requests of a transaction; `END_TXN` commits or aborts it."""


class KafkaProxy:
    """Passes every request and answer on, until it is asked otherwise. A context manager.

    The broker has to advertise this proxy's port, so that clients come back to it.
    """

    def __init__(self) -> None:
        self.broker_port = 0
        """Of the broker, on loopback; to be set before a client connects."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._passing = threading.Event()
        self._passing.set()
        self._requests_flow, self._answers_flow = threading.Event(), threading.Event()
        self.flow()
        self._trap: int | None = None
        self._trapped_request_goes_on = False
        self.sprung = threading.Event()
        """Set once the trap has caught its request."""
        self._to_hold: list[int] = []
        self._held: list[bytes] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._passing.set()
        self.flow()
        self._listener.close()
        self._drop_all()

    def cut(self) -> None:
        """Drop every connection, and every new one, until `reopen`."""
        self._passing.clear()
        self._drop_all()

    def reopen(self) -> None:
        """Let everything pass again."""
        self._trap = None
        self.forget()
        self.flow()
        self._passing.set()

    def trap(self, api_key: int, reaches_broker: bool) -> None:
        """Cut everything at the next request of a kind: before the broker gets it, or after it has answered it."""
        self.sprung.clear()
        self._trapped_request_goes_on, self._trap = reaches_broker, api_key

    def hold(self, *api_keys: int) -> None:
        """Keep the next request of each of these kinds from the broker, and break the connection that it came on."""
        with self._lock:
            self._to_hold += api_keys

    def forget(self) -> None:
        """Keep no more requests, and none of those that were kept."""
        with self._lock:
            self._to_hold, self._held = [], []

    def stall(self, *, requests: bool) -> None:
        """Let requests, or else answers, stand still; no connection is closed, and what was sent is late."""
        (self._requests_flow if requests else self._answers_flow).clear()

    def flow(self) -> None:
        """Let what stands still arrive."""
        self._requests_flow.set()
        self._answers_flow.set()

    @property
    def held(self) -> int:
        """How many requests were kept since `reopen`."""
        with self._lock:
            return len(self._held)

    def deliver(self, timeout_s: float = 10.0, port: int | None = None) -> list[bytes]:
        """Bring the broker what was kept, late, in the order in which it was sent; each on a connection of its own.

        What is kept stays, and can be delivered again.

        Args:
            timeout_s: for each connection and answer.
            port: of another broker that gets it instead.

        Returns:
            The answers behind their correlation ids; empty where the broker gives none.
        """
        with self._lock:
            frames = tuple(self._held)
        answers = []
        for frame in frames:
            with socket.create_connection(("127.0.0.1", port or self.broker_port), timeout_s) as late:
                late.sendall(frame)
                answers.append(_frame(late)[8:])
        return answers

    # -- threads -------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._passing.is_set():
                client.close()
                continue
            try:
                broker = socket.create_connection(("127.0.0.1", self.broker_port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, broker}
            answer_awaited = threading.Event()
            for work in (self._pass_requests, self._pass_answers):
                threading.Thread(target=work, args=(client, broker, answer_awaited), daemon=True).start()

    def _pass_requests(self, client: socket.socket, broker: socket.socket, caught: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(client):
                (api_key,) = struct.unpack_from(">h", frame, 4)
                with self._lock:
                    if held := api_key in self._to_hold:
                        self._to_hold.remove(api_key)
                        self._held.append(frame)
                if held:
                    break
                if api_key == self._trap:
                    self._trap = None
                    if not self._trapped_request_goes_on:
                        self.cut()
                        self.sprung.set()
                        break
                    caught.set()
                self._requests_flow.wait()
                broker.sendall(frame)
        self._drop(client, broker)

    def _pass_answers(self, client: socket.socket, broker: socket.socket, caught: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(broker):
                if caught.is_set():
                    self.cut()
                    self.sprung.set()
                    break
                self._answers_flow.wait()
                client.sendall(frame)
        self._drop(client, broker)

    def _drop(self, *sockets: socket.socket) -> None:
        with self._lock:
            self._open -= set(sockets)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _drop_all(self) -> None:
        with self._lock:
            dropped = tuple(self._open)
        self._drop(*dropped)


@contextmanager
def broker_behind(proxy: KafkaProxy, folder: Path) -> Iterator[EmbeddedBroker]:
    """A broker that clients reach through a proxy alone."""
    advertised = ("advertised.listeners", f"CLIENT://127.0.0.1:{proxy.port}")
    settings = settings_of_broker(folder, overrides=(advertised,))
    proxy.broker_port = settings.port
    with EmbeddedBroker(settings) as running:
        yield running


def _frame(source: socket.socket) -> bytes:
    """One request or answer with its length; empty at the end of the connection."""
    head = _exactly(source, 4)
    if len(head) < 4:
        return b""
    (size,) = struct.unpack(">i", head)
    body = _exactly(source, size)
    return head + body if len(body) == size else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := source.recv(min(size, 1 << 16))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
