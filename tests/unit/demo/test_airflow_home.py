from __future__ import annotations

import json
from pathlib import Path

from airflow_provider.demo.airflow_home import AirflowHome

HOME = AirflowHome(Path("/demo/airflow"), Path("/repository/dags"), 28_080, "127.0.0.1:29092", "local[2]")


def test_connections_are_named_in_the_environment() -> None:
    environment = HOME.to_environment({})

    assert json.loads(environment["AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT"]) == {
        "conn_type": "kafkastreams",
        "host": "127.0.0.1",
        "port": 29092,
    }
    assert json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"]) == {"conn_type": "spark", "host": "local[2]"}


def test_everything_listens_on_loopback() -> None:
    environment = HOME.to_environment({})

    assert environment["AIRFLOW__API__HOST"] == environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert environment["AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK"] == "False"


def test_another_airflow_does_not_reach_it() -> None:
    foreign = {
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD": "steal",
        "AIRFLOW_CONN_OTHER": "x",
        "AIRFLOW_HOME": "/home/user/airflow",
        "PATH": "/bin",
    }

    environment = HOME.to_environment(foreign)

    assert environment["PATH"] == "/bin"
    assert environment["AIRFLOW_HOME"] == "/demo/airflow"
    assert environment["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert "AIRFLOW_CONN_OTHER" not in environment
    assert "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD" not in environment


def test_secrets_are_new_each_time() -> None:
    first, second = HOME.to_environment({}), HOME.to_environment({})

    for name in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API__SECRET_KEY"):
        assert first[name] != second[name]
