from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.streaming.driver.spark import single_executor
from airflow_provider.streaming.driver.spark.single_executor import (
    ExecutorWatch,
    executor_finding,
    single_executor_settings,
)

ONE = {
    "spark.dynamicAllocation.enabled": "false",
    "spark.executor.instances": "1",
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "5s",
}
STANDALONE = "spark://host:7077"


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        pytest.param({"spark.master": "local[4]", "spark.executor.instances": "3"}, {}, id="local"),
        pytest.param({"spark.master": "yarn"}, ONE | {"spark.default.parallelism": "1"}, id="yarn"),
        pytest.param(
            {"spark.master": "k8s://https://host", "spark.executor.cores": "4"},
            ONE | {"spark.default.parallelism": "4"},
            id="kubernetes",
        ),
        pytest.param(
            {"spark.master": STANDALONE, "spark.executor.cores": "4"},
            ONE | {"spark.executor.cores": "4", "spark.cores.max": "4", "spark.default.parallelism": "4"},
            id="standalone",
        ),
        pytest.param(
            {"spark.master": STANDALONE, "spark.cores.max": "2"},
            ONE | {"spark.executor.cores": "2", "spark.cores.max": "2", "spark.default.parallelism": "2"},
            id="standalone-by-its-sum",
        ),
        pytest.param(
            {"spark.master": "yarn", "spark.network.timeout": "90s"},
            ONE | {"spark.default.parallelism": "1", "spark.network.timeout": "90s"},
            id="patient",
        ),
        pytest.param(
            {"spark.master": "local-cluster[2,1,1024]", "spark.executor.cores": "1", "spark.cores.max": "1", **ONE},
            ONE | {"spark.executor.cores": "1", "spark.cores.max": "1", "spark.default.parallelism": "1"},
            id="said-already",
        ),
    ],
)
def test_one_executor_is_asked_for(given: dict[str, str], settings: dict[str, str]) -> None:
    assert single_executor_settings(given) == settings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"spark.master": "yarn", "spark.executor.instances": "2"}, "instances is '2'", id="instances"),
        pytest.param(
            {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "TRUE"}, "enabled is 'true'", id="dynamic"
        ),
        pytest.param({"spark.master": STANDALONE}, "neither is set", id="no-cores"),
        pytest.param(
            {"spark.master": STANDALONE, "spark.executor.cores": "1", "spark.cores.max": "2"},
            "spark.executor.cores is 1, spark.cores.max is 2",
            id="room-for-two",
        ),
    ],
)
def test_settings_that_ask_for_several_executors_are_refused_in_one_line(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        single_executor_settings(given)

    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("first", "now", "words"),
    [
        pytest.param([], [], None, id="none-yet"),
        pytest.param([], ["a:1"], None, id="it-came"),
        pytest.param(["a:1"], ["a:1"], None, id="it-is-there"),
        pytest.param([], ["a:1", "b:1"], "2 executors", id="two-at-once"),
        pytest.param(["a:1"], ["a:1", "b:1"], "2 executors", id="another-joined"),
        pytest.param(["a:1"], [], "a:1 of this instance was lost", id="lost"),
        pytest.param(["a:1"], ["a:2"], "a:1 of this instance was lost", id="replaced"),
    ],
)
def test_an_instance_has_the_executor_that_it_began_with(first: list[str], now: list[str], words: str | None) -> None:
    found = executor_finding(frozenset(first), frozenset(now))

    assert (found is None) == (words is None)
    assert (words or "") in (found or "")


def test_lost_executor_ends_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(single_executor, "time", SimpleNamespace(monotonic=lambda: now))
    there: set[str] = set()
    watch = ExecutorWatch(lambda: frozenset(there))
    watch.check()
    there.add("a:1")
    now = 2.0
    watch.check()
    there.clear()
    watch.check()  # less than a second later it does not look

    now = 4.0
    with pytest.raises(InstanceError, match="was lost"):
        watch.check()
