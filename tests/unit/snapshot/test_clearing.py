from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.snapshot.remote import place_of
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.snapshot.upload import clear_abandoned, is_abandoned
from tests.unit.snapshot.builders import HOUR_MS, NOW_MS, manifest


@pytest.mark.parametrize(
    ("ages_h", "abandoned"),
    [
        pytest.param([], False, id="nothing-known"),
        pytest.param([49], True, id="too-old-for-twice-as-long"),
        pytest.param([47], False, id="too-old-but-not-for-long"),
        pytest.param([90, 1], False, id="the-newest-counts"),
    ],
)
def test_standbys_snapshots_are_abandoned(ages_h: list[int], abandoned: bool) -> None:
    names = [manifest(taken_at_ms=NOW_MS - age * HOUR_MS).name for age in ages_h]

    assert is_abandoned(names, NOW_MS, 24 * HOUR_MS) is abandoned


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_only_what_other_instances_abandoned_is_removed(scheme: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/remote" if scheme == "file" else f"memory://{uuid.uuid4().hex}"
    task = place_of(SnapshotSettings(url), "app", "state", TaskId(0, 3))
    for name, age in (("gone", 100), ("own", 100), ("living", 1)):
        taken = manifest(instance=name, taken_at_ms=NOW_MS - age * HOUR_MS)
        task.below(name, "manifests").write(taken.name, taken.to_bytes())
        task.below(name, "files").write("aa", b"1")

    assert clear_abandoned(task, "own", NOW_MS, 24 * HOUR_MS) == ("gone",)

    left = {name for name in ("gone", "own", "living") if task.below(name, "files").names()}
    assert left == {"own", "living"}
    assert clear_abandoned(task, "own", NOW_MS, 24 * HOUR_MS) == ()
