from __future__ import annotations

from airflow_provider.control.placement.moves import hand_over
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from tests.builders import assigned, instance, placed, standby, view_of

ASSIGNMENT = assigned("a b", "b c", "c a", "c b")


def seen(c: InstanceStatus) -> ControlView:
    return view_of(ASSIGNMENT, instance("a"), instance("b", standby(0)), c)


def handed_over(view: ControlView) -> list[str]:
    after = hand_over(view, "a", Timeouts())
    assert after is not None
    return placed(after)


def test_tasks_of_the_stopped_go_to_their_standbys() -> None:
    assert handed_over(seen(instance("c"))) == ["b c", "b c", "c b", "c b"]


def test_another_instance_that_is_silent_just_now_keeps_all_it_has() -> None:
    view = seen(instance("c"))
    view.newest_ms += 60_000
    view.heard_at_ms |= {"a": view.newest_ms, "b": view.newest_ms}

    assert handed_over(view) == ["b", "b c", "c b", "c b"]


def test_generation_that_was_carried_out_and_lost_is_followed() -> None:
    after = hand_over(seen(instance("c", generation=7)), "a", Timeouts())

    assert after is not None
    assert {after.generation, *(task.active_since for task in after.tasks.values())} == {8}


def test_another_instance_that_ended_keeps_nothing() -> None:
    assert handed_over(seen(instance("c", state=InstanceState.ENDED))) == ["b", "b", "b", "b"]
