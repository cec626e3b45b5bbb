from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from airflow_provider.common.files import check_path, create_private_file, file_end, make_private_folder
from airflow_provider.errors import ConfigurationError

OTHER = 54321

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_folders_are_made_for_this_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)

    assert [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o700, 0o700]


@pytest.mark.parametrize("right", [0o777, 0o707], ids=["all", "others"])
def test_folder_that_others_may_write_to_is_refused_unless_it_is_sticky(right: int, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(right)

    with pytest.raises(ConfigurationError, match=r"shared, on the way to .*can be written to by other users"):
        make_private_folder(shared / "run")
    assert not (shared / "run").exists()

    shared.chmod(right | stat.S_ISVTX)
    make_private_folder(shared / "run")


@as_root
def test_folder_that_a_group_of_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    check_path(shared / "run")

    os.chown(shared, -1, OTHER)

    with pytest.raises(ConfigurationError, match="mode 775, without the sticky bit"):
        check_path(shared / "run")


@as_root
def test_folder_that_somebody_else_made_first_is_refused(tmp_path: Path) -> None:
    sticky = tmp_path / "tmp"
    (sticky / "stateful-streams").mkdir(parents=True)
    sticky.chmod(0o1777)
    os.chown(sticky / "stateful-streams", OTHER, OTHER)

    with pytest.raises(ConfigurationError, match=f"stateful-streams, on the way to .*user with id {OTHER}"):
        make_private_folder(sticky / "stateful-streams" / "run")


@as_root
def test_link_that_somebody_else_made_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    mine, sticky = tmp_path / "mine", tmp_path / "tmp"
    mine.mkdir()
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "run").symlink_to(mine)
    check_path(sticky / "run" / "a")

    os.lchown(sticky / "run", OTHER, OTHER)

    with pytest.raises(ConfigurationError, match="tmp/run, on the way to"):
        check_path(sticky / "run" / "a")


def test_what_a_link_leads_through_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "shared" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("shared/../shared/deep")
    (tmp_path / "shared").chmod(0o777)

    with pytest.raises(ConfigurationError, match="shared, on the way to"):
        check_path(tmp_path / "link" / "run")


def test_links_without_an_end_and_relative_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(ConfigurationError, match="more than 40 links"):
        check_path(tmp_path / "loop")
    with pytest.raises(ConfigurationError, match="expected an absolute one"):
        check_path(Path("run"))


def test_file_is_new_and_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_private_file(tmp_path / "file", b"secret")
    finally:
        os.umask(before)

    assert ((tmp_path / "file").read_bytes(), mode(tmp_path / "file")) == (b"secret", 0o600)


@pytest.mark.parametrize("there", ["file", "link"])
def test_file_or_link_that_is_there_is_neither_written_nor_followed(there: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    if there == "file":
        (tmp_path / "new").write_text("theirs")
    else:
        (tmp_path / "new").symlink_to(target)

    with pytest.raises(FileExistsError):
        create_private_file(tmp_path / "new", b"secret")

    assert not target.exists()


@pytest.mark.parametrize(
    ("max_bytes", "end"),
    [
        pytest.param(100, "first\nlast \N{REPLACEMENT CHARACTER}\n", id="smaller"),
        pytest.param(7, "last \N{REPLACEMENT CHARACTER}\n", id="larger"),
    ],
)
def test_end_of_a_file_is_read(max_bytes: int, end: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"first\nlast \xff\n")

    assert file_end(log, max_bytes) == end


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_end(tmp_path / "none.log")
