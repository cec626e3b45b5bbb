"""The ledger under chaos: one stage with a function of its own, where every record has an output."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_provider.common.task_id import TaskId
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec
from tests.chaos.evidence import gather, last_offsets, read
from tests.chaos.judge import Record, Verdict, judge
from tests.chaos.load import Load
from tests.chaos.workload import Workload


class Ledger(Workload):
    """Partitions of the input are its tasks."""

    application = "ledger"
    job_file = Path(__file__).parent / "ledger_job.py"
    lacks = ("held-upstream",)  # its one stage reads the source: no task is upstream of another

    def __init__(self, tasks: int) -> None:
        self.tasks = [TaskId(0, number) for number in range(tasks)]

    def create_topics(self, connection: KafkaConnection) -> None:
        partitions = len(self.tasks)
        plain = [
            TopicSpec(name=f"{self.application}-{name}", partitions=partitions, config={}, required=frozenset())
            for name in ("input", "output")
        ]
        # A letter holds the whole record, and says why.
        letters = dataclasses.replace(
            plain[0], name=f"{self.application}-dead-letters", config={"max.message.bytes": str(4 << 20)}
        )
        TopicAdmin(connection).ensure([*plain, letters, changelog_spec(self.application, "state", partitions)])
        self.ensure_control_topics(connection)

    def load(self, bootstrap_servers: str, rate: int, seed: int) -> Load:
        return Load(bootstrap_servers, f"{self.application}-input", len(self.tasks), rate, seed)

    def marks(self, committed: Mapping[tuple[str, int], int]) -> dict[TaskId, int]:
        return {TaskId(0, partition): offset for (_, partition), offset in committed.items()}

    def ends(self, bootstrap_servers: str) -> dict[TaskId, int]:
        found = last_offsets(read(bootstrap_servers, f"{self.application}-input"))
        return {TaskId(0, partition): offset for partition, offset in found.items()}

    def judge(
        self, bootstrap_servers: str, state_dirs: Mapping[str, Path], lost: Sequence[Sequence[Record]]
    ) -> Verdict:
        return judge(gather(bootstrap_servers, self.application, state_dirs, lost))
