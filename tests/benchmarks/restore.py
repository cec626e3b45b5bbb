"""Restore of a cold store from its changelog, by the code that a standby, a promotion and a replay run.

Keys are shuffled: near-sequential ones make any restore look twice as fast.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer

from airflow_provider.changelog.commit_record import CommitRecord, SourcePosition
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic, transactional_id
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.functions import count
from airflow_provider.streaming.planner.stage_spec import InputSpec, StageSpec, StoreSpec
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import SlotPlan, TaskPlan
from tests.benchmarks.cluster import broker, make_topics
from tests.benchmarks.figures import Figures, median

_APPLICATION = "restore"
_TRANSACTION = 100_000


def fill(
    connection: KafkaConnection,
    records: int,
    keys: int,
    record_bytes: int,
    task: int = 0,
    compressible: bool = True,
    application: str = _APPLICATION,
) -> None:
    """Write a task's changelog as the active step does: transactions with a commit record each.

    Values of one transaction share most of their bytes, unless they are not to be `compressible`.
    """
    group = Consumer(connection.to_client_config() | {"group.id": application})
    changelog = changelog_topic(application, "state")
    writer = TransactionalWriter(connection, transactional_id(application, TaskId(0, task)), changelog)
    writer.fence()
    random = np.random.default_rng(7 + task)
    order = random.permutation(records) % keys
    for at in range(0, records, _TRANSACTION):
        part = order[at : at + _TRANSACTION]
        rest = record_bytes - 28
        filler = random.bytes(rest if compressible else rest * len(part))
        step = 0 if compressible else rest
        changes = [
            (b"key-%012d" % key, b"%012d" % (at + i) + filler[step * i : step * i + rest]) for i, key in enumerate(part)
        ]
        record = CommitRecord(
            application_id=application,
            task=TaskId(0, task),
            sequence=at // _TRANSACTION + 1,
            generation=1,
            instance="bench",
            incarnation=1,
            committed_at_ms=0,
            sources={"source": SourcePosition(at + len(part))},
            processed=at + len(part),
        )
        writer.commit({changelog: changes}, {}, record, group)
    group.close()


def plan_of(
    connection: KafkaConnection, folder: Path, tasks: Sequence[int], snapshots: SnapshotSettings | None = None
) -> SlotPlan:
    """Standbys of tasks, in a folder."""
    settings = InstanceSettings(
        application_id=_APPLICATION,
        instance="bench",
        incarnation=1,
        state_dir=str(folder / "state"),
        run_dir=str(folder / "run"),
        connection=connection,
    )
    spec = StageSpec(
        application_id=_APPLICATION,
        input=InputSpec(topic="source", key_name="key"),
        operation=Aggregation((count(),)),
        store=StoreSpec(
            name="state",
            changelog=changelog_topic(_APPLICATION, "state"),
            delete_retention_ms=86_400_000,
        ),
        snapshots=snapshots,
    )
    return SlotPlan(
        settings=settings,
        stages={0: spec},
        slot=0,
        tasks=tuple(TaskPlan(task=TaskId(0, task), role=Role.STANDBY, generation=1) for task in tasks),
        budget_s=0.25,
    )


def restore(connection: KafkaConnection, folder: Path, tasks: Sequence[int] = (0,)) -> Figures:
    """Restore tasks into an empty folder."""
    plan = plan_of(connection, folder, tasks)
    begun, cpu = time.monotonic(), time.process_time()
    slot = Slot(plan)
    statuses = slot.call(plan, (), False)
    while any(status.lag_records != 0 for status in statuses):
        statuses = slot.call(plan, (), False)
    took, used = time.monotonic() - begun, time.process_time() - cpu
    slot.close()
    return Figures(sum(status.restore.records for status in statuses), took, used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--record-bytes", type=int, default=116, help="key and value together")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with broker(folder / "kafka") as connection:
            make_topics(connection, _APPLICATION, 1, "source")
            fill(connection, arguments.records, arguments.keys, arguments.record_bytes)
            results = []
            for run in range(arguments.runs):
                results.append(restore(connection, folder / f"run-{run}"))
                print(f"run {run + 1}: {results[-1]}", flush=True)
    print(f"median of {len(results)}: {median(results)}")


if __name__ == "__main__":
    main()
