from __future__ import annotations

import dataclasses

from airflow_provider.control.records.deployment import Deployment

DEPLOYED = Deployment(
    application_id="app",
    instance="a",
    application="/job.py",
    kafka_conn_id="k",
    spark_conn_id="s",
    state_dir="/state",
    run_dir="/run",
    conf={"spark.driver.memory": "1g"},
    env_vars={"LEVEL": "secretish"},
    job_sha256="1",
)


def test_same_deployment_differs_in_nothing() -> None:
    assert DEPLOYED.differences(dataclasses.replace(DEPLOYED)) == ()


def test_differences_are_named_without_their_values() -> None:
    wanted = dataclasses.replace(
        DEPLOYED, conf={"spark.driver.memory": "2g", "spark.x": "1"}, env_vars={}, run_dir="/other", job_sha256="2"
    )

    assert DEPLOYED.differences(wanted) == (
        "run_dir",
        "conf['spark.driver.memory']",
        "conf['spark.x']",
        "env_vars['LEVEL']",
        "the content of the job file",
    )


def test_content_that_is_not_known_is_no_difference() -> None:
    assert dataclasses.replace(DEPLOYED, job_sha256="").differences(DEPLOYED) == ()
