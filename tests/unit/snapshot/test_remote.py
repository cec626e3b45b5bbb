from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.registry import known_implementations

from airflow_provider.errors import ConfigurationError, SnapshotError
from airflow_provider.snapshot.remote import Remote, check_protocol
from airflow_provider.snapshot.settings import SnapshotSettings


@pytest.fixture
def remote(url: str) -> Remote:
    return Remote(SnapshotSettings(url), "app", "0_0")


def test_what_was_written_is_listed_read_and_removed(remote: Remote, tmp_path: Path) -> None:
    local, back = tmp_path / "local", tmp_path / "back"
    local.write_bytes(b"12345")
    assert remote.sizes() == {}

    remote.write("small", b"abc")
    remote.below("files").put(local, "large")

    assert remote.read("small") == b"abc"
    assert remote.names() == ("files", "small")
    assert remote.below("files").sizes() == {"large": 5}
    remote.below("files").get("large", back, 5)
    assert back.read_bytes() == b"12345"
    remote.remove("small")
    assert remote.names() == ("files",)


def test_what_is_not_there_is_an_error_that_names_it(remote: Remote) -> None:
    with pytest.raises(SnapshotError, match="app/0_0/none could not be read"):
        remote.read("none")


class FakeFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Hangs until released, or fails with a secret in the message."""

    protocol = "fake"
    cachable = False
    go_on = threading.Event()

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[dict[str, Any]]:
        self.go_on.wait(60)
        return []

    def cat_file(self, path: str, *_: Any, **__: Any) -> bytes:
        raise OSError("GET https://key:hunter2@host/x?signature=hunter2 said 403")


@pytest.fixture
def fake() -> Iterator[Remote]:
    fsspec.register_implementation("fake", FakeFileSystem, clobber=True)
    FakeFileSystem.go_on.clear()
    yield Remote(SnapshotSettings("fake://x", timeout_s=0.1))
    FakeFileSystem.go_on.set()


def test_remote_that_does_not_answer_is_waited_for_no_longer_than_allowed(fake: Remote) -> None:
    with pytest.raises(SnapshotError, match="could not be listed within"):
        fake.names()


def test_login_in_the_url_itself_is_not_repeated(fake: Remote) -> None:
    settings = SnapshotSettings("fake://x", timeout_s=0.1)
    object.__setattr__(settings, "url", "simplecache::fake://bob:hunter2@x")

    with pytest.raises(SnapshotError, match=r"simplecache::fake://…x/x could not be read") as caught:
        Remote(settings).read("x")

    assert "hunter2" not in str(caught.value)


def test_secret_in_a_librarys_message_is_not_repeated(fake: Remote) -> None:
    with pytest.raises(SnapshotError, match=r"OSError.*said 403") as caught:
        fake.read("x")

    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("url", ["file:///mnt/x", "memory://x", "simplecache::file:///mnt/x"])
def test_protocol_whose_file_system_is_there_is_accepted(url: str) -> None:
    check_protocol(url)


@pytest.mark.parametrize("url", ["s4://bucket/x", "simplecache::s4://bucket/x", "s4:bucket"])
def test_protocol_that_does_not_exist_is_refused_with_those_that_do(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"protocol 's4.*' fsspec does not know: .*such as file, s3") as caught:
        check_protocol(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["fast://bucket/x", "simplecache::fast://bucket/x"])
def test_protocol_without_its_package_says_what_to_install(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = {"class": "no_such_driver.FileSystem", "err": "Install fastfs to access the fast store."}
    monkeypatch.setitem(known_implementations, "fast", driver)

    with pytest.raises(
        ConfigurationError,
        match=r"'fast' needs .*: Install fastfs to .* store \(No module named 'no_such_driver'\)\. Install it in",
    ) as caught:
        check_protocol(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "s4://bob:hunter2@host/x",
        "simplecache::s4://bob:hunter2@host/x",
        "bob:hunter2@host/x",
        "s4://bob:one/hunter2@host/x",
        "simplecache::s4://bob:one/hunter2@host/x",
        "bob:one/hunter2@host/x",
        "s4://bob:one::two/hunter2@host/x",
        "s4://host/x;token=hunter2",
        "s4://host/x?token=hunter2",
    ],
)
def test_login_in_a_url_that_is_refused_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="fsspec does not know") as caught:
        check_protocol(url)

    assert "hunter2" not in str(caught.value)
