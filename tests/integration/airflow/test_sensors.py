"""What the sensors see and do not see."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.topic import write_history
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.errors import DeadlineError, InstanceError, TopicMissingError
from airflow_provider.sensors.figures import (
    CertifiedStandbysSensor,
    DiskSpaceSensor,
    PredictedRtoSensor,
    SourceLagSensor,
    StandbyLagSensor,
)
from airflow_provider.sensors.states import DrillAgeSensor, InstanceStateSensor, TaskStateSensor
from tests.builders import active, assigned, standby
from tests.integration.airflow.conftest import Deploy, make_pair
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import Application
from tests.unit.control.history.test_drill_age import PASSED

IN_A_WORKER: dict[str, Any] = {"deferrable": False, "poke_interval": 0.1}


def test_state_reached_before_the_sensor_began_is_seen(application: Application, pair: list[dict[str, Any]]) -> None:
    found = run(TaskStateSensor(task_id="task", application_id=application.id, task="0_1"))

    assert found == {"task": "0_1", "instance": "b", "state": "running"}


def test_sensor_whose_state_is_reached_needs_no_triggerer(application: Application, pair: list[dict[str, Any]]) -> None:
    warm = StandbyLagSensor(task_id="warm", application_id=application.id, deferrable=True)

    assert warm.execute(context())["generation"] == 1


def test_timeout_says_what_was_waited_for_and_seen(application: Application, pair: list[dict[str, Any]]) -> None:
    sensor = StandbyLagSensor(task_id="warm", application_id=application.id, num_standby_replicas=2, timeout_s=2.0)

    with pytest.raises(DeadlineError, match=r"2 warm standby.*task 0_0 has 1 of 2 standbys"):
        run(sensor)


def test_predicted_rto_is_compared_with_the_bound(application: Application, pair: list[dict[str, Any]]) -> None:
    within = run(PredictedRtoSensor(task_id="rto", application_id=application.id, max_rto_s=60))
    assert set(within["predicted_rto_ms"]) == {"0_0", "0_1"}

    with pytest.raises(DeadlineError, match=r"task 0_0 from a to b, a warm standby: 9\.5 s .*no failover is on record"):
        run(PredictedRtoSensor(task_id="rto", application_id=application.id, max_rto_s=1, timeout_s=2.0))


def test_room_on_the_disks_is_compared_with_the_bound(application: Application, pair: list[dict[str, Any]]) -> None:
    enough = run(DiskSpaceSensor(task_id="disk", application_id=application.id, min_free_bytes="1000000"))
    assert enough == {"free_bytes": {"a": 1 << 30, "b": 1 << 30}}

    sensor = DiskSpaceSensor(
        task_id="disk", application_id=application.id, min_free_bytes=1 << 40, instances="b", timeout_s=2.0
    )
    with pytest.raises(DeadlineError, match=r"b to have 1,048,576 MiB .*b has 1,024 MiB left at "):
        run(sensor)


def test_unread_records_of_the_source_are_compared_with_the_bound(application: Application, deploy: Deploy) -> None:
    make_pair(application, deploy, env_vars={"SOURCE_LAG": "70"})

    within = run(SourceLagSensor(task_id="lag", application_id=application.id, max_lag_records=70))
    assert within == {"lag_records": {"0_0": 70, "0_1": 70}}
    with pytest.raises(DeadlineError, match=r"task 0_1 on b has 70 unread records of its source"):
        run(SourceLagSensor(task_id="lag", application_id=application.id, tasks="0_1", timeout_s=2.0))


def test_standbys_count_when_they_were_certified_lately(application: Application, deploy: Deploy) -> None:
    make_pair(application, deploy, env_vars={"CERTIFIED": "1"})

    assert run(CertifiedStandbysSensor(task_id="certified", application_id=application.id, max_age_s=60))
    two = CertifiedStandbysSensor(
        task_id="certified", application_id=application.id, num_standby_replicas=2, timeout_s=2.0
    )
    with pytest.raises(DeadlineError, match=r"2 warm, certified standby"):
        run(two)


def test_standbys_that_were_never_certified_do_not_count(application: Application, pair: list[dict[str, Any]]) -> None:
    with pytest.raises(DeadlineError, match=r"task 0_0 has 0 of 1 standbys"):
        run(CertifiedStandbysSensor(task_id="certified", application_id=application.id, timeout_s=2.0))


def test_age_of_the_last_drill_is_that_of_the_history(application: Application, pair: list[dict[str, Any]]) -> None:
    sensor = DrillAgeSensor(
        task_id="drill", application_id=application.id, max_age_s=3_600, kind="crash", timeout_s=2.0
    )
    with pytest.raises(DeadlineError, match="no drill was ever passed"):
        run(sensor)

    drilled_at_ms = note_drill(application)

    found = run(DrillAgeSensor(task_id="drill", application_id=application.id, max_age_s=3_600, timeout_s=30.0))
    assert (found["cause"], found["passed_at_ms"]) == ("crash", drilled_at_ms)


def test_each_poke_reads_the_history_anew(application: Application, pair: list[dict[str, Any]]) -> None:
    sensor = DrillAgeSensor(
        task_id="drill", application_id=application.id, max_age_s=3_600, instance_timeout_s=1.0, **IN_A_WORKER
    )
    assert not sensor.poke(context())

    note_drill(application)

    assert sensor.poke(context())


def note_drill(application: Application) -> int:
    """A drill that was passed now, in the history; when that was."""
    at_ms = now_ms()
    passed = dataclasses.replace(PASSED, application_id=application.id, at_ms=at_ms, ended_at_ms=at_ms)
    write_history(application.connection, application.id, passed)
    return at_ms


def test_words_of_dead_instances_are_not_taken_for_life(application: Application) -> None:
    application.publish(assigned("a b", application_id=application.id))
    application.write(
        InstanceStatus(
            application_id=application.id,
            instance="a",
            incarnation=1,
            state=InstanceState.RUNNING,
            tasks=(active(0),),
        ),
        InstanceStatus(
            application_id=application.id,
            instance="b",
            incarnation=1,
            state=InstanceState.RUNNING,
            tasks=(standby(0),),
        ),
    )

    with pytest.raises(DeadlineError):
        run(StandbyLagSensor(task_id="warm", application_id=application.id, timeout_s=2.0))


def test_soft_fail_skips(application: Application) -> None:
    sensor = InstanceStateSensor(
        task_id="state", application_id=application.id, instance="z", timeout_s=1.0, soft_fail=True
    )

    with pytest.raises(AirflowSkipException):
        run(sensor)


@pytest.mark.parametrize("deferrable", [True, False], ids=["deferred", "poking"])
def test_sensor_of_an_application_that_does_not_exist_fails_for_good(
    deferrable: bool, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("waiting.condition_wait", "topics.topic_absence"):
        monkeypatch.setattr(f"airflow_provider.control.{module}.MISSING_S", 2.0)
    sensor = InstanceStateSensor(
        task_id="state",
        application_id=f"{application.id}-misspelt",
        instance="a",
        timeout_s=600.0,
        instance_timeout_s=1.0,
        deferrable=deferrable,
    )

    with pytest.raises(TopicMissingError, match="correct the application id if it is misspelt") as error:
        run(sensor)

    assert isinstance(error.value, AirflowFailException)


def rescheduled() -> Any:
    return context(ti=SimpleNamespace(map_index=-1, get_first_reschedule_date=lambda _: None))


def test_sensor_that_is_not_deferred_pokes_and_returns_what_it_saw(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    sensor = TaskStateSensor(task_id="task", application_id=application.id, task="0_1", **IN_A_WORKER)

    assert sensor.execute(context()) == {"task": "0_1", "instance": "b", "state": "running"}


def test_poke_is_one_look(application: Application, pair: list[dict[str, Any]]) -> None:
    waits = {"task_id": "warm", "application_id": application.id, "instance_timeout_s": 1.0, **IN_A_WORKER}

    assert StandbyLagSensor(**waits).poke(context())
    assert not StandbyLagSensor(num_standby_replicas=2, **waits).poke(context())


def test_sensor_in_reschedule_mode_leaves_its_worker_between_two_looks(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    sensor = StandbyLagSensor(
        task_id="warm",
        application_id=application.id,
        num_standby_replicas=2,
        instance_timeout_s=1.0,
        mode="reschedule",
        deferrable=False,
    )

    with pytest.raises(AirflowRescheduleException):
        sensor.execute(rescheduled())


def test_sensor_that_pokes_ends_at_its_deadline_and_says_what_it_saw(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    sensor = StandbyLagSensor(
        task_id="warm", application_id=application.id, num_standby_replicas=2, timeout=6.0, **IN_A_WORKER
    )

    with pytest.raises(AirflowSensorTimeout, match=r"Waited 6 s for .*2 warm standby.*task 0_0 has 1 of 2 standbys"):
        sensor.execute(context())


@pytest.mark.parametrize(
    "how", [pytest.param({"soft_fail": True}, id="soft_fail"), pytest.param({"never_fail": True}, id="never_fail")]
)
def test_sensor_that_pokes_and_must_not_fail_skips_at_its_deadline(
    how: dict[str, Any], application: Application
) -> None:
    sensor = InstanceStateSensor(
        task_id="state", application_id=application.id, instance="z", timeout_s=1.0, **how, **IN_A_WORKER
    )

    with pytest.raises(AirflowSkipException, match="instance z to be running"):
        sensor.execute(context())


def test_operator_that_is_not_deferred_waits_in_its_worker(application: Application, deploy: Deploy) -> None:
    assert deploy("a", deferrable=False).execute(context())["instance"] == "a"


def test_end_of_a_task_that_waits_in_its_worker_stops_the_instance(application: Application, deploy: Deploy) -> None:
    operator = deploy("a", until="ended", deferrable=False)
    ended: list[Exception] = []

    def live() -> None:
        try:
            operator.execute(context())
        except InstanceError as error:
            ended.append(error)

    worker = threading.Thread(target=live)
    worker.start()
    run(InstanceStateSensor(task_id="up", application_id=application.id, instance="a", timeout_s=60.0))

    operator.on_kill()

    worker.join(30.0)
    assert "stopped because its task was ended or cleared" in str(ended[0])
