from __future__ import annotations

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.fault_injection import commands_of, plan_fault
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.drill_fault import DrillKind, InjectedFault
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.errors import InstanceError
from tests.builders import active, assigned, instance, standby, view_of
from tests.unit.control.outlook.test_rto_basis import failover

VIEW = view_of(
    assigned("a b", "a b", "b a", generation=4),
    instance("a", active(0, records_per_s=1.0), active(1, records_per_s=9.0, end=500_000), standby(2), incarnation=7),
    instance("b", active(2), standby(0), standby(1), incarnation=8),
)


def planned(kind: DrillKind, on: str | None = None) -> InjectedFault:
    return plan_fault(VIEW, "f1", on, Timeouts(), [], kind, at_ms=5)


@pytest.mark.parametrize(
    ("kind", "processes", "tasks"),
    [
        (DrillKind.CRASH, {"a": 7}, (TaskId(0, 0), TaskId(0, 1))),
        (DrillKind.HANG, {"a": 7}, (TaskId(0, 0), TaskId(0, 1))),
        (DrillKind.STORE_LOST, {"a": 7}, (TaskId(0, 1),)),
        (DrillKind.STORE_CORRUPTED, {"a": 7}, (TaskId(0, 1),)),
        (DrillKind.STANDBY_LOST, {"b": 8}, (TaskId(0, 1),)),
        (DrillKind.SHADOW_RESTORE, {"b": 8}, (TaskId(0, 1),)),
        (DrillKind.ACTIVE_AND_STANDBY_LOST, {"a": 7, "b": 8}, (TaskId(0, 1),)),
    ],
)
def test_kind_says_who_is_hit(kind: DrillKind, processes: dict[str, int], tasks: tuple[TaskId, ...]) -> None:
    fault = planned(kind)

    assert (fault.kind, fault.processes, fault.tasks, fault.generation) == (kind, processes, tasks, 4)


def test_each_copy_is_asked_for_its_store_as_long_as_nothing_newer_is_assigned() -> None:
    fault = planned(DrillKind.ACTIVE_AND_STANDBY_LOST)

    assert commands_of(fault) == [
        Command(
            id="f1",
            kind=CommandKind.LOSE_STORE,
            instance=name,
            incarnation=incarnation,
            tasks=(TaskId(0, 1),),
            generation=4,
        )
        for name, incarnation in (("a", 7), ("b", 8))
    ]
    (kill,) = commands_of(planned(DrillKind.CRASH))
    assert (kill.kind, kill.tasks, kill.generation) == (CommandKind.KILL, (TaskId(0, 0), TaskId(0, 1)), None)


def test_rto_is_predicted_by_what_is_left() -> None:
    promoted, replayed = planned(DrillKind.STORE_LOST), planned(DrillKind.ACTIVE_AND_STANDBY_LOST)

    # Reported at once, and by the other defaults: decided, owned, first output.
    assert promoted.predicted_rto_ms == 100 + 3_000 + 500 + 1_000
    # Besides, half a million records at 100,000 a second.
    assert replayed.predicted_rto_ms == 100 + 3_000 + 500 + 1_000 + 5_000
    assert planned(DrillKind.HANG).predicted_rto_ms == 5_000 + 3_000 + 500 + 1_000
    assert planned(DrillKind.STANDBY_LOST).predicted_rto_ms is None


def test_named_instance_without_such_a_task_is_refused() -> None:
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0)))

    with pytest.raises(InstanceError, match="'b' of 'app' has no active task"):
        plan_fault(view, "f1", "b", Timeouts(), [], DrillKind.STORE_LOST, at_ms=5)


def test_active_store_is_what_a_replay_goes_beside_where_there_is_no_standby() -> None:
    alone = view_of(assigned("a"), instance("a", active(0)))

    fault = plan_fault(alone, "f1", None, Timeouts(), [], DrillKind.SHADOW_RESTORE, at_ms=5)

    assert (fault.instance, fault.tasks) == ("a", (TaskId(0, 0),))


def test_drill_that_would_break_its_promise_by_the_failovers_on_record_is_refused() -> None:
    history = [failover(), failover()]
    (predicted_ms,) = {
        plan_fault(VIEW, "f1", None, Timeouts(), history, DrillKind.CRASH, at_ms=5, max_rto_s=limit).predicted_rto_ms
        for limit in (None, 600.0)
    }
    assert predicted_ms is not None

    with pytest.raises(InstanceError, match=r"crash of 'app' would break its promise: .* 0.001 s are promised"):
        plan_fault(VIEW, "f1", None, Timeouts(), history, DrillKind.CRASH, at_ms=5, max_rto_s=0.001)
    # A guess keeps none from beginning.
    plan_fault(VIEW, "f1", None, Timeouts(), [], DrillKind.CRASH, at_ms=5, max_rto_s=0.001)


@pytest.mark.parametrize("kind", [DrillKind.STORE_LOST, DrillKind.STORE_CORRUPTED, DrillKind.ACTIVE_AND_STANDBY_LOST])
def test_loss_of_a_store_that_no_failover_would_answer_is_refused(kind: DrillKind) -> None:
    alone = view_of(assigned("a"), instance("a", active(0)))

    with pytest.raises(InstanceError, match="Task 0_0 of 'app' has no standby"):
        plan_fault(alone, "f1", None, Timeouts(), [], kind, at_ms=5)
