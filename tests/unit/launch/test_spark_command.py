from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.jars import jar_sets
from airflow_provider.launch.spark_command import find_binary, interpreters, spark_command, spark_settings


def test_command_is_that_of_the_settings_without_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jar_sets, "spark_kafka_jars", lambda settings_file: (Path("/k.jar"), Path("/c.jar")))

    command = spark_command(
        "/job.py", master="local[2]", name="app a", conf={"spark.x": "1"}, application_args=["--fast"]
    )

    assert Path(command[0]).name == "spark-submit"
    assert command[-2:] == ["/job.py", "--fast"]
    given = set(pairwise(command))
    assert {("--master", "local[2]"), ("--name", "app a"), ("--jars", "/k.jar,/c.jar")} <= given
    assert {("--conf", "spark.x=1"), ("--conf", "spark.ui.enabled=false")} <= given
    assert [word for word in command if word.startswith("spark.redaction.regex=")]


def test_settings_win_over_the_defaults() -> None:
    conf = {"spark.jars": "/own.jar", "spark.ui.enabled": "true", "spark.pyspark.python": "/py"}

    command = spark_command("/job.py", master="local[2]", name="app a", conf=conf)

    assert "--jars" not in command
    assert [word for word in command if word.startswith("spark.ui.")] == ["spark.ui.enabled=true"]
    assert interpreters(conf) == {"PYSPARK_DRIVER_PYTHON": sys.executable}


def test_binary_that_is_nowhere_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'spark-sumbit' is neither on PATH nor beside"):
        find_binary("spark-sumbit")


@pytest.mark.parametrize(
    "name",
    ["spark.authenticate.secret", "spark.ssl.keyStorePassword", "spark.hadoop.fs.s3a.secret.key", "spark.x.accessKey"],
)
def test_setting_that_is_a_secret_is_refused_without_its_value(name: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(name)) as refused:
        spark_settings({"spark.x": "1", name: "hunter2"})

    assert "hunter2" not in str(refused.value)
    assert "spark-defaults.conf" in str(refused.value)


def test_path_of_a_file_that_holds_a_secret_is_none() -> None:
    spark_settings({"spark.authenticate.secret.file": "/etc/secret", "spark.kubernetes.oauthTokenFile": "/etc/token"})
