"""The folder where snapshots lie: every call has a deadline, no message has a secret."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import fsspec

from airflow_provider.common.in_thread import in_thread
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError, SnapshotError
from airflow_provider.snapshot.settings import SnapshotSettings, has_login, without_login

T = TypeVar("T")


class Remote:
    """A folder behind an fsspec URL.

    Raises:
        SnapshotError: (every method) it did not do what was asked, or not in time.
    """

    def __init__(self, settings: SnapshotSettings, *folder: str) -> None:
        self._settings = settings
        self.path = "/".join([settings.url.rstrip("/"), *filter(None, folder)])

    def below(self, *folder: str) -> Remote:
        """A folder in it."""
        return Remote(self._settings, self.path.removeprefix(self._settings.url.rstrip("/")).strip("/"), *folder)

    def names(self) -> tuple[str, ...]:
        """What lies in it, sorted; nothing where it does not exist."""
        return tuple(self.sizes())

    def sizes(self) -> Mapping[str, int]:
        """What lies in it by name, with its size in bytes."""

        def list_(fs: Any, root: str) -> dict[str, int]:
            fs.invalidate_cache()
            try:
                found = fs.ls(root, detail=True)
            except FileNotFoundError:
                return {}
            return {info["name"].rstrip("/").rpartition("/")[2]: int(info["size"] or 0) for info in found}

        return dict(sorted(self._do("list", "", list_).items()))

    def read(self, name: str) -> bytes:
        """A small file."""
        return self._do("read", name, lambda fs, path: bytes(fs.cat_file(path)))

    def write(self, name: str, data: bytes) -> None:
        """A small file."""

        def write(fs: Any, path: str) -> None:
            _make_parent(fs, path)
            fs.pipe_file(path, data)

        self._do("write", name, write)

    def put(self, local: Path, name: str) -> None:
        """Send a file."""

        def put(fs: Any, path: str) -> None:
            _make_parent(fs, path)
            fs.put_file(str(local), path)

        self._do("send", name, put, local.stat().st_size)

    def get(self, name: str, local: Path, size: int) -> None:
        """Fetch a file."""
        self._do("fetch", name, lambda fs, path: fs.get_file(path, str(local)), size)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._do("remove", name, lambda fs, path: fs.rm_file(path))

    def _do(self, what: str, name: str, call: Callable[[Any, str], T], size: int = 0) -> T:
        url = f"{self.path}/{name}" if name else self.path
        shown = without_login(url)
        timeout_s = self._settings.transfer_timeout_s(size)

        def do() -> T:
            fs, path = fsspec.core.url_to_fs(url)
            return call(fs, path)

        try:
            return in_thread(do, f"snapshot-{what}").result(timeout_s)
        except TimeoutError as error:
            raise SnapshotError(f"{shown} could not be {_PAST[what]} within {timeout_s:.0f} s.") from error
        except Exception as error:
            # What it was raised from may name credentials, so the chain is cut.
            why = without_login(str(error))[:300]
            raise SnapshotError(f"{shown} could not be {_PAST[what]} ({type(error).__name__}: {why}).") from None


def _make_parent(fs: Any, path: str) -> None:
    # An object store has no folders, and may forbid what it takes for making a bucket.
    with contextlib.suppress(PermissionError, NotImplementedError):
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)


_PAST: Final = {"list": "listed", "read": "read", "write": "written", "send": "sent", "fetch": "fetched",
                "remove": "removed"}  # fmt: skip


_USUAL: Final = "file, s3, gs, abfs, hdfs, sftp"


def check_protocol(url: str) -> None:
    """Refuse a URL for which there is no file system here; nothing is opened.

    Args:
        url: of the snapshots, also a chained one, such as ``simplecache::s3://bucket/prefix``.

    Raises:
        ConfigurationError: fsspec does not know a protocol of it, or what that needs is not installed.
    """
    shown, hidden = without_login(url), has_login(url)
    for part in url.split("::"):
        protocol = part.partition("://")[0]
        # Of a password with a "::" in it, a part would look like a protocol.
        named = "…" if hidden else without_login(protocol)
        try:
            fsspec.get_filesystem_class(protocol)
        except ValueError:
            raise ConfigurationError(
                f"snapshots() got url={shown!r}, whose protocol {named!r} fsspec does not know: use one that it does, "
                f"such as {_USUAL}. For one of your own, install its package in the Python environment of every "
                "instance."
            ) from None  # its text repeats the protocol
        except ImportError as error:
            because = f" ({error.__cause__})" if error.__cause__ is not None else ""
            raise ConfigurationError(
                f"snapshots() got url={shown!r}, whose protocol {named!r} needs a package that cannot be imported "
                f"here: {str(error).rstrip('.')}{because}. Install it in the Python environment of every instance."
            ) from error


FILES: Final = "files"
MANIFESTS: Final = "manifests"


def place_of(settings: SnapshotSettings, application_id: str, store: str, task: TaskId) -> Remote:
    """The folder of a task's snapshots; in it one for each instance (``docs/formats.md``).

    Each standby has a folder of its own, in which only it writes and removes: two of one task cannot harm each other,
    and RocksDB instances hardly ever share a file anyway.
    """
    return Remote(settings, application_id, store, str(task))
