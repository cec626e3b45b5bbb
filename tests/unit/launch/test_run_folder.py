from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from airflow_provider.launch.run_folder import RunFolder

DAY_S = 86_400.0
NOW_S = 1_800_000_000.0


def launched(base: Path, incarnation: int, days_ago: float = 0.0) -> RunFolder:
    """A folder as an ended launch whose launcher was killed leaves it."""
    folder = RunFolder(base / f"app-a-{incarnation}")
    folder.make()
    folder.settings.write_text("password")
    (folder.temporary / "blockmgr").mkdir()
    (folder.checkpoint / "slot-0-1").mkdir(parents=True)
    folder.log.write_text("log")
    os.utime(folder.log, (NOW_S - days_ago * DAY_S,) * 2)
    return folder


def names(base: Path) -> list[str]:
    return sorted(path.name for path in base.iterdir())


def test_everything_in_it_is_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = RunFolder(tmp_path / "run" / "app-a-1")
        folder.make()
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder.path, *folder.path.iterdir()]}
    assert modes == {"app-a-1": 0o700, "tmp": 0o700, "instance.log": 0o600, "lock": 0o600}


def test_it_is_in_use_as_long_as_a_process_lives_that_inherited_the_lock(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "app-a-1")
    folder.make()
    assert not folder.in_use()

    read, write = os.pipe()
    with folder.lock() as lock:
        child = subprocess.Popen([sys.executable, "-c", f"import os; os.read({read}, 1)"], stdin=lock, pass_fds=[read])
    os.close(read)
    try:
        assert folder.in_use()
    finally:
        os.close(write)
        child.wait(10)

    assert not folder.in_use()


def test_end_of_a_process_that_was_killed_and_holds_its_files_still_is_waited_for(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "app-a-1")
    folder.make()
    with folder.lock() as lock:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read(1)"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()]
        )
    assert not folder.await_end(0.0)

    child.kill()

    assert folder.await_end(60.0)
    child.communicate()


def test_secrets_and_scratch_of_an_ended_launch_are_removed_and_its_log_stays(tmp_path: Path) -> None:
    killed = launched(tmp_path, 1)

    RunFolder(tmp_path / "app-a-2").clear_earlier(now_s=NOW_S)

    assert names(killed.path) == ["instance.log", "lock"]


def test_the_last_launches_are_kept_and_no_more(tmp_path: Path) -> None:
    for incarnation in (8, 9, 10, 11):
        launched(tmp_path, incarnation)

    RunFolder(tmp_path / "app-a-12").clear_earlier(max_folders=2, now_s=NOW_S)

    assert names(tmp_path) == ["app-a-10", "app-a-11"]


def test_old_launches_are_removed_but_for_the_newest(tmp_path: Path) -> None:
    for incarnation, days in ((1, 90), (2, 60), (3, 40)):
        launched(tmp_path, incarnation, days)

    RunFolder(tmp_path / "app-a-4").clear_earlier(max_days=30, now_s=NOW_S)

    assert names(tmp_path) == ["app-a-3"]


def test_what_runs_what_is_newer_and_what_is_of_others_is_left_alone(tmp_path: Path) -> None:
    running, ended, newer = (launched(tmp_path, incarnation, 90) for incarnation in (1, 2, 9))
    (tmp_path / "app-b-1").mkdir()
    (tmp_path / "app-a-x").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "app-a-0").symlink_to(elsewhere)

    with running.lock():
        RunFolder(tmp_path / "app-a-3").clear_earlier(max_folders=1, max_days=1, now_s=NOW_S)

    assert running.settings.exists()
    assert newer.settings.exists()
    assert not ended.settings.exists()
    assert names(tmp_path) == ["app-a-0", "app-a-1", "app-a-2", "app-a-9", "app-a-x", "app-b-1", "elsewhere"]


def test_log_that_is_too_long_is_set_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "app-a-1")
    folder.make()

    with folder.log.open("ab", buffering=0) as log:
        for text in (b"first", b"second", b"third"):
            log.write(text)
            rotated = folder.rotate_log(max_bytes=4)
            assert rotated
        log.write(b"end")
        assert not folder.rotate_log(max_bytes=4)

    assert (folder.older_log.read_bytes(), folder.log.read_bytes()) == (b"third", b"end")
    assert stat.S_IMODE(folder.older_log.stat().st_mode) == 0o600
