"""A real store's checkpoint, sent and fetched."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import SnapshotError
from airflow_provider.snapshot.download import Downloaded, download
from airflow_provider.snapshot.manifest import FileHashes, Manifest, SnapshotFile
from airflow_provider.snapshot.remote import Remote, place_of
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.snapshot.upload import Uploaded, upload
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.store import Store
from tests.unit.snapshot.builders import HOUR_MS, NOW_MS, bounds, manifest


@pytest.fixture
def settings(url: str) -> SnapshotSettings:
    # A replay is assumed to be so slow that a snapshot is always worth it.
    return SnapshotSettings(url, keep=2, replay_records_per_s=1)


@pytest.fixture
def task(settings: SnapshotSettings) -> Remote:
    return place_of(settings, "app", "state", TaskId(0, 3))


@dataclasses.dataclass
class Standby:
    """A store with 1000 keys more at each snapshot."""

    store: Store
    place: Remote
    folder: Path
    hashes: FileHashes = dataclasses.field(default_factory=FileHashes)
    offset: int = 0

    def grow(self) -> None:
        rows = [(b"%08d" % n, os.urandom(100)) for n in range(self.offset, self.offset + 1000)]
        self.offset += 1000
        at = ChangelogPosition(offset=self.offset)
        self.store.write({"state": rows}, Position(changelogs={"app-state-changelog": at}, commit=b"commit"))

    def snapshot(self, keep: int = 2) -> Uploaded:
        self.grow()
        checkpoint = self.folder / f"checkpoint-{self.offset}"
        self.store.checkpoint(checkpoint)
        taken = manifest(offset=self.offset, taken_at_ms=NOW_MS - HOUR_MS + self.offset, instance="i2")
        return upload(checkpoint, taken, self.place, self.hashes, keep)


@pytest.fixture
def standby(task: Remote, tmp_path: Path) -> Iterator[Standby]:
    store = Store(tmp_path / "state", ["state"])
    yield Standby(store, task.below("i2"), tmp_path)
    store.close()


def fetch(task: Remote, settings: SnapshotSettings, tmp_path: Path, **ours: object) -> Downloaded:
    return download(task, bounds(**ours), NOW_MS, settings, tmp_path / "restored")


def restored(tmp_path: Path) -> tuple[dict[bytes, bytes], Position | None]:
    store = Store(tmp_path / "restored", ["state"])
    try:
        return dict(store.items("state")), store.position
    finally:
        store.close()


def damage(path: str, at: int = 100) -> None:
    fs, inside = fsspec.core.url_to_fs(path)
    content = bytearray(fs.cat_file(inside))
    content[at] ^= 1
    fs.pipe_file(inside, bytes(content))


def table_file(of: Manifest) -> SnapshotFile:
    return max((file for file in of.files if file.name.endswith(".sst")), key=lambda file: file.name)


def test_restored_store_is_the_one_that_was_taken_whatever_was_written_later(
    task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path
) -> None:
    standby.snapshot()
    then, position = dict(standby.store.items("state")), standby.store.position
    standby.grow()

    found = fetch(task, settings, tmp_path)

    assert str(found) == "the snapshot of i2 at 1000"
    assert restored(tmp_path) == (then, position)


def test_second_snapshot_sends_only_what_is_new(standby: Standby) -> None:
    first, second = standby.snapshot(), standby.snapshot()

    tables = {file.name for file in first.manifest.files if file.name.endswith(".sst")}
    assert tables
    assert {file.name for file in first.sent} == {file.name for file in first.manifest.files}
    assert tables <= {file.name for file in second.manifest.files}
    assert not tables & {file.name for file in second.sent}
    assert any(file.name.endswith(".sst") for file in second.sent)


def test_newest_of_two_standbys_is_taken_and_neither_touches_the_others(
    task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path
) -> None:
    standby.snapshot()
    (tmp_path / "other").mkdir()
    other = Standby(Store(tmp_path / "other" / "state", ["state"]), task.below("i3"), tmp_path / "other")
    for _ in range(5):
        other.snapshot(keep=1)
    other.store.close()

    found = fetch(task, settings, tmp_path)

    assert found.manifest is not None
    assert found.manifest.offset == 5_000
    assert len(standby.place.below("manifests").names()) == 1


def test_number_of_snapshots_is_bounded_and_no_file_is_left_that_none_needs(standby: Standby) -> None:
    taken = [standby.snapshot(keep=1).manifest for _ in range(4)]

    assert standby.place.below("manifests").names() == tuple(m.name for m in taken[-2:])
    needed = {file.sha256 for m in taken[-2:] for file in m.files}
    assert set(standby.place.below("files").names()) == needed


def test_damaged_file_is_found_removed_and_the_next_older_snapshot_taken(
    task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path
) -> None:
    first, second = standby.snapshot(), standby.snapshot()
    bad = table_file(second.manifest)
    assert bad not in first.manifest.files
    damage(f"{standby.place.path}/files/{bad.sha256}")

    found = fetch(task, settings, tmp_path)

    assert str(found).startswith("the snapshot of i2 at 1000 (")
    assert f"({bad.name}) is damaged" in str(found)
    assert len(restored(tmp_path)[0]) == 1000
    assert bad.sha256 not in standby.place.below("files").names()


@pytest.mark.parametrize("kind", ["manifest-damaged", "file-damaged", "file-missing", "file-cut-short"])
def test_without_a_whole_snapshot_the_changelog_is_read_and_the_reason_reported(
    kind: str, task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path
) -> None:
    taken = standby.snapshot().manifest
    path = f"{standby.place.path}/files/{table_file(taken).sha256}"
    fs, inside = fsspec.core.url_to_fs(path)
    match kind:
        case "manifest-damaged":
            damage(f"{standby.place.path}/manifests/{taken.name}")
        case "file-damaged":
            damage(path)
        case "file-missing":
            fs.rm_file(inside)
        case _:
            fs.pipe_file(inside, fs.cat_file(inside)[:-1])

    found = fetch(task, settings, tmp_path)

    assert found.manifest is None
    assert str(found).startswith("the changelog (")
    assert "damaged" in str(found) or "could not be fetched" in str(found)
    assert not (tmp_path / "restored").exists()


def test_file_that_a_dead_process_left_too_short_is_sent_again(
    task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path
) -> None:
    first = standby.snapshot().manifest
    path = f"{standby.place.path}/files/{table_file(first).sha256}"
    fs, inside = fsspec.core.url_to_fs(path)
    fs.pipe_file(inside, fs.cat_file(inside)[:-1])

    second = standby.snapshot()

    assert table_file(first).sha256 in {file.sha256 for file in second.sent}
    assert fetch(task, settings, tmp_path).manifest == second.manifest


def test_upload_that_dies_before_its_manifest_leaves_no_snapshot(
    task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise SnapshotError("gone")

    with monkeypatch.context() as dying:
        dying.setattr(Remote, "write", die)
        with pytest.raises(SnapshotError, match="gone"):
            standby.snapshot()

    assert str(fetch(task, settings, tmp_path)) == "the changelog (there is no snapshot)"


@pytest.mark.parametrize(
    ("ours", "why"),
    [
        pytest.param({"topic_id": "later"}, "created again", id="recreated-changelog"),
        pytest.param({"low": 5_000}, "before the changelog's start", id="truncated-changelog"),
        pytest.param({"delete_retention_ms": HOUR_MS // 2}, "delete.retention.ms", id="too-old"),
    ],
)
def test_snapshot_that_must_not_be_restored_is_not_fetched(
    ours: dict[str, object], why: str, task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path
) -> None:
    standby.snapshot()

    found = fetch(task, settings, tmp_path, **ours)

    assert found.manifest is None
    assert why in str(found)


def test_snapshot_that_was_tried_is_not_taken_again(
    task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path
) -> None:
    standby.snapshot()
    first = fetch(task, settings, tmp_path)
    assert first.path is not None

    again = download(task, bounds(), NOW_MS, settings, tmp_path / "restored", {first.path})

    assert again.manifest is None


def test_file_that_would_lie_elsewhere_is_refused(
    task: Remote, settings: SnapshotSettings, standby: Standby, tmp_path: Path
) -> None:
    evil = manifest(offset=5, files=(SnapshotFile("../outside", 1, "aa"),))
    standby.place.below("manifests").write(evil.name, evil.to_bytes())

    assert "expected a plain name" in str(fetch(task, settings, tmp_path))
    assert not (tmp_path / "outside").exists()


def test_fetch_that_was_given_up_changes_nothing_of_the_snapshot_that_was_taken_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SnapshotSettings(f"file://{tmp_path}/remote", timeout_s=5.0, replay_records_per_s=1)
    task = place_of(settings, "app", "state", TaskId(0, 3))
    for offset, content in ((100, b"older"), (200, b"newer")):
        local = tmp_path / f"local-{offset}"
        local.mkdir()
        (local / "000012.sst").write_bytes(content)
        taken = manifest(offset=offset, taken_at_ms=NOW_MS - HOUR_MS + offset, files=())
        upload(local, taken, task.below("i2"), FileHashes(), keep=3)
    goes_on, has_written = threading.Event(), threading.Event()
    get_file = LocalFileSystem.get_file

    def stand_still(self: LocalFileSystem, source: str, local: str, **given: object) -> None:
        if Path(source).name != hashlib.sha256(b"newer").hexdigest():
            get_file(self, source, local, **given)
            return
        goes_on.wait(60.0)
        try:
            get_file(self, source, local, **given)
        finally:
            has_written.set()

    monkeypatch.setattr(LocalFileSystem, "get_file", stand_still)

    found = fetch(task, settings, tmp_path)
    goes_on.set()

    assert found.manifest is not None
    assert found.manifest.offset == 100
    assert has_written.wait(60.0)
    assert (tmp_path / "restored" / "000012.sst").read_bytes() == b"older"
