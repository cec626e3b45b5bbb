from __future__ import annotations

import json

import pytest

from airflow_provider.errors import SnapshotError
from airflow_provider.snapshot.manifest import Manifest
from tests.unit.snapshot.builders import manifest


def test_reads_back_the_same_and_is_json_that_people_can_read() -> None:
    data = manifest().to_bytes()

    assert Manifest.from_bytes(data, "m") == manifest()
    assert json.loads(data)["manifest"]["changelogs"]["app-state-changelog"]["offset"] == 900_000


def test_later_snapshots_sort_behind_earlier_ones() -> None:
    names = [manifest(offset=offset, taken_at_ms=at).name for offset, at in ((9, 8), (9, 10), (10, 5), (1_000, 1))]

    assert names == sorted(names)


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_any_flipped_byte_is_damage(at: int) -> None:
    data = bytearray(manifest().to_bytes())
    data[at] ^= 1

    with pytest.raises(SnapshotError, match="damaged"):
        Manifest.from_bytes(bytes(data), "m")


@pytest.mark.parametrize("data", [b"", b"{}", manifest().to_bytes()[:-1]], ids=["empty", "other", "cut-short"])
def test_what_is_no_manifest_is_damage(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="damaged"):
        Manifest.from_bytes(data, "m")


def test_later_format_is_not_read() -> None:
    with pytest.raises(SnapshotError, match="format 4, this version reads 3"):
        Manifest.from_bytes(manifest(format=4).to_bytes(), "m")
