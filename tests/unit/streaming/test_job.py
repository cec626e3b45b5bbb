from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import ConfigurationError
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.process import Row, ValueState
from airflow_provider.streaming.settings import INSTANCE_FILE_VARIABLE, InstanceSettings

COMPLETE = (
    StatefulJob("orders-per-customer")
    .source("orders", schema="customer STRING, amount DOUBLE")
    .filter("amount IS NOT NULL", name="no_amount")
    .with_column("cents", "amount * 100")
    .filter("cents > 0", name="free")
    .group_by("customer")
    .aggregate(F.count().alias("orders"), F.sum("amount").alias("spent"))
    .sink("spent-per-customer")
)


def forget(key: str, rows: list[Row], state: ValueState) -> None:
    state.clear()


def test_complete_job_is_itself() -> None:
    assert COMPLETE.checked() is COMPLETE


def test_job_without_a_sink_is_complete() -> None:
    assert StatefulJob("a").source("t").group_by("k").process(forget, ["x"]).checked().sink_topic is None


@pytest.mark.parametrize(
    ("job", "missing"),
    [
        pytest.param(
            StatefulJob("a"), r"call source\(\), group_by\(\), aggregate\(\) on it \(or process\(\)\)", id="all"
        ),
        pytest.param(StatefulJob("a").source("t").aggregate(F.count()), r"call group_by\(\) on it before", id="key"),
        pytest.param(StatefulJob("a").source("t").group_by("k"), r"call aggregate\(\) on it \(or", id="operation"),
        pytest.param(StatefulJob("a").group_by("k").process(forget, []), r"call source\(\) on it", id="source"),
    ],
)
def test_incomplete_job_says_what_to_call(job: StatefulJob, missing: str) -> None:
    with pytest.raises(ConfigurationError, match=missing):
        job.checked()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: StatefulJob("a/b"), id="application-id"),
        pytest.param(lambda: StatefulJob("a").options(store="s t"), id="store"),
    ],
)
def test_names_that_cannot_be_topics_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigurationError, match="cannot name a topic"):
        make()


def test_every_method_leaves_the_job_before_as_it_was() -> None:
    before = StatefulJob("a").source("t")

    before.filter("x", name="f").group_by("k").sink("s").options(store="other")

    assert before == StatefulJob("a").source("t")


def test_filters_are_named_in_their_order() -> None:
    assert COMPLETE.filters == ("no_amount", "free")


def test_options_change_what_they_name_and_no_more() -> None:
    rocksdb = RocksDBOptions(block_cache_bytes=1 << 20)

    job = COMPLETE.options(rocksdb=rocksdb, kafka={"kafka.max.poll.records": "10"}).options(store="totals")

    assert (job.rocksdb, job.store, job.transaction_timeout_ms) == (rocksdb, "totals", 60_000)
    assert dict(job.kafka_options) == {"kafka.max.poll.records": "10"}


def test_operation_can_be_sent_to_workers() -> None:
    assert pickle.loads(pickle.dumps(COMPLETE.operation)) == COMPLETE.operation


def test_job_that_no_launcher_started_says_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INSTANCE_FILE_VARIABLE, raising=False)

    with pytest.raises(ConfigurationError, match="DeployInstanceOperator"):
        COMPLETE.run()


def test_job_that_was_deployed_as_another_application_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "instance.json"
    InstanceSettings("other", "i1", 1, "s", "r", KafkaConnection("broker:9092")).write(file)
    monkeypatch.setenv(INSTANCE_FILE_VARIABLE, str(file))

    with pytest.raises(ConfigurationError, match="'orders-per-customer', it was deployed as 'other'"):
        COMPLETE.run()
