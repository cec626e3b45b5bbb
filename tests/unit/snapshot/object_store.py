"""An S3-like store, and what stands between it and its clients: for tests in the environment of `make object-store`."""

from __future__ import annotations

import http.client
import importlib.util
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import fsspec

STORES: Final = ["file", "memory", *(["s3"] if importlib.util.find_spec("moto") else [])]
"""The kinds of places where snapshots can lie here."""

_BUCKET: Final = "snapshots"
_HOP: Final = {"connection", "transfer-encoding", "content-length", "date", "server"}


class ObjectStore:
    """The store behind a proxy that passes requests on, answers them with an error, or lets them wait."""

    def __init__(self, port: int) -> None:
        self.port = port
        """Of the store itself."""
        self.refused_with: int | None = None
        """The HTTP status that requests get instead of the store's answer."""
        self.refused: tuple[str, ...] = ("DELETE", "GET", "HEAD", "POST", "PUT")
        """The methods that are answered so."""
        self.passing = threading.Event()
        """While it is not set, requests wait."""
        self.passing.set()

    def url(self) -> str:
        """A folder in it that no other test has."""
        return f"s3://{_BUCKET}/{uuid.uuid4().hex}"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start one; fsspec finds it under ``s3://``, as it does where a host's configuration names another endpoint."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    port = server.get_host_and_port()[1]
    store = ObjectStore(port)
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, name="object-store", daemon=True).start()
    endpoint = f"http://127.0.0.1:{proxy.server_port}"
    before = fsspec.config.conf.get("s3")
    fsspec.config.conf["s3"] = {"endpoint_url": endpoint, "key": "who", "secret": "hunter2"}
    try:
        fsspec.filesystem("s3").mkdir(_BUCKET)
        yield store
    finally:
        store.passing.set()
        fsspec.config.conf["s3"] = before or {}
        proxy.shutdown()
        server.stop()


def _handler(store: ObjectStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request_of_s3(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            store.passing.wait()
            if store.refused_with is not None and self.command in store.refused:
                self._answer(store.refused_with, {}, b"<Error><Code>Fault</Code><Message>no</Message></Error>")
                return
            asked = http.client.HTTPConnection("127.0.0.1", store.port)
            asked.request(self.command, self.path, body, dict(self.headers))
            answer = asked.getresponse()
            self._answer(answer.status, dict(answer.getheaders()), answer.read())
            asked.close()

        do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = handle_request_of_s3

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
