"""What the example files promise, without running their DAGs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_provider.assets import answers
from airflow_provider.kit.__main__ import EXAMPLE_TOPICS

DAGS = Path(__file__).parents[3] / "dags"
VARIABLE = "AIRFLOW_VAR_STATEFUL_STREAMS_APPLICATIONS"


def dags_of(file: str) -> dict[str, Any]:
    bag = DagBag(str(DAGS / file))
    assert not bag.import_errors, bag.import_errors
    return dict(bag.dags)


def test_every_file_makes_dags_and_the_jobs_are_none() -> None:
    """Airflow's safe mode skips a file in which "dag" does not stand."""
    bag = DagBag(str(DAGS))

    assert not bag.import_errors
    files = {Path(dag.fileloc).relative_to(DAGS) for dag in bag.dags.values()}
    assert files == {file.relative_to(DAGS) for file in DAGS.glob("*.py")}


def test_without_a_variable_it_is_the_application_of_the_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    deploy = dags_of("applications.py")["customer-totals_deploy"].get_task("deploy_a")

    assert Path(deploy.application) == DAGS / "jobs" / "customer_totals.py"
    job = Path(deploy.application).read_text(encoding="utf-8")
    assert f'StatefulJob("{deploy.application_id}"' in job
    assert all(f'"{topic.name}"' in job for topic in EXAMPLE_TOPICS)


def test_variable_names_applications_with_all_that_a_file_may_say(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "orders": {
            "job": "/srv/jobs/orders.py",
            "instances": [{"name": "a", "queue": "streams-1"}, {"name": "b"}],
            "slo": {"rto_s": 15},
            "drills": [{"kind": "hang", "schedule": "0 4 * * 1"}],
            "tags": ["team:payments"],
        },
        "payments": {"job": "/srv/jobs/payments.py", "instances": [{"name": "a"}], "num_standby_replicas": 0},
    }
    monkeypatch.setenv(VARIABLE, json.dumps(said))

    dags = dags_of("applications.py")

    assert {dag_id.split("_")[0] for dag_id in dags} == {"orders", "payments"}
    assert dags["orders_deploy"].get_task("deploy_a").queue == "streams-1"
    assert dags["orders_monitor"].get_task("check_slo").slo == {"rto_s": 15}
    assert str(dags["orders_drill_hang"].schedule) == "0 4 * * 1"
    assert "team:payments" in dags["orders_failover"].tags


def test_variable_that_cannot_be_meant_is_an_import_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"orders": {"job": "/srv/jobs/orders.py", "instances": [{"name": "a b"}]}}))

    (error,) = DagBag(str(DAGS / "applications.py")).import_errors.values()

    assert "ConfigurationError" in error
    assert "'a b'" in error


def test_dag_of_its_own_is_started_by_the_failover_of_the_example() -> None:
    (dag,) = dags_of("after_failover.py").values()

    assert dag.timetable.asset_condition == answers("customer-totals")
