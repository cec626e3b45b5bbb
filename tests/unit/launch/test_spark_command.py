from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.jars import jar_sets
from airflow_provider.launch.spark_command import (
    check_master,
    find_binary,
    interpreters,
    spark_command,
    spark_settings,
)


def test_command_is_that_of_the_settings_without_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jar_sets, "spark_kafka_jars", lambda settings_file: (Path("/k.jar"), Path("/c.jar")))

    command = spark_command(
        "/job.py", master="local[2]", name="app a", conf={"spark.x": "1"}, environment={}, application_args=["--fast"]
    )

    assert Path(command[0]).name == "spark-submit"
    assert command[-2:] == ["/job.py", "--fast"]
    given = set(pairwise(command))
    assert {("--master", "local[2]"), ("--name", "app a"), ("--jars", "/k.jar,/c.jar")} <= given
    assert {("--conf", "spark.x=1"), ("--conf", "spark.ui.enabled=false")} <= given
    assert [word for word in command if word.startswith("spark.redaction.regex=")]


def test_settings_win_over_the_defaults() -> None:
    conf = {"spark.jars": "/own.jar", "spark.ui.enabled": "true", "spark.pyspark.python": "/py"}

    command = spark_command("/job.py", master="local[2]", name="app a", conf=conf, environment={})

    assert "--jars" not in command
    assert [word for word in command if word.startswith("spark.ui.")] == ["spark.ui.enabled=true"]


def test_python_of_the_workers_is_not_the_drivers() -> None:
    conf = {"spark.pyspark.python": "/py"}
    environment = interpreters(conf)

    assert environment == {"PYSPARK_DRIVER_PYTHON": sys.executable}
    assert spark_settings(conf, environment)["spark.pyspark.driver.python"] == sys.executable
    conf["spark.pyspark.driver.python"] = "/own"
    assert spark_settings(conf, {"PYSPARK_DRIVER_PYTHON": "/other"})["spark.pyspark.driver.python"] == "/own"
    assert "spark.pyspark.driver.python" not in spark_settings({}, interpreters({}))


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[4]",
        "local[*]",
        "local[4, 3]",
        "local-cluster[2,1,1024]",
        "spark://h:7077",
        "spark://a:1,b:2",
        "spark://[::1]:7077",
        "k8s://https://host:443",
        "k8s://host",
    ],
)
def test_master_that_spark_knows_is_taken(master: str) -> None:
    check_master(master, {}, "/nowhere/bin/spark-submit")


@pytest.mark.parametrize(
    "master",
    [
        "",
        "foo",
        "local[]",
        "local[x]",
        "local[0]",
        "local[2",
        "spark://h",
        "spark:/h:7077",
        "spark://a:1,spark://b:2",
        "spark://h:7077/",
        "yarn-client",
        "k8s://",
        "mesos://h:5050",
        "http://h:7077",
    ],
)
def test_master_that_spark_does_not_know_is_refused_before_anything_starts(master: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"{master!r} is no master of Spark")):
        spark_command("/job.py", master=master, name="app a", conf={"spark.jars": "/own.jar"}, environment={})


def test_yarn_needs_to_be_told_where_it_is(tmp_path: Path) -> None:
    submit = str(tmp_path / "bin" / "spark-submit")

    with pytest.raises(ConfigurationError, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        check_master("yarn", {"HADOOP_CONF_DIR": ""}, submit)

    check_master("yarn", {"YARN_CONF_DIR": "/etc/hadoop"}, submit)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-env.sh").touch()  # may set it
    check_master("yarn", {}, submit)


def test_binary_that_is_nowhere_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'spark-sumbit' is neither on PATH nor beside"):
        find_binary("spark-sumbit")


@pytest.mark.parametrize(
    "name",
    ["spark.authenticate.secret", "spark.ssl.keyStorePassword", "spark.hadoop.fs.s3a.secret.key", "spark.x.accessKey"],
)
def test_setting_that_is_a_secret_is_refused_without_its_value(name: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(name)) as refused:
        spark_settings({"spark.x": "1", name: "hunter2"}, {})

    assert "hunter2" not in str(refused.value)
    assert "spark-defaults.conf" in str(refused.value)


def test_path_of_a_file_that_holds_a_secret_is_none() -> None:
    paths = {"spark.authenticate.secret.file": "/etc/secret", "spark.kubernetes.oauthTokenFile": "/etc/token"}
    assert paths.items() <= spark_settings(paths, {}).items()
