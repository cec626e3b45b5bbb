from __future__ import annotations

import pytest

from airflow_provider.snapshot.manifest import SnapshotFile
from airflow_provider.snapshot.upload import surplus_manifests, unreferenced_files
from tests.unit.snapshot.builders import manifest


@pytest.mark.parametrize(
    ("taken", "surplus"),
    [
        pytest.param([], [], id="none"),
        pytest.param([1, 2], [], id="as-many-as-are-kept"),
        pytest.param([1, 2, 3], [], id="one-more-for-a-reader-that-began-before"),
        pytest.param([4, 1, 3, 2, 5], [1, 2], id="oldest-first"),
    ],
)
def test_surplus_is(taken: list[int], surplus: list[int]) -> None:
    names = {at: manifest(taken_at_ms=at).name for at in taken}

    assert list(surplus_manifests(names.values(), 2)) == [names[at] for at in surplus]


def test_snapshot_of_a_changelog_that_began_anew_is_newer_though_its_offset_is_smaller() -> None:
    before, after = manifest(offset=900, taken_at_ms=1).name, manifest(offset=5, taken_at_ms=2).name
    newest = manifest(offset=6, taken_at_ms=3).name

    assert list(surplus_manifests([before, after, newest], 1)) == [before]


def test_file_stays_while_any_manifest_needs_it() -> None:
    kept = [manifest(files=(SnapshotFile("a", 1, "aa"), SnapshotFile("b", 1, "bb"))), manifest(files=())]

    assert unreferenced_files(["aa", "bb", "cc"], kept) == ["cc"]
