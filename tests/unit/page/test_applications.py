from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.control.outlook.slo import Slo
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.page.api import may_look_up
from airflow_provider.page.applications import (
    Application,
    KnownApplications,
    application_of,
    dags_by_application,
    lookups_by,
)


def tags_of(*dags: str) -> list[tuple[str, str]]:
    """Of ``<application> <name>``, as the factory gives them."""
    pairs = [dag.split() for dag in dags]
    kinds = [(f"{id_}_{name}", "drill" if name.startswith("drill_") else name, id_) for id_, name in pairs]
    return [(dag_id, tag) for dag_id, kind, id_ in kinds for tag in (f"stateful-streams:{kind}", id_)]


def test_dags_are_told_by_their_tags_whatever_their_ids_begin_with() -> None:
    found = dags_by_application(
        tags_of("orders deploy", "orders drill_crash", "orders_eu deploy", "orders_eu_deploy deploy")
    )

    assert found == {
        "orders": {"deploy": "orders_deploy", "drill_crash": "orders_drill_crash"},
        "orders_eu": {"deploy": "orders_eu_deploy"},
        "orders_eu_deploy": {"deploy": "orders_eu_deploy_deploy"},
    }


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param([("orders_deploy", "orders")], id="no-kind"),
        pytest.param([("orders_deploy", "stateful-streams:deploy")], id="no-application"),
        pytest.param([("other", "orders"), ("other", "stateful-streams:deploy")], id="another-id"),
    ],
)
def test_dag_that_only_looks_like_one_is_left_aside(tags: list[tuple[str, str]]) -> None:
    assert dags_by_application(tags) == {}


def test_teams_tag_that_begins_the_id_is_no_application() -> None:
    tags = [*tags_of("team_orders deploy"), ("team_orders_deploy", "team")]

    assert dags_by_application(tags) == {"team_orders": {"deploy": "team_orders_deploy"}}


def monitor(**fields: Any) -> dict[str, Any]:
    return {"dag": {"tasks": [{"__var": {"task_id": "check_topics"}}, {"__var": {"task_id": "check_slo", **fields}}]}}


def test_what_its_monitor_checks_is_what_the_page_shows() -> None:
    said = monitor(kafka_conn_id="kafka_eu", num_standby_replicas=2, instance_timeout_s=9.0, slo={"rto_s": "20"})

    assert application_of("orders", {"monitor": "orders_monitor"}, said) == Application(
        id="orders",
        dags={"monitor": "orders_monitor"},
        kafka_conn_id="kafka_eu",
        num_standby_replicas=2,
        timeouts=Timeouts(9.0),
        slo=Slo(rto_s=20),
    )


def test_without_a_monitor_the_defaults_count() -> None:
    assert application_of("orders", {}, None) == Application(id="orders", dags={})


@pytest.mark.parametrize("fields", [{"slo": {"rto_s": "soon"}}, {"slo": {}, "num_standby_replicas": "{{ some }}"}])
def test_what_cannot_be_read_is_said(fields: dict[str, Any]) -> None:
    problem = application_of("orders", {"monitor": "orders_monitor"}, monitor(**fields)).problem

    assert problem is not None
    assert problem.startswith("The DAG orders_monitor does not say what the page needs: ")


def test_database_is_asked_again_after_a_while() -> None:
    asked, now = [], [0.0]

    def read() -> dict[str, Application]:
        asked.append(now[0])
        return {}

    known = KnownApplications(read, lambda: now[0])
    for at in (0.0, 14.0, 16.0, 20.0):
        now[0] = at
        known.get()

    assert asked == [0.0, 16.0]


@pytest.mark.parametrize(
    ("tags", "who"),
    [
        pytest.param([["stateful-streams:deploy"]], "operators", id="nothing-said"),
        pytest.param([["stateful-streams:deploy", "stateful-streams-lookups:viewers"]], "viewers", id="viewers"),
        pytest.param(
            [["stateful-streams-lookups:viewers"], ["stateful-streams-lookups:nobody"]], "nobody", id="the-fewest"
        ),
        pytest.param(
            [["stateful-streams-lookups:viewers"], ["stateful-streams:peek"]], "operators", id="one-says-nothing"
        ),
        pytest.param([["stateful-streams-lookups:everybody"]], "nobody", id="no-such-word"),
    ],
)
def test_who_may_look_values_up_is_what_the_dags_say_and_the_fewest_where_they_differ(
    tags: list[list[str]], who: str
) -> None:
    assert lookups_by(tags) == who


DAGS = {"deploy": "orders_deploy", "operate": "orders_operate"}


@pytest.mark.parametrize(
    ("who", "may_start", "may"),
    [
        ("operators", ["deploy", "operate"], True),
        ("operators", ["deploy"], False),
        ("operators", [], False),
        ("viewers", [], True),
        ("nobody", ["deploy", "operate"], False),
    ],
)
def test_values_are_looked_up_by_who_may_start_every_run_unless_the_deployment_says_otherwise(
    who: str, may_start: list[str], may: bool
) -> None:
    assert may_look_up(Application(id="orders", dags=DAGS, lookups_by=who), may_start) is may
