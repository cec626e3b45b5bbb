"""Snapshots on an S3-like store that fails, or does not answer. Run by `make object-store`."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import SnapshotError
from airflow_provider.snapshot.download import download
from airflow_provider.snapshot.manifest import FileHashes
from airflow_provider.snapshot.remote import place_of
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.snapshot.upload import Uploaded, upload
from tests.unit.snapshot.builders import NOW_MS, bounds, manifest
from tests.unit.snapshot.object_store import STORES, ObjectStore

pytestmark = pytest.mark.skipif("s3" not in STORES, reason="`make object-store` has what this needs")


@pytest.fixture
def settings(store: ObjectStore) -> SnapshotSettings:
    return SnapshotSettings(store.url(), timeout_s=30.0, replay_records_per_s=1)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for number in range(3):
        (folder / f"00000{number}.sst").write_bytes(b"%d" % number * 10_000)
    return folder


def send(settings: SnapshotSettings, checkpoint: Path) -> Uploaded:
    place = place_of(settings, "app", "state", TaskId(0, 3)).below("i2")
    return upload(checkpoint, manifest(offset=900_000, files=()), place, FileHashes(), 2)


def fetched(settings: SnapshotSettings, folder: Path) -> dict[str, bytes] | str:
    """The files of the snapshot that was found; or why none was."""
    task = place_of(settings, "app", "state", TaskId(0, 3))
    found = download(task, bounds(), NOW_MS, settings, folder)
    if found.manifest is None:
        assert not folder.exists()
        return str(found)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def content(checkpoint: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in checkpoint.iterdir()}


def test_store_that_does_not_answer_is_waited_for_no_longer_than_allowed(
    store: ObjectStore, settings: SnapshotSettings, checkpoint: Path, tmp_path: Path
) -> None:
    send(settings, checkpoint)
    hasty = SnapshotSettings(settings.url, timeout_s=0.5, replay_records_per_s=1)
    store.passing.clear()

    with pytest.raises(SnapshotError, match=r"could not be listed within"):
        send(hasty, checkpoint)
    assert "could not be listed within" in str(fetched(hasty, tmp_path / "restored"))

    store.passing.set()
    assert send(settings, checkpoint).sent == ()
    assert fetched(settings, tmp_path / "restored") == content(checkpoint)


@pytest.mark.parametrize("status", [403, 503], ids=["refuses", "is-overloaded"])
def test_store_that_fails_is_named_and_the_changelog_read_instead(
    status: int, store: ObjectStore, settings: SnapshotSettings, checkpoint: Path, tmp_path: Path
) -> None:
    send(settings, checkpoint)
    store.refused_with = status

    with pytest.raises(SnapshotError, match=r"s3://snapshots/.* could not be listed") as caught:
        send(settings, checkpoint)
    reason = str(fetched(settings, tmp_path / "restored"))

    assert reason.startswith("the changelog (s3://snapshots/")
    assert "hunter2" not in f"{caught.value} {reason}"
    store.refused_with = None
    assert fetched(settings, tmp_path / "restored") == content(checkpoint)


def test_store_that_takes_nothing_leaves_no_snapshot_and_the_next_one_is_whole(
    store: ObjectStore, settings: SnapshotSettings, checkpoint: Path, tmp_path: Path
) -> None:
    store.refused, store.refused_with = ("PUT", "POST"), 403

    with pytest.raises(SnapshotError, match="could not be sent"):
        send(settings, checkpoint)
    assert fetched(settings, tmp_path / "restored") == "the changelog (there is no snapshot)"

    store.refused_with = None
    assert len(send(settings, checkpoint).sent) == 3
    assert fetched(settings, tmp_path / "restored") == content(checkpoint)
