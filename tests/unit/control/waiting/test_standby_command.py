from __future__ import annotations

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import CertificateStatus, InstanceState, SnapshotStatus
from airflow_provider.control.waiting.standby import AllOf, SnapshotsTaken, StandbysCompared, done, standby_commands
from airflow_provider.errors import InstanceError
from tests.builders import active, assigned, instance, standby, view_of

VIEW = view_of(
    assigned("a b", "b a", "a b"),
    instance("a", active(0), standby(1), active(2), incarnation=7),
    instance("b", active(1), standby(0), standby(2)),
    instance("c", standby(0), state=InstanceState.STARTING),
)


def test_each_running_instance_is_asked_for_its_standbys() -> None:
    commands = standby_commands(VIEW, CommandKind.SNAPSHOT, "run")

    assert [(command.id, command.incarnation) for command in commands] == [("run/a", 7), ("run/b", 1)]
    assert [command.tasks for command in commands] == [(TaskId(0, 1),), (TaskId(0, 0), TaskId(0, 2))]


def test_only_what_was_named_is_asked_for() -> None:
    (command,) = standby_commands(VIEW, CommandKind.CERTIFY, "run", ("b",), (TaskId(0, 2), TaskId(0, 1)))

    assert (command.instance, command.tasks) == ("b", (TaskId(0, 2),))


@pytest.mark.parametrize(("kind", "what"), [(CommandKind.SNAPSHOT, "copy"), (CommandKind.CERTIFY, "compare")])
@pytest.mark.parametrize(("instance", "task"), [("a", 0), ("c", 0), ("d", 1)], ids=["active", "starting", "unknown"])
def test_nothing_to_ask_for_is_an_error(instance: str, task: int, kind: CommandKind, what: str) -> None:
    with pytest.raises(
        InstanceError, match=f"nothing to {what}: instance '{instance}' of 'app' holds no standby of 0_{task}"
    ):
        standby_commands(VIEW, kind, "run", (instance,), (TaskId(0, task),))


def test_application_without_standbys_has_nothing_to_ask_for() -> None:
    alone = view_of(assigned("a"), instance("a", active(0)))

    with pytest.raises(InstanceError, match="no running instance of 'app' holds a standby"):
        standby_commands(alone, CommandKind.CERTIFY, "run")


def test_each_instance_is_waited_for_from_where_it_was() -> None:
    snapshots = done(VIEW, standby_commands(VIEW, CommandKind.SNAPSHOT, "run", ("a",)))
    comparisons = done(VIEW, standby_commands(VIEW, CommandKind.CERTIFY, "run", ("a",)))

    assert snapshots == AllOf((SnapshotsTaken("a", "run/a", {TaskId(0, 1): SnapshotStatus()}),))
    assert comparisons == AllOf((StandbysCompared("a", 7, "run/a", {TaskId(0, 1): CertificateStatus()}),))
