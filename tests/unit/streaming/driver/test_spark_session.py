from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.streaming.driver.spark_session import idle_settings, max_task_failures, time_zone


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


def test_time_zone_is_not_that_of_the_host_unless_the_user_names_one() -> None:
    assert time_zone({"spark.app.name": "x"}) == "UTC"
    assert time_zone({"spark.sql.session.timeZone": "Asia/Tokyo"}) == "Asia/Tokyo"
