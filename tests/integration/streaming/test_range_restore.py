"""A restore that several Spark tasks share ends with the very store that the changelog says, deletions included."""

from __future__ import annotations

import random
from pathlib import Path

from confluent_kafka import Consumer

from airflow_provider.changelog.commit_record import SourcePosition
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import RestorePhase, TaskState
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic, transactional_id
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, control_specs
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.store import Store
from tests.benchmarks.cluster import instance
from tests.builders import commit_of
from tests.integration.streaming.committed import newest_by_key, records_of
from tests.waiting import wait_until

JOB = Path(__file__).parent / "ranges_job.py"
COMMITS, CHANGES, KEYS = 12, 800, 700


def write_history(connection: KafkaConnection, application_id: str, seed: int) -> None:
    """Transactions of puts and deletions, some of them aborted, as an active task leaves them."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    group = Consumer(connection.to_client_config() | {"group.id": application_id})
    changelog = changelog_topic(application_id, "state")
    for number in range(COMMITS):
        # A writer that ends in the middle of a transaction: the next owner aborts what it wrote.
        if number % 4 == 2:
            lost = TransactionalWriter(connection, transactional_id(application_id, TaskId(0, 0)))
            lost.fence()
            producer = lost._producer.client  # noqa: SLF001 - a crash between two steps, without a process
            producer.begin_transaction()
            for key in range(50):
                producer.produce(changelog, b"aborted", b"%d" % key, partition=0)
            producer.flush(10)
        writer = TransactionalWriter(connection, transactional_id(application_id, TaskId(0, 0)))
        writer.fence()
        changes = [
            (b"%d" % chance.randrange(KEYS), None if chance.random() < 0.2 else b"%d-%d" % (number, at))
            for at in range(CHANGES)
        ]
        record = commit_of(
            application_id=application_id,
            sequence=number + 1,
            instance="before",
            sources={f"{application_id}-source": SourcePosition(number)},
            processed=number,
        )
        writer.commit({changelog: changes}, {}, record, group)
        writer.close()
    group.close()


def test_restore_shared_by_spark_tasks_is_the_changelog(
    bootstrap_servers: str, application_id: str, tmp_path: Path
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    topics = [TopicSpec(name=f"{application_id}-source", partitions=1), changelog_spec(application_id, "state", 1)]
    TopicAdmin(connection).ensure([*topics, *control_specs(application_id)])
    write_history(connection, application_id, seed=41)
    phases = set()

    options = ["--conf", "spark.driver.extraJavaOptions=-XX:+UseSerialGC"]
    with instance(connection, application_id, JOB, tmp_path, "local[2]", options) as (launched, reader):

        def restored() -> bool:
            reader.poll(0.1)
            task = reader.view.statuses["bench"].task(TaskId(0, 0))
            if task is not None:
                phases.add(task.restore.phase)
            return task is not None and task.state is TaskState.RUNNING

        wait_until(restored, 60, "the restore to end")
        task = reader.view.statuses["bench"].task(TaskId(0, 0))
    log = Path(launched.log_file).read_text()

    changelog = records_of(bootstrap_servers, changelog_topic(application_id, "state"))
    directory = StateDirectory(tmp_path / "state", application_id)
    store = Store(directory.database(TaskId(0, 0)), ["state"])
    assert dict(store.items("state")) == newest_by_key(changelog)
    store.close()
    assert "task 0_0 restores by ranges" in log
    assert "restores alone" not in log
    assert RestorePhase.RANGES in phases
    assert task is not None
    assert task.restore.records == len(changelog)
    assert not directory.ranges(TaskId(0, 0), "state").exists()
