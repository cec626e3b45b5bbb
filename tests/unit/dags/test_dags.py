"""What the DAG files promise, without running them."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.assets import ANSWERS, ANSWERS_ALIAS
from airflow_provider.operators.task_assignment import AssignTasksOperator
from tests.unit.dags.read_fields import read_fields

DAGS = Path(__file__).parents[3] / "dags"
FILES = sorted(DAGS.glob("*.py"))


def load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DAGS / f"{name}.py"))


@pytest.fixture(params=[path.stem for path in FILES])
def dag(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DAG:
    monkeypatch.delenv("STATEFUL_STREAMS_APPLICATIONS", raising=False)
    found: DAG = load(request.param)["dag"]
    return found


def test_dag_is_named_after_its_file_and_tells_what_it_does(dag: DAG, request: pytest.FixtureRequest) -> None:
    assert dag.dag_id.startswith("stateful_streams_")
    assert dag.doc_md
    assert dag.description
    assert dag.catchup is False


def test_every_field_of_the_form_is_explained(dag: DAG) -> None:
    for name in dag.params:
        param = dag.params.get_param(name)
        assert isinstance(param, Param)
        assert {"title", "section"} <= set(param.schema), name
        assert param.schema.get("type") or param.schema.get("enum"), name


def test_every_field_of_the_form_is_read_by_a_task(dag: DAG) -> None:
    assert not set(dag.params) - read_fields(dag)


def test_field_that_no_task_reads_is_noticed(dag: DAG) -> None:
    dag.params["unread"] = Param("x")

    assert set(dag.params) - read_fields(dag) == {"unread"}


def test_form_can_be_sent_as_it_is(dag: DAG) -> None:
    dag.params.validate()


def test_every_task_that_waits_is_tried_again(dag: DAG) -> None:
    for task in dag.tasks:
        kind = type(task).__name__
        assert task.retries, f"{kind} {task.task_id}"


_TELL_WHO_IS_DEFERRED = """
import runpy, sys
from airflow_provider.sensors.standby_lag import StandbyLagSensor
assert not StandbyLagSensor(task_id="t", application_id="app").deferrable
for file in sys.argv[1:]:
    for task in runpy.run_path(file)["dag"].tasks:
        given = task.partial_kwargs if task.is_mapped else vars(task)
        if "application_id" in given:
            assert given.get("deferrable") is True, f"{file}: {task.task_id}"
print("all are")
"""


def test_waits_of_these_dags_hold_no_worker_whatever_airflows_setting_says() -> None:
    told = subprocess.run(
        [sys.executable, "-c", _TELL_WHO_IS_DEFERRED, *map(str, FILES)],
        env=os.environ | {"AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "False"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.stdout.endswith("all are\n"), told.stderr


@pytest.mark.parametrize(
    ("name", "param", "value"),
    [
        ("deploy", "application_id", "no spaces allowed"),
        ("deploy", "instances", []),
        ("deploy", "instances", ["a/b"]),
        ("deploy", "num_standby_replicas", -1),
        ("deploy", "state_dir", "relative"),
        ("repair", "warm_timeout_s", 0),
        ("recovery_drill", "recovery_timeout_s", 0),
    ],
)
def test_form_refuses_what_cannot_be_meant(name: str, param: str, value: Any) -> None:
    params = load(name)["dag"].params

    with pytest.raises(ValueError, match=r"Invalid input for param"):
        params[param] = value


def test_run_folder_that_the_form_names_is_no_folder_that_others_may_make_first() -> None:
    """The command that is executed and the password lie there."""
    folder = Path(load("deploy")["dag"].params["run_dir"])

    assert folder.parts[0] == "~"
    assert ".." not in folder.parts


def test_text_of_a_form_stays_text(dag: DAG) -> None:
    """Rendered natively, the instance "3.10" would be the number 3.1."""
    assert dag.render_template_as_native_obj is False


def test_deploy_counts_the_tasks_by_a_store_that_the_form_names() -> None:
    dag: DAG = load("deploy")["dag"]
    assign = dag.get_task("assign_tasks")

    assert isinstance(assign, AssignTasksOperator)

    assign.render_template_fields({"params": {**dag.params.dump(), "stores": ["totals", "last"]}, "run_id": "r"})

    assert assign.store == "totals"


def test_failover_watches_what_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEFUL_STREAMS_APPLICATIONS", "flights,orders@eu?instance_timeout_s=3&num_standby_replicas=2")

    watchers = {watcher.name: watcher.trigger for watcher in load("failover")["incidents"].watchers}

    assert set(watchers) == {"flights", "orders"}
    orders = watchers["orders"]
    assert (orders.application_id, orders.kafka_conn_id, orders.num_standby_replicas) == ("orders", "eu", 2)


def test_failover_is_one_task_before_all_others_and_waits_for_nothing() -> None:
    dag = load("failover")["dag"]

    (only,) = dag.tasks

    assert only.task_id == "fail_over"
    assert only.priority_weight > 100


def test_second_failure_need_not_wait_for_the_first_repair() -> None:
    assert load("failover")["dag"].max_active_runs > 8
    assert load("repair")["dag"].max_active_runs > 8


def test_repair_is_started_by_what_the_failover_answered() -> None:
    (outlet,) = load("failover")["dag"].get_task("fail_over").outlets

    assert outlet == ANSWERS_ALIAS
    assert load("repair")["dag"].timetable.asset_condition == ANSWERS


def test_standbys_are_assigned_whatever_became_of_the_replacement() -> None:
    dag = load("repair")["dag"]
    assign, last = dag.get_task("assign_standbys"), dag.get_task("balance")

    assert assign.trigger_rule == "all_done"
    assert "deploy_replacement" in last.upstream_task_ids, "the run must be red when an instance was not replaced"
    assert last.trigger_rule == "all_success"


@pytest.mark.parametrize("name", ["deploy", "repair"])
def test_dag_that_starts_instances_ends_with_an_even_load(name: str) -> None:
    dag = load(name)["dag"]

    (last,) = [task for task in dag.tasks if not task.downstream_task_ids]

    assert last.task_id == "balance"


def test_instance_that_lives_is_not_replaced_and_load_is_not_moved_back_onto_it() -> None:
    loaded = load("repair")
    need = loaded["need_replacement"].function

    with pytest.raises(AirflowSkipException, match="a lives: no replacement"):
        need("a", False)
    need("a", True)
    # Skipped with the replacement, because both are all_success.
    assert loaded["dag"].get_task("deploy_replacement").trigger_rule == "all_success"
    assert loaded["dag"].get_task("deploy_replacement").upstream_task_ids >= {"need_replacement"}
