"""How a store passes from one Python worker to another of the same host.

Spark may give a task to any idle worker, and RocksDB's lock lets one process in. So the worker that needs a store asks
the worker that holds it to close it, over a Unix socket; no two compete for the lock, and a dead holder's is free.
A worker of another instance is not asked: two instances that share a state folder would be one copy of the state.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from airflow_provider.errors import StoreLockedError
from airflow_provider.state.kind import AnyStore

_HOLDER: Final = "holder"
_RETRY_S: Final = 0.02
_MAX_BYTES: Final = 100
_OPEN_FOLDERS: Final = Path("/proc/self/fd")
_HEARS_S: Final = 2.0
"""Within that a holder says that it was asked, unless its process is stopped."""
_SILENT_S: Final = 0.5
_silent: Final = set[str]()
"""The addresses of those that did not. One may hold many stores, which are not waited for one after the other."""


class Handover:
    """Answers other workers that need a store of this one.

    Args:
        release: closes the store in a folder, once no call uses it; true if it was open.
    """

    def __init__(self, release: Callable[[str], bool]) -> None:
        # In the folder for temporary files, which goes with the process; its name lies in the state folder.
        self._folder = tempfile.TemporaryDirectory(prefix="ss-", dir=_folder_for_sockets())
        self.address = f"{self._folder.name}/s"

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                folder = self.rfile.readline().decode().rstrip("\n")
                self.wfile.write(b"heard\n")  # at once: to let go may take as long as a micro-batch
                self.wfile.write(b"released\n" if release(folder) else b"not held\n")

        with _reachable(self.address) as address:
            self._server = socketserver.ThreadingUnixStreamServer(address, Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="handover", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        # The server looks up twice a second, unless its socket has something for it.
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()


def open_store(
    open_: Callable[[], AnyStore], path: Path, address: str, instance: str, timeout_s: float = 20.0
) -> AnyStore:
    """Open a store, asking its holder to close it if there is one of the same instance.

    Args:
        address: of this worker's `Handover`, for the workers that need the store later.
        timeout_s: how long to ask.

    Raises:
        StoreLockedError: the holder lives and does not close it in time, is another instance's, or is no worker of this
            package.
    """
    began = time.monotonic()
    holder = path.parent / f"{path.name}.{_HOLDER}"
    while True:
        try:
            store = open_()
        except StoreLockedError as error:
            other, other_address = _read_holder(holder)
            foreign = other not in (None, instance)
            deadline = began + (min(timeout_s, _SILENT_S) if other_address in _silent else timeout_s)
            if time.monotonic() > deadline:
                if not foreign:
                    raise
                raise StoreLockedError(
                    f"The store at {path} is held by the instance {other!r}, and this is {instance!r}: both were given "
                    "the same state folder, so that they are one copy of the state and not two. Give each instance a "
                    "state folder of its own."
                ) from error
            if not foreign:
                _ask(other_address, str(path), deadline)
            time.sleep(_RETRY_S)
        else:
            try:
                holder.write_text(f"{address}\n{instance}\n")
            except OSError:
                store.close()
                raise
            return store


def release_store(path: Path, timeout_s: float = 20.0) -> None:
    """Have the worker that holds a store close it, where one does."""
    _, address = _read_holder(path.parent / f"{path.name}.{_HOLDER}")
    _ask(address, str(path), time.monotonic() + timeout_s)


def _read_holder(holder: Path) -> tuple[str | None, str]:
    """The instance of a store's last holder, and the address to ask; None and "" where they are not known."""
    try:
        address, *instance = holder.read_text().splitlines()
    except (OSError, ValueError):
        return None, ""
    return (instance[0] if instance else None), address


def _ask(address: str, folder: str, deadline: float) -> None:
    # A dead holder cannot be asked and need not be: the kernel gives its lock back.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        left_s = max(0.1, deadline - time.monotonic())
        client.settimeout(min(left_s, _HEARS_S))
        with _reachable(address) as reachable:
            client.connect(reachable)
        client.sendall(f"{folder}\n".encode())
        answer = client.makefile()
        try:
            answer.readline()
        except TimeoutError:
            _silent.add(address)
            return
        _silent.discard(address)
        client.settimeout(left_s)
        answer.readline()


@contextlib.contextmanager
def _reachable(path: str) -> Iterator[str]:
    """A name for a socket that is short enough (108 bytes with its end): where its own is not, by its open folder."""
    if len(os.fsencode(path)) <= _MAX_BYTES:
        yield path
        return
    socket_file = Path(path)
    folder = os.open(socket_file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield str(_OPEN_FOLDERS / str(folder) / socket_file.name)
    finally:
        os.close(folder)


def _folder_for_sockets() -> str | None:
    """None for the usual one; where that is too long and cannot be shortened, ``/tmp``."""
    short = len(os.fsencode(tempfile.gettempdir())) <= _MAX_BYTES - 16
    return None if short or _OPEN_FOLDERS.is_dir() else "/tmp"
