"""Which tests are long, which are not shared out among the workers that run side by side, and what comes first.

The tests of a group run in one worker, one after the other: those that would take the machine from each other, and
those that share something dear. Groups come first, because they take longest, and unit tests last, because they fill
every gap. Where tests run in one process, nothing of this matters.
"""

from __future__ import annotations

from typing import Final

GROUPS: Final = {
    "airflow": (
        "tests/dags/test_airflow_killed_during_failover.py",
        "tests/dags/test_deploy_and_fail_over.py",
        "tests/dags/test_held_task_question.py",
        "tests/dags/test_roles_and_forms.py",
        "tests/dags/test_secrets_of_airflow.py",
        "tests/integration/demo/test_demo.py",
    ),
    "spark": (
        "tests/integration/chaos/test_chaos.py",
        "tests/integration/airflow/test_application_reset.py",
        "tests/integration/streaming/test_changed_job.py",
        "tests/integration/streaming/test_changed_stages.py",
        "tests/integration/streaming/test_idle_time.py",
        "tests/integration/streaming/test_large_backlog.py",
        "tests/integration/streaming/test_living_source.py",
        "tests/integration/streaming/test_lost_topics.py",
        "tests/integration/streaming/test_query_errors.py",
        "tests/integration/streaming/test_refusals.py",
        "tests/integration/streaming/test_rights.py",
        "tests/integration/streaming/test_secured_instance.py",
        "tests/integration/streaming/test_session_warm_up.py",
        "tests/integration/streaming/test_single_executor.py",
        "tests/integration/streaming/test_source_query.py",
        "tests/integration/streaming/test_stage_rights.py",
        "tests/integration/streaming/test_stall.py",
    ),
    "spark-2": (
        "tests/integration/streaming/test_examples.py",
        "tests/integration/streaming/test_instance_drills.py",
        "tests/integration/streaming/test_instances.py",
        "tests/integration/streaming/test_joins.py",
        "tests/integration/streaming/test_json_decoder.py",
        "tests/integration/streaming/test_row_steps.py",
        "tests/integration/streaming/test_stages.py",
        "tests/integration/streaming/test_table_wait.py",
        "tests/integration/streaming/test_windows.py",
        "tests/integration/testing/test_examples.py",
        "tests/integration/testing/test_join_steps.py",
        "tests/integration/testing/test_spark_steps.py",
        "tests/integration/testing/test_values.py",
    ),
    "hosts": ("tests/integration/airflow/test_hosts.py",),
    "broker-outage": ("tests/integration/streaming/test_broker_outage.py",),
    "layout": ("tests/unit/test_layout.py",),
}
LONG: Final = (
    "tests/dags/test_airflow_killed_during_failover.py",
    "tests/dags/test_held_task_question.py",
    "tests/dags/test_roles_and_forms.py",
    "tests/dags/test_secrets_of_airflow.py",
    "tests/dags/test_stream_dags.py",
    "tests/integration/airflow/test_application_reset.py",
    "tests/integration/airflow/test_hosts.py",
    "tests/integration/chaos/test_chaos.py",
    "tests/integration/demo/test_demo.py",
    "tests/integration/streaming/test_broker_outage.py",
    "tests/integration/streaming/test_changed_job.py",
    "tests/integration/streaming/test_changed_stages.py",
    "tests/integration/streaming/test_crash_of_operations.py",
    "tests/integration/streaming/test_examples.py",
    "tests/integration/streaming/test_idle_time.py",
    "tests/integration/streaming/test_instance_drills.py",
    "tests/integration/streaming/test_instances.py",
    "tests/integration/streaming/test_joins.py",
    "tests/integration/streaming/test_large_backlog.py",
    "tests/integration/streaming/test_living_source.py",
    "tests/integration/streaming/test_lost_topics.py",
    "tests/integration/streaming/test_query_errors.py",
    "tests/integration/streaming/test_refusals.py",
    "tests/integration/streaming/test_rights.py",
    "tests/integration/streaming/test_secured_instance.py",
    "tests/integration/streaming/test_session_warm_up.py",
    "tests/integration/streaming/test_single_executor.py",
    "tests/integration/streaming/test_stage_rights.py",
    "tests/integration/streaming/test_stages.py",
    "tests/integration/streaming/test_stall.py",
    "tests/integration/streaming/test_table_wait.py",
    "tests/unit/test_simulated_months.py",
    "tests/unit/testing/test_every_operation.py",
)
"""Whole applications, or outages, for half a minute or more, each for one question that seldom has another answer.
`make test` leaves them out, so that it ends within ten minutes on two cores; `make test-all`, and so every merge, does
not. What stays in it of a real instance: an application that is deployed and fails over."""

_GROUP_OF = {file: group for group, files in GROUPS.items() for file in files}


def group_of(nodeid: str) -> str | None:
    """The group of a test; None for one that any worker may run at any time."""
    return _GROUP_OF.get(nodeid.partition("::")[0])


def is_long(nodeid: str) -> bool:
    """Whether a test is left out where a quick answer is wanted."""
    return nodeid.partition("::")[0] in LONG


def order_of(nodeid: str) -> tuple[bool, bool]:
    """A key to sort tests by, for a sort that is stable."""
    return group_of(nodeid) is None, nodeid.startswith("tests/unit/")
