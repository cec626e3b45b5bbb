from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.hooks.spark_instance import SparkInstanceHook
from airflow_provider.jars import jar_sets

JARS = {"spark.jars": "/a.jar"}


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    def connect(**connection: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK", json.dumps({"conn_type": "spark", "host": "local[2]", **connection}))

    return connect


def pairs(command: list[str]) -> set[tuple[str, str]]:
    return set(pairwise(command))


def test_command_is_that_of_the_connection_and_the_settings(spark: Any) -> None:
    spark(extra={"deploy-mode": "client"})

    command = SparkInstanceHook("spark", {**JARS, "spark.x": "1"}, "app a", ["--fast"]).command("/job.py")

    assert Path(command[0]).name == "spark-submit"
    assert command[-2:] == ["/job.py", "--fast"]
    assert {("--master", "local[2]"), ("--deploy-mode", "client"), ("--name", "app a")} <= pairs(command)
    assert {("--conf", "spark.x=1"), ("--conf", "spark.jars=/a.jar")} <= pairs(command)


def test_credentials_are_redacted_by_spark(spark: Any) -> None:
    spark()

    command = SparkInstanceHook("spark", JARS).command("/job.py")

    (redaction,) = [word for word in command if word.startswith("spark.redaction.regex=")]
    assert "jaas" in redaction
    assert "sasl" in redaction


@pytest.mark.parametrize(
    ("conf", "enabled"),
    [pytest.param({}, "false", id="default"), pytest.param({"spark.ui.enabled": "true"}, "true", id="asked-for")],
)
def test_sparks_ui_is_off_unless_it_is_asked_for(spark: Any, conf: dict[str, str], enabled: str) -> None:
    spark()

    command = SparkInstanceHook("spark", {**JARS, **conf}).command("/job.py")

    assert [word for word in command if word.startswith("spark.ui.")] == [f"spark.ui.enabled={enabled}"]


def test_kafka_connector_is_added_when_nothing_names_it(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark()
    monkeypatch.setattr(jar_sets, "spark_kafka_jars", lambda settings_file: (Path("/k.jar"), Path("/c.jar")))

    assert ("--jars", "/k.jar,/c.jar") in pairs(SparkInstanceHook("spark").command("/job.py"))


@pytest.mark.parametrize("named", [pytest.param("/m/ivy.xml", id="path"), pytest.param("file:///m/ivy.xml", id="url")])
def test_mirror_of_the_settings_serves_the_connector_too(
    spark: Any, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    spark()
    monkeypatch.setattr(jar_sets, "spark_kafka_jars", lambda settings_file: (settings_file,))

    command = SparkInstanceHook("spark", {"spark.jars.ivySettings": named}).command("/job.py")

    assert ("--jars", "/m/ivy.xml") in pairs(command)


def test_packages_of_the_settings_replace_the_connector(spark: Any) -> None:
    spark()

    command = SparkInstanceHook("spark", {"spark.jars.packages": "g:a:1"}).command("/job.py")

    assert ("--conf", "spark.jars.packages=g:a:1") in pairs(command)
    assert "--jars" not in command


def test_python_is_the_one_that_launches(spark: Any) -> None:
    spark()

    environment = SparkInstanceHook("spark", JARS, env_vars={"X": "1"}).environment

    assert environment == {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "X": "1"}


def test_python_of_the_settings_wins(spark: Any) -> None:
    spark()

    hook = SparkInstanceHook("spark", {"spark.pyspark.python": "/p"}, env_vars={"PYSPARK_DRIVER_PYTHON": "/q"})

    assert hook.environment == {"PYSPARK_DRIVER_PYTHON": "/q"}
    hook = SparkInstanceHook("spark", {**JARS, "spark.pyspark.python": "/p"})
    assert ("--conf", f"spark.pyspark.driver.python={sys.executable}") in pairs(hook.command("/job.py"))


def test_master_that_spark_does_not_know_is_refused(spark: Any) -> None:
    spark(host="spark:/h")

    with pytest.raises(ConfigurationError, match="'spark:/h' is no master of Spark"):
        SparkInstanceHook("spark", JARS).command("/job.py")


def test_spark_submit_beside_the_interpreter_is_found(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark()
    monkeypatch.setenv("PATH", "/nowhere")

    assert Path(SparkInstanceHook("spark", JARS).command("/job.py")[0]).parent == Path(sys.executable).parent


def test_missing_spark_submit_is_an_error(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spark()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(ConfigurationError, match="'spark-submit' is neither on PATH"):
        SparkInstanceHook("spark", JARS).command("/job.py")


def test_cluster_mode_is_refused(spark: Any) -> None:
    spark(host="spark://h:7077", extra={"deploy-mode": "cluster"})

    with pytest.raises(ConfigurationError, match="deploy mode 'cluster'"):
        SparkInstanceHook("spark")


def test_missing_connection_is_not_taken_for_yarn() -> None:
    with pytest.raises(ConfigurationError, match="no Spark connection 'absent'"):
        SparkInstanceHook("absent")
