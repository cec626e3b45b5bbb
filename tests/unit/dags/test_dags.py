"""What the DAG files promise, without running them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Param

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


def test_form_can_be_sent_as_it_is(dag: DAG) -> None:
    dag.params.validate()


def test_every_task_that_waits_is_tried_again(dag: DAG) -> None:
    for task in dag.tasks:
        kind = type(task).__name__
        if "inject" not in task.task_id and task.task_id != "be_ready":
            assert task.retries, f"{kind} {task.task_id}"


@pytest.mark.parametrize(
    ("name", "param", "value"),
    [
        ("deploy", "application_id", "no spaces allowed"),
        ("deploy", "instances", []),
        ("deploy", "instances", ["a/b"]),
        ("deploy", "num_standby_replicas", -1),
        ("deploy", "state_dir", "relative"),
        ("failover", "warm_timeout_s", 0),
        ("recovery_drill", "fault", "earthquake"),
    ],
)
def test_form_refuses_what_cannot_be_meant(name: str, param: str, value: Any) -> None:
    params = load(name)["dag"].params

    with pytest.raises(ValueError, match=r"Invalid input for param"):
        params[param] = value


def test_failover_watches_what_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEFUL_STREAMS_APPLICATIONS", "flights,orders@eu?instance_timeout_s=3&num_standby_replicas=2")

    watchers = {watcher.name: watcher.trigger for watcher in load("failover")["incidents"].watchers}

    assert set(watchers) == {"flights", "orders"}
    orders = watchers["orders"]
    assert (orders.application_id, orders.kafka_conn_id, orders.num_standby_replicas) == ("orders", "eu", 2)


def test_failover_has_only_one_task_on_its_critical_path() -> None:
    dag = load("failover")["dag"]

    (first,) = [task for task in dag.tasks if not task.upstream_task_ids]

    assert first.task_id == "fail_over"
    assert first.priority_weight > 100


def test_second_failure_need_not_wait_for_the_first_repair() -> None:
    assert load("failover")["dag"].max_active_runs > 1
