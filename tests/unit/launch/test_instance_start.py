from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.deployment import Deployment, InstanceHandle
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.launch.instance_start import failed_process, late_start, living_instance, reason_to_launch
from airflow_provider.launch.run_folder import RunFolder
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from tests.builders import APPLICATION, assigned, instance, view_of

TIMEOUTS = Timeouts(instance_s=0.1, start_s=100.0)


class Reader:
    """Of an application whose instance says `says` while it is listened to."""

    def __init__(self, view: ControlView, says: InstanceStatus | None = None) -> None:
        self.view = view
        self._says = says

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read_to_end(self) -> ControlView:
        return self.view

    def listen(self, expected: Callable[[], Collection[str]], _: float, since: Mapping[str, int]) -> set[str]:
        assert set(expected()) == set(since)
        if self._says is None:
            return set(since)
        self.view.statuses["a"] = self._says
        return set()


def launched(folder: Path, ago_s: float) -> ControlView:
    """An instance that was launched so long ago, and said nothing since."""
    claim = instance("a", state=InstanceState.STARTING, incarnation=now_ms() - int(ago_s * 1000))
    view = view_of(None, claim)
    view.deployments["a"] = Deployment(
        application_id=APPLICATION,
        instance="a",
        application="job.py",
        kafka_conn_id="k",
        spark_conn_id="s",
        state_dir="/state",
        run_dir=str(folder),
    )
    return view


def folder_of(view: ControlView) -> RunFolder:
    folder = RunFolder(Path(view.deployments["a"].run_dir) / f"{APPLICATION}-a-{view.statuses['a'].incarnation}")
    folder.make()
    return folder


@contextmanager
def living(view: ControlView) -> Iterator[None]:
    with folder_of(view).lock():
        yield


def look(view: ControlView, says: InstanceStatus | None = None) -> InstanceStatus | None:
    assert living_instance(view, "a", TIMEOUTS, Mock()) is None
    reader: Any = Reader(view, says)
    return late_start(view, "a", TIMEOUTS, lambda: reader)


def test_start_that_takes_too_long_is_found_while_its_process_lives_here(tmp_path: Path) -> None:
    view = launched(tmp_path, ago_s=250.0)

    with living(view):
        assert look(view) is view.statuses["a"]
    assert look(view) is None


def test_process_that_starts_far_too_long_hangs_unless_it_speaks(tmp_path: Path) -> None:
    view = launched(tmp_path, ago_s=301.0)

    with living(view):
        assert look(view) is None
    view = launched(tmp_path, ago_s=302.0)
    with living(view):
        assert look(view, instance("a", incarnation=5)) == instance("a", incarnation=5)


def test_instance_is_listened_for_once_as_long_as_nothing_newer_came(tmp_path: Path) -> None:
    """Two that start instances side by side would else take the right to publish from each other while they listen."""
    view = view_of(assigned("a b"), instance("a", incarnation=now_ms()), instance("b"))
    reader = Mock(wraps=Reader(view), __enter__=lambda self: self, __exit__=lambda *_: None)

    for _ in range(2):
        assert living_instance(view, "a", TIMEOUTS, lambda: reader) is None
    assert reader.listen.call_count == 1
    view.heard_at_ms["a"] += 1
    assert living_instance(view, "a", TIMEOUTS, lambda: reader) is None
    assert reader.listen.call_count == 2


def test_start_on_another_host_is_found_by_its_word_alone(tmp_path: Path) -> None:
    view = launched(tmp_path, ago_s=120.0)

    assert look(view) is None
    # Of another process each time: one is listened for once.
    view = launched(tmp_path, ago_s=121.0)
    assert look(view, instance("a", state=InstanceState.ENDED)) is None
    view = launched(tmp_path, ago_s=122.0)
    assert look(view, instance("a")) == instance("a")


def test_reason_to_launch_again_is_one_line() -> None:
    ended = instance("a", state=InstanceState.ENDED, incarnation=7, error="killed\nby 9")

    assert reason_to_launch(ended, 0.0, TIMEOUTS) == "incarnation 7 is ended: killed by 9"
    # Of the newest record of all one look says that it came just now.
    assert reason_to_launch(instance("a"), 0.0, Timeouts()).endswith("the last one 5 s ago or longer")
    assert reason_to_launch(instance("a"), 12.3, TIMEOUTS) == (
        "incarnation 1 is running and sends no heartbeat, the last one 12 s ago or longer"
    )
    starting = instance("a", state=InstanceState.STARTING, incarnation=now_ms() - 420_000)
    assert "has been starting for 420 s, a start may take 100 s" in reason_to_launch(starting, 0.0, TIMEOUTS)


class Deploying(DeployInstanceOperator):
    """Notes a launch instead of making one, and finds a job file that was changed where `differs`."""

    launched = False
    differs = False

    def go_on(self, view: ControlView) -> InstanceHandle:
        return self._attach_or_launch(Mock(view=view))

    def _launch(self, publisher: Any) -> InstanceHandle:
        self.launched = True
        return InstanceHandle(application_id=APPLICATION, instance="a", incarnation=now_ms())

    def _changed(self, view: ControlView) -> tuple[str, ...]:
        return ("the content of the job file",) if self.differs else ()

    @property
    def hook(self) -> Any:
        return Mock(reader=lambda _: Reader(view_of(None)))


def deploying(**more: Any) -> Deploying:
    return Deploying(
        task_id="t", application_id=APPLICATION, instance="a", instance_timeout_s=0.1, start_timeout_s=100.0, **more
    )


def test_task_that_comes_back_after_the_start_limit_attaches_to_the_process_that_still_starts(tmp_path: Path) -> None:
    view, task = launched(tmp_path, ago_s=250.0), deploying()

    with living(view):
        handle = task.go_on(view)

    assert (task.launched, handle.incarnation) == (False, view.statuses["a"].incarnation)


def test_late_start_of_something_else_is_replaced_where_that_is_asked_for(tmp_path: Path) -> None:
    view, task = launched(tmp_path, ago_s=250.0), deploying(on_change="upgrade")
    task.differs = True

    with living(view):
        task.go_on(view)

    assert task.launched


def test_log_says_why_an_instance_is_launched_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view, task = launched(tmp_path, ago_s=250.0), deploying()
    folder_of(view)  # its process is gone

    task.go_on(view)

    assert task.launched
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "Launching it again" in line]
    assert "has been starting for 250 s, a start may take 100 s" in said


@pytest.mark.parametrize(
    ("known", "failed"),
    [
        pytest.param(instance("a", state=InstanceState.ENDED), True, id="killed"),
        pytest.param(instance("a"), True, id="silent"),
        pytest.param(instance("a", state=InstanceState.STARTING), True, id="while it started"),
        pytest.param(instance("a", state=InstanceState.STOPPED), True, id="stopped by its host"),
        pytest.param(instance("a", state=InstanceState.STOPPED, stop_hand_over=False), False, id="asked to stop"),
        pytest.param(instance("a", state=InstanceState.STOPPED, stop_hand_over=True), False, id="handed over"),
    ],
)
def test_process_that_was_not_asked_to_stop_has_failed(known: InstanceStatus, failed: bool) -> None:
    former = failed_process(view_of(assigned("a", generation=7), known), "a")

    assert (former is not None) is failed
    if former is not None:
        assert (former.incarnation, former.state, former.generation) == (1, known.state, 7)
        assert former.heard_at_ms == 1_000


def test_generation_of_a_failed_process_is_known_although_the_assignment_topic_was_lost() -> None:
    former = failed_process(view_of(None, instance("a", state=InstanceState.ENDED, generation=5)), "a")

    assert former is not None
    assert former.generation == 5


def test_first_start_follows_no_failure() -> None:
    assert failed_process(view_of(None), "a") is None
