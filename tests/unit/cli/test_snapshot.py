from __future__ import annotations

import pytest

from airflow_provider.cli.snapshot import snapshot_commands
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import InstanceState
from airflow_provider.errors import InstanceError
from tests.builders import active, assigned, instance, standby, view_of

VIEW = view_of(
    assigned("a b", "b a", "a b"),
    instance("a", active(0), standby(1), active(2), incarnation=7),
    instance("b", active(1), standby(0), standby(2)),
    instance("c", standby(0), state=InstanceState.STARTING),
)


def test_each_running_instance_is_asked_for_its_standbys() -> None:
    commands = snapshot_commands(VIEW, "run")

    assert [(command.id, command.incarnation) for command in commands] == [("run/a", 7), ("run/b", 1)]
    assert [command.tasks for command in commands] == [(TaskId(0, 1),), (TaskId(0, 0), TaskId(0, 2))]


def test_only_what_was_named_is_asked_for() -> None:
    (command,) = snapshot_commands(VIEW, "run", "b", (TaskId(0, 2), TaskId(0, 1)))

    assert (command.instance, command.tasks) == ("b", (TaskId(0, 2),))


@pytest.mark.parametrize(("instance", "task"), [("a", 0), ("c", 0), ("d", 1)], ids=["active", "starting", "unknown"])
def test_nothing_to_copy_is_an_error(instance: str, task: int) -> None:
    with pytest.raises(InstanceError, match=f"instance '{instance}' of 'app' holds no standby of 0_{task}"):
        snapshot_commands(VIEW, "run", instance, (TaskId(0, task),))
