from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.streaming.driver.spark import spark_session as session_module
from airflow_provider.streaming.driver.spark.spark_error import Cause
from airflow_provider.streaming.driver.spark.spark_session import (
    closed_settings,
    idle_settings,
    max_task_failures,
    start_error,
    time_zone,
    warm_up_session,
)
from tests.unit.streaming.driver.fakes import FakeRows, compiled, settings_in


class FakeBuilder:
    """Makes a session, and takes SIGINT for itself, as PySpark does in the main thread."""

    def __init__(self) -> None:
        conf = SimpleNamespace(getAll=lambda: [], set=lambda *_: None)
        self._session = SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(getConf=lambda: conf))

    def getOrCreate(self) -> Any:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return self._session

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: self


def test_interruption_stays_the_instances_to_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "as it was")
    monkeypatch.setattr(session_module, "SparkContext", SimpleNamespace(_ensure_initialized=lambda: None))
    monkeypatch.setattr(session_module, "SparkConf", lambda: SimpleNamespace(getAll=lambda: []))
    monkeypatch.setattr(session_module, "SparkSession", SimpleNamespace(builder=FakeBuilder()))
    monkeypatch.setattr(session_module, "StoreHost", lambda *_: SimpleNamespace(call=lambda function: function()))
    before = signal.getsignal(signal.SIGINT)

    session_module.spark_session(settings_in(tmp_path))
    after = signal.signal(signal.SIGINT, before)

    assert after is before


def test_idle_worker_is_ended_by_whole_seconds() -> None:
    assert idle_settings(0.2)["spark.python.worker.idleTimeoutSeconds"] == "1"
    assert idle_settings(600.0) == {
        "spark.python.worker.idleTimeoutSeconds": "600",
        "spark.python.worker.killOnIdleTimeout": "true",
    }


@pytest.mark.parametrize(
    ("master", "failures"),
    [("local", 1), ("local[4]", 1), ("local[4, 3]", 3), ("local-cluster[2,1,1024]", 8), ("spark://host:7077", 8)],
)
def test_how_often_spark_tries_depends_on_the_master(master: str, failures: int) -> None:
    conf = SimpleNamespace(get=lambda name, default: {"spark.task.maxFailures": "8"}.get(name, default))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf))

    assert max_task_failures(spark) == failures


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(Cause("ModuleNotFoundError", "No module named 'airflow_provider'"), id="without-this-package"),
        pytest.param(Cause("AttributeError", "Can't get attribute '_version'"), id="with-an-earlier-one"),
        pytest.param(Cause("PySparkImportError", "[PACKAGE_NOT_INSTALLED] PyArrow"), id="without-pyarrow"),
        pytest.param(Cause("IOException", "error=2, No such file or directory"), id="not-there"),
        pytest.param(Cause("SparkException", "EOFException in pyspark.daemon's stdout"), id="no-python"),
        pytest.param(Cause("PySparkRuntimeError", "[PYTHON_VERSION_MISMATCH] Python in worker"), id="other-version"),
    ],
)
def test_python_that_cannot_run_workers_is_a_wrong_configuration_and_is_named(cause: Cause) -> None:
    error = start_error("spark://h:7077", "/p/python", cause)

    assert isinstance(error, ConfigurationError)
    assert "/p/python" in str(error)
    assert cause.message in str(error)


def test_cluster_that_does_not_answer_is_named_and_may_answer_later() -> None:
    error = start_error("spark://h:7077", "/p", Cause("IllegalStateException", "Cannot call methods on a stopped one"))

    assert isinstance(error, InstanceError)
    assert "spark://h:7077" in str(error)


def test_time_zone_is_not_that_of_the_host_unless_the_user_names_one() -> None:
    assert time_zone({"spark.app.name": "x"}) == "UTC"
    assert time_zone({"spark.sql.session.timeZone": "Asia/Tokyo"}) == "Asia/Tokyo"


LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@pytest.mark.parametrize(
    ("given", "address", "settings"),
    [
        pytest.param({"spark.ui.enabled": "false"}, None, {"spark.authenticate": "true", **LOOPBACK}, id="local"),
        pytest.param({"spark.ui.enabled": "true"}, None, {"spark.authenticate": "true"}, id="with-a-ui"),
        pytest.param({"spark.ui.enabled": "false"}, "10.0.0.1", {"spark.authenticate": "true"}, id="on-an-address"),
        pytest.param(
            {"spark.ui.enabled": "false", "spark.authenticate": "false", "spark.driver.host": "a"},
            None,
            {"spark.driver.bindAddress": "127.0.0.1"},
            id="said-otherwise",
        ),
    ],
)
def test_ports_of_a_local_spark_answer_nobody_else(
    given: dict[str, str], address: str | None, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    if address is not None:
        monkeypatch.setenv("SPARK_LOCAL_IP", address)

    assert closed_settings({"spark.master": "local[2]", **given}) == settings
    assert closed_settings({"spark.master": "spark://host:7077", **given}) == {}


class FakeSource:
    """A query that finds so many records, or fails."""

    def __init__(self, records: int, error: Exception | None = None) -> None:
        self.records, self.error = records, error
        self.active = self.waits_for_data = self.left = self.ended = False
        self.active_for_s = 0.0
        self.checkpoint: Path | None = None

    def __call__(self, _spark: Any, _source: Any, _connection: Any, _tasks: Any, checkpoint: Path, drop: Any) -> Any:
        self.checkpoint, self._drop = checkpoint, drop
        return self

    def start(self) -> None:
        self.active = True
        if self.error is not None:
            raise self.error
        if self.records:
            self._drop(self, FakeRows(lambda: ()))
        self.waits_for_data = True

    def leave(self) -> None:
        self.left = True

    def end(self) -> None:
        self.active, self.ended = False, True


def warm_up(source: FakeSource, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(session_module, "SourceQuery", source)
    spark: Any = None
    return warm_up_session(spark, compiled().stages[0], KafkaConnection("nowhere:1"), folder)


def test_one_micro_batch_runs_and_the_query_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeSource(records=3)

    assert warm_up(source, tmp_path, monkeypatch) is True
    assert (source.left, source.ended, source.checkpoint) == (True, True, tmp_path)


def test_empty_source_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeSource(records=0)

    assert warm_up(source, tmp_path, monkeypatch) is False
    assert source.ended


def test_failure_keeps_no_instance_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert warm_up(FakeSource(0, RuntimeError("no such topic")), tmp_path, monkeypatch) is False
    assert "the query that warms Spark up failed: no such topic" in caplog.text
