"""The answer to failures that the real watcher found."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.asset import AssetUniqueKey
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider.assets import answers, answers_alias
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import FailoverAnswer, IncidentEvent
from airflow_provider.control.records.status import InstanceStatus, TaskState, TaskStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.errors import AssignmentError, BrokerUnreachableError
from airflow_provider.kit.ports import free_ports
from airflow_provider.operators.assignment import FailOverOperator
from airflow_provider.operators.repair import ListRepairsOperator, ReportFailOverOperator
from airflow_provider.sensors.states import InstanceStateSensor
from airflow_provider.triggers import IncidentTrigger
from tests.builders import active, assigned, instance, placed, standby
from tests.integration.airflow.running import UnheardTrigger, caused_by, context, incident_of, kill, run
from tests.integration.launch.application import Application


def fail_over(application: Application, given: Any = None) -> Any:
    return run(FailOverOperator(task_id="fail_over", application_id=application.id), given)


@pytest.mark.parametrize("kind", [IncidentTrigger, UnheardTrigger], ids=["watcher-decides", "run-decides"])
def test_warm_standby_takes_over_and_the_record_says_why(
    application: Application, pair: list[dict[str, Any]], kind: type[IncidentTrigger]
) -> None:
    kill(pair[0])
    given = caused_by(incident_of(application.id, kind=kind))
    before = application.view()
    assert before.assignment is not None
    assert placed(before.assignment) == (["b", "b"] if kind is IncidentTrigger else ["a b", "b a"])
    assert [record.taken_up for record in before.incidents.values()] == [False] * (kind is IncidentTrigger)

    (answer,) = fail_over(application, given)

    view = application.view()
    assert view.assignment is not None
    assert placed(view.assignment) == ["b", "b"]
    record = view.incidents[answer["incident_id"]]
    assert (record.generation, record.answered_by) == (2, "failover-1")
    assert answer["moved"] == {"0_0": "b"}
    assert from_plain(answer, FailoverAnswer).replace
    assert record.failed_at_ms is not None
    assert record.failed_at_ms <= record.decided_at_ms


def test_second_run_finds_it_answered_and_a_retry_knows_its_own(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    kill(pair[0])
    payload = incident_of(application.id, kind=UnheardTrigger)
    first = fail_over(application, caused_by(payload))

    assert fail_over(application, caused_by(payload, run_id="other")) == []
    (retried,) = fail_over(application, caused_by(payload))
    assert retried["generation"] == first[0]["generation"]


@pytest.mark.parametrize("kind", [IncidentTrigger, UnheardTrigger], ids=["watcher-decides", "run-decides"])
def test_two_runs_at_once_publish_one_answer(
    application: Application, pair: list[dict[str, Any]], kind: type[IncidentTrigger]
) -> None:
    kill(pair[0])
    payload = incident_of(application.id, kind=kind)
    answers: list[Any] = []

    def answer(run_id: str) -> None:
        answers.extend(fail_over(application, caused_by(payload, run_id=run_id)))

    threads = [threading.Thread(target=answer, args=(f"run-{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    view = application.view()
    assert len(answers) == 1
    assert view.assignment is not None
    assert view.assignment.generation == 2


def test_fenced_run_reads_again(
    application: Application, pair: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(pair[0])
    payload = incident_of(application.id, kind=UnheardTrigger)
    opened: list[AssignmentPublisher] = []
    publish = AssignmentPublisher.publish

    def interrupted(self: AssignmentPublisher, *values: Any) -> None:
        if not opened:
            opened.append(AssignmentPublisher(application.connection, application.id))
        publish(self, *values)

    monkeypatch.setattr(AssignmentPublisher, "publish", interrupted)

    (answer,) = fail_over(application, caused_by(payload))

    assert answer["generation"] == 2


def test_two_deaths_are_answered_together(application: Application, pair: list[dict[str, Any]]) -> None:
    payloads = []
    for handle in pair:
        kill(handle)
        run(
            InstanceStateSensor(
                task_id="gone", application_id=application.id, instance=handle["instance"], states="ended"
            )
        )

    async def both() -> None:
        async for event in IncidentTrigger(application.id).run():
            payloads.append(event.payload)
            if len(payloads) == 2:
                return

    asyncio.run(asyncio.wait_for(both(), 20.0))
    answers = fail_over(application, caused_by(*payloads))

    view = application.view()
    assert view.assignment is not None
    assert placed(view.assignment) == ["-", "-"]
    assert [answer["instance"] for answer in answers] == ["a", "b"]


def test_run_by_hand_answers_what_is_wrong(application: Application, pair: list[dict[str, Any]]) -> None:
    kill(pair[1])
    run(InstanceStateSensor(task_id="gone", application_id=application.id, instance="b", states="ended"))

    (answer,) = fail_over(application)

    assert (answer["instance"], answer["kind"]) == ("b", "instance_ended")


def test_run_by_hand_moves_everything_off_a_healthy_instance(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    (answer,) = run(FailOverOperator(task_id="fail_over", application_id=application.id, instance="a"))

    assert (answer["kind"], answer["moved"]) == ("manual", {"0_0": "b"})
    assert not from_plain(answer, FailoverAnswer).replace


def test_run_by_hand_with_nothing_wrong_does_nothing(application: Application, pair: list[dict[str, Any]]) -> None:
    assert fail_over(application) == []


def test_answers_go_to_the_applications_own_repair_and_other_applications_events_are_left(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    kill(pair[0])
    payload = incident_of(application.id)
    alias = answers_alias(application.id)
    events = caused_by({**payload, "application_id": "other"}, payload, payload)
    events["outlet_events"] = outlet_events = OutletEventAccessors()

    (answer,) = run(FailOverOperator(task_id="fail_over", application_id=application.id, outlets=[alias]), events)

    assert answer["application_id"] == application.id
    (event,) = outlet_events[alias].asset_alias_events
    assert event.dest_asset_key == AssetUniqueKey.from_asset(answers(application.id))
    assert event.extra == {"answers": [answer]}


def test_failover_whose_brokers_are_away_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    away = {"conn_type": "kafkastreams", "extra": {"bootstrap_servers": f"127.0.0.1:{port}"}}
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", json.dumps(away))

    with pytest.raises(BrokerUnreachableError):
        run(FailOverOperator(task_id="fail_over", application_id="app", kafka_conn_id="away"))


def test_what_was_answered_is_to_be_repaired_until_it_is_resolved(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    kill(pair[0])
    (answer,) = run(
        FailOverOperator(task_id="fail_over", application_id=application.id), caused_by(incident_of(application.id))
    )
    event = SimpleNamespace(extra={"answers": [answer]})
    started = context(triggering_asset_events={"answers": [event, event]})

    (repair,) = run(ListRepairsOperator(task_id="list", application_id=application.id), started)
    by_hand = run(ListRepairsOperator(task_id="list", application_id=application.id))

    assert by_hand == [repair]
    assert (repair["instance"], repair["replace"], repair["incident_id"]) == ("a", True, answer["incident_id"])
    report = ReportFailOverOperator(task_id="r", application_id=application.id, incident_id=answer["incident_id"])
    run(report)
    assert run(ListRepairsOperator(task_id="list", application_id=application.id)) == []


def test_run_by_hand_gives_tasks_without_an_active_to_one_that_runs(application: Application) -> None:
    application.publish(assigned("-", "b", application_id=application.id))
    application.write(status_in(application, "b", active(1)))

    (answer,) = fail_over(application)

    assert (answer["kind"], answer["moved"]) == ("tasks_unowned", {"0_0": "b"})
    assert not from_plain(answer, FailoverAnswer).replace


def test_lost_assignment_is_made_up_for_above_the_highest_commit(application: Application) -> None:
    application.publish(assigned("a b", "b a", application_id=application.id))
    closed = active(0, TaskState.CLOSED, committed_generation=57)
    application.write(status_in(application, "a", closed), status_in(application, "b", active(1)))

    payload = incident_of(application.id)
    (answer,) = fail_over(application, caused_by(payload))

    assignment = application.view().assignment
    assert assignment is not None
    assert (answer["kind"], assignment.generation, placed(assignment)) == ("generation_lost", 58, ["a b", "b a"])
    assert fail_over(application) == []


def test_assignment_topic_that_holds_none_fails_the_run_with_what_to_do(application: Application) -> None:
    running = status_in(application, "a", active(0))
    application.write(dataclasses.replace(running, generation=57))

    payload = incident_of(application.id)

    for given in (caused_by(payload), None):
        with pytest.raises(AssignmentError, match=r"generation 57 was carried out.*AssignTasksOperator"):
            fail_over(application, given)


def test_instance_that_sent_a_heartbeat_since_it_was_found_silent_is_left_alone(application: Application) -> None:
    application.publish(assigned("a b", application_id=application.id))
    application.write(status_in(application, "a", active(0)), status_in(application, "b", standby(0)))
    found = detect(
        assigned("a b", application_id=application.id),
        application.view().statuses,
        {"a": 9.0},
        Timeouts(),
        application.view().heard_at_ms,
    )
    event = IncidentEvent(
        incident=found[0],
        application_id=application.id,
        kafka_conn_id="kafka_streams_default",
        detected_at_ms=1,
        silent={"a": found[0].heard_at_ms or 0},
    )
    application.write(status_in(application, "a", active(0)))

    assert fail_over(application, caused_by(to_plain(event))) == []
    assert application.view().assignment == assigned("a b", application_id=application.id)


def status_in(application: Application, name: str, *tasks: TaskStatus) -> InstanceStatus:
    return dataclasses.replace(instance(name, *tasks), application_id=application.id)
