from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.streaming.worker.step.batch_processor import CrashCounter, Place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "i1"


def begin(counter: CrashCounter, task: int = 0, generation: int = 1, offset: int | None = 40) -> int:
    """Returns how many attempts came to no end before."""
    place = Place(TaskId(0, task), generation, offset)
    crashes = counter.of(place) or 0
    counter.note(place, crashes + 1)
    return crashes


def test_attempt_that_came_to_no_end_is_known_to_the_next_process(folder: Path) -> None:
    assert [begin(CrashCounter(folder)) for _ in range(3)] == [0, 1, 2]


def test_attempt_that_ended_is_forgotten(folder: Path) -> None:
    attempts = CrashCounter(folder)
    begin(attempts)
    attempts.end(TaskId(0, 0))

    assert begin(attempts) == 0


@pytest.mark.parametrize(("task", "generation", "offset"), [(1, 1, 40), (0, 2, 40), (0, 1, 41), (0, 1, None)])
def test_another_place_counts_anew(folder: Path, task: int, generation: int, offset: int | None) -> None:
    attempts = CrashCounter(folder)
    begin(attempts)

    assert begin(attempts, task, generation, offset) == 0


@pytest.mark.parametrize("found", [b"", b"1 40 x", b"\xff\xfe"])
def test_note_that_cannot_be_read_counts_as_none(folder: Path, found: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "attempt-0_0").write_bytes(found)

    assert begin(CrashCounter(folder)) == 0


def test_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    attempts = CrashCounter(tmp_path / "file")

    assert [begin(attempts), begin(attempts)] == [0, 0]
    attempts.end(TaskId(0, 0))
