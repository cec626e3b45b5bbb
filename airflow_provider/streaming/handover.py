"""How a store passes from one Python worker to another of the same host.

Spark may give a task to any idle worker, and RocksDB's lock lets one process in. So the worker that needs a store asks
the worker that holds it to let go, over a Unix socket; nobody fights for the lock, and a dead holder's lock is free.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from airflow_provider.errors import StoreLockedError
from airflow_provider.state.store import Store

__all__ = ["Handover", "open_store"]

_HOLDER: Final = "holder"
_RETRY_S: Final = 0.02


class Handover:
    """Answers other workers that need a store of this one.

    Args:
        release: lets go of the task in the folder, once no call uses it; true if it was held.
    """

    def __init__(self, release: Callable[[str], bool]) -> None:
        # A Unix socket's path is short (108 bytes), so it cannot lie in the state folder; its name does.
        self._folder = tempfile.TemporaryDirectory(prefix="ss-")
        self.address = f"{self._folder.name}/s"

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                folder = self.rfile.readline().decode().rstrip("\n")
                self.wfile.write(b"released\n" if release(folder) else b"not held\n")

        self._server = socketserver.ThreadingUnixStreamServer(self.address, Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="handover", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()


def open_store(open_: Callable[[], Store], path: Path, address: str, timeout_s: float = 20.0) -> Store:
    """Open a store, asking its holder to let go if there is one.

    Args:
        open_: opens it.
        path: its folder.
        address: of this worker's `Handover`, told to those who come later.
        timeout_s: how long to ask.

    Raises:
        StoreLockedError: the holder lives and does not let go in time, or is no worker of this package.
    """
    deadline = time.monotonic() + timeout_s
    holder = path.parent / f"{path.name}.{_HOLDER}"
    while True:
        try:
            store = open_()
        except StoreLockedError:
            if time.monotonic() > deadline:
                raise
            _ask(holder, str(path), deadline)
            time.sleep(_RETRY_S)
        else:
            try:
                holder.write_text(address)
            except OSError:
                store.close()
                raise
            return store


def _ask(holder: Path, folder: str, deadline: float) -> None:
    # A dead holder cannot be asked and need not be: the kernel gives its lock back.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(max(0.1, deadline - time.monotonic()))
        client.connect(holder.read_text())
        client.sendall(f"{folder}\n".encode())
        client.makefile().readline()
