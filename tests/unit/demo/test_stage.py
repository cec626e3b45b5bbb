from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_provider.demo import run
from airflow_provider.demo.errors import DemoFolderError
from airflow_provider.demo.stage import DemoFolder, dag_file, end_launchers, launchers_under
from airflow_provider.kit.process import GroupLeader
from tests.waiting import wait_until


def test_demo_finds_the_dags_that_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "flights_dags.py"
    file.write_text(
        dag_file(
            application_id=run.APPLICATION,
            job=tmp_path / "o'job.py",
            instances=run.INSTANCES,
            state_dir=tmp_path / "state",
            run_dir=tmp_path / "run",
            conf={"spark.driver.memory": "512m"},
        )
    )

    bag = DagBag(str(file))

    assert not bag.import_errors
    assert {run.DEPLOY, run.FAILOVER, run.REPAIR, run.DRILL} <= set(bag.dags)
    deploy: Any = bag.dags[run.DEPLOY].get_task("deploy_i2")
    assert deploy.application == str(tmp_path / "o'job.py")
    assert deploy.state_dir == str(tmp_path / "state" / "i2")


@pytest.fixture
def living() -> Iterator[GroupLeader]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    yield GroupLeader.of(process.pid)
    process.communicate()


def test_second_demo_at_once_is_reported_in_one_line(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)

    with folder.held(), pytest.raises(DemoFolderError, match="Another demo works on") as caught, folder.held():
        pass
    assert "\n" not in str(caught.value)


def test_folder_that_was_let_go_can_be_held_again(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / "new")

    with folder.held():
        pass
    with folder.held():
        pass


def test_what_an_earlier_demo_left_is_removed(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    for path in (folder.kafka, folder.airflow, folder.logs, folder.run, folder.state):
        path.mkdir()
        (path / "old").touch()
    folder.write("http://127.0.0.1:1", [GroupLeader(2**22 - 1, 1.0)])

    folder.clear()

    assert not folder.is_up()
    assert list(tmp_path.iterdir()) == []


def test_living_demo_is_not_removed(tmp_path: Path, living: GroupLeader) -> None:
    folder = DemoFolder(tmp_path)
    folder.logs.mkdir()
    folder.write("http://127.0.0.1:1", [living])

    with pytest.raises(DemoFolderError, match="make down"):
        folder.clear()

    assert folder.logs.is_dir()
    assert folder.airflow_leaders() == [living]


def test_what_lies_beside_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()

    DemoFolder(tmp_path).clear()

    assert (tmp_path / "notes.txt").exists()


def test_newest_log_is_that_of_an_instance_or_of_a_task(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    assert folder.newest_log() is None
    task = folder.airflow / "logs" / "dag_id=deploy" / "run_id=r" / "task_id=start" / "attempt=1.log"
    instance = folder.run / "i1-1" / "instance.log"
    for at, path in enumerate((task, instance), start=1):
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (at, at))

    assert folder.newest_log() == instance
    assert folder.task_log("deploy", "start") == task
    assert folder.task_log("deploy", "other") is None


def test_launchers_of_another_folder_are_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()", "airflow_provider.launch.launcher"]
    with (
        subprocess.Popen([*command, str(tmp_path / "ours" / "x")], stdin=subprocess.PIPE) as ours,
        subprocess.Popen([*command, str(tmp_path / "others" / "x")], stdin=subprocess.PIPE) as others,
    ):
        wait_until(lambda: launchers_under(tmp_path / "others"), 5.0, "the other launcher")
        wait_until(lambda: launchers_under(tmp_path / "ours"), 5.0, "our launcher")

        end_launchers(tmp_path / "ours", 5.0)

        assert ours.poll() is not None
        assert [p.pid for p in launchers_under(tmp_path / "others")] == [others.pid]
