"""A broker and an instance to measure on."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import psutil
from confluent_kafka import Producer

from airflow_provider.control.application.job_topics import application_tasks
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.jars.jar_sets import spark_kafka_jars
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, control_specs
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.settings import BrokerSettings
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import Launched, launch
from tests.benchmarks.case import PARTITIONS

_CHUNK = 50_000
_START_S = 300.0
"""For a broker and for an instance: busy machines are measured on too."""


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[KafkaConnection]:
    """A broker of its own for one measurement."""
    settings = BrokerSettings.on_free_ports(directory, die_with_parent=True, heap_bytes=1 << 30)
    running = EmbeddedBroker(settings)
    try:
        yield KafkaConnection(running.start(_START_S).bootstrap_servers)
    finally:
        running.stop()


def make_topics(connection: KafkaConnection, application_id: str, tasks: int, *others: str) -> None:
    """The topics of an application and its source and sink."""
    plain = [TopicSpec(name=name, partitions=tasks, config={}, required=frozenset()) for name in others]
    TopicAdmin(connection).ensure(
        [*plain, changelog_spec(application_id, "state", tasks), *control_specs(application_id)]
    )


def kept_topic(name: str) -> TopicSpec:
    """A source or sink of a comparison, of which nothing is deleted by its age."""
    return TopicSpec(name=name, partitions=PARTITIONS, config={"retention.ms": "-1"})


def publish_orders(connection: KafkaConnection, topic: str, orders: int, customers: int) -> None:
    """JSON orders of customers drawn at random, about 70 bytes each."""
    producer = Producer(connection.to_client_config() | {"linger.ms": 50, "queue.buffering.max.messages": 4 * _CHUNK})
    random = np.random.default_rng(1)
    ids = random.integers(0, customers, orders)
    amounts, quantities = np.round(random.random(orders) * 100, 2), random.integers(1, 9, orders)
    for at in range(0, orders, _CHUNK):
        rows = zip(ids[at : at + _CHUNK], amounts[at : at + _CHUNK], quantities[at : at + _CHUNK], strict=True)
        producer.produce_batch(
            topic,
            [
                {
                    "key": f"customer-{customer:08d}",
                    "value": f'{{"customer":"customer-{customer:08d}","amount":{amount},"quantity":{quantity}}}',
                }
                for customer, amount, quantity in rows
            ],
        )
        producer.flush()


@contextlib.contextmanager
def instance(
    connection: KafkaConnection,
    application_id: str,
    job: Path,
    folder: Path,
    master: str,
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> Iterator[tuple[Launched, ControlReader]]:
    """One running instance with every task assigned to it as the active one; the job gets its id as its argument."""
    with idle_instance(connection, application_id, "bench", job, folder, master, options, env, arguments) as (
        launched,
        reader,
    ):
        publish(connection, application_id, ["bench"], 0)
        yield launched, reader


@contextlib.contextmanager
def idle_instance(
    connection: KafkaConnection,
    application_id: str,
    name: str,
    job: Path,
    folder: Path,
    master: str,
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> Iterator[tuple[Launched, ControlReader]]:
    """One running instance, to which nothing is assigned yet; the job gets the application's id, and `arguments`."""
    settings = InstanceSettings(
        application_id=application_id,
        instance=name,
        incarnation=time.time_ns() // 1_000_000,
        state_dir=str(folder / "state"),
        run_dir=str(folder / "run"),
        connection=connection,
    )
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", master, "--driver-memory", "2g", "--conf", "spark.ui.enabled=false"),
        *("--jars", ",".join(map(str, spark_kafka_jars()))),
        *options,
        str(job),
        application_id,
        *arguments,
    ]
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_DRIVER_PYTHON": sys.executable, **(env or {})}
    launched = launch(settings, command, environment)
    reader = ControlReader(connection, application_id)
    try:
        _until_running(reader, name, settings.incarnation)
        yield launched, reader
    finally:
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            os.kill(launched.launcher_pid, 15)
            psutil.Process(launched.launcher_pid).wait(30)
        reader.close()


def publish(connection: KafkaConnection, application_id: str, instances: Sequence[str], replicas: int) -> int:
    """Give the tasks to these instances.

    Args:
        connection: the cluster.
        application_id: its store is called ``state`` where it was not described.
        instances: that take them.
        replicas: standbys of each task.

    Returns:
        The generation.
    """
    publisher = AssignmentPublisher(connection, application_id)
    tasks = application_tasks(connection, application_id, "state")
    newest = publisher.view.assignment or Assignment.empty(application_id, tasks)
    following = newest.next(
        assign(newest, instances, replicas, publisher.view.statuses), "for a measurement", carried_out=0
    )
    publisher.publish(following)
    return following.generation


def _until_running(reader: ControlReader, name: str, incarnation: int) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        reader.poll(0.2)
        status = reader.view.statuses.get(name)
        if status is None or status.incarnation < incarnation:
            continue
        if status.state is InstanceState.RUNNING:
            return
        if not status.state.alive:
            raise RuntimeError(f"the instance ended: {status.error}; its log is {status.process.log_file}")
    raise RuntimeError(f"the instance did not run within {_START_S:g} s")


def kind_of(process: psutil.Process) -> str:
    """Whether a process of an instance is its ``jvm``, a Python ``worker`` (or their daemon), or its ``driver``."""
    if "pyspark.daemon" in " ".join(process.cmdline()):
        return "worker"
    return "jvm" if process.name() == "java" else "driver"


def cpu_seconds(*pids: int) -> dict[str, float]:
    """CPU time of all descendants, by what they are."""

    def seconds(process: psutil.Process) -> float:
        times = process.cpu_times()
        return times.user + times.system

    return by_kind(seconds, *pids)


def by_kind(measure: Callable[[psutil.Process], float], *pids: int) -> dict[str, float]:
    """What all descendants come to, by what they are; one that is gone counts for nothing."""
    found = {"jvm": 0.0, "driver": 0.0, "worker": 0.0}
    for pid in pids:
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found[kind_of(process)] += measure(process)
    return found
