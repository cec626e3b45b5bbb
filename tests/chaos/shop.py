"""The shop under chaos: a job of eighteen stages, with windows, joins and timers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.chaos.evidence import last_offsets, read
from tests.chaos.judge import Record, Verdict
from tests.chaos.load import TransactionalLoad
from tests.chaos.shop_evidence import STAGES, gather
from tests.chaos.shop_job import APPLICATION, job_of
from tests.chaos.shop_judge import judge
from tests.chaos.shop_load import PARTITIONS, ShopLoad
from tests.chaos.workload import Workload


class Shop(Workload):
    """Its stages, topics and stores are those of `STAGES`."""

    application = APPLICATION
    job_file = Path(__file__).parent / "shop_job.py"
    # No function of its own raises, and it has no other version that means something else by the state.
    lacks = ("large-record", "error-text", "changed-job")

    def __init__(self) -> None:
        self.tasks = [TaskId(s.number, partition) for s in STAGES for partition in range(s.tasks)]
        self.upstream = [task for task in self.tasks if STAGES[task.stage].store is None]

    def create_topics(self, connection: KafkaConnection) -> None:
        TopicAdmin(connection).ensure(
            [
                TopicSpec(name=name, partitions=number, config={}, required=frozenset())
                for name, number in PARTITIONS.items()
            ]
        )
        self.ensure_control_topics(connection)

    def ensure_control_topics(self, connection: KafkaConnection) -> None:
        """As `CreateChangelogTopicsOperator` does for a job file."""
        super().ensure_control_topics(connection)
        described, _ = create_described_topics(TopicAdmin(connection), job_of().description())
        write_control(connection, self.application, described)

    def load(self, bootstrap_servers: str, rate: int, seed: int) -> ShopLoad:
        return ShopLoad(bootstrap_servers, rate, seed)

    def marks(self, committed: Mapping[tuple[str, int], int]) -> dict[TaskId, int]:
        return {
            TaskId(stage.number, partition): offset
            for (topic, partition), offset in committed.items()
            for stage in STAGES
            if stage.source == topic
        }

    def ends(self, bootstrap_servers: str) -> dict[TaskId, int]:
        ends = {topic: last_offsets(read(bootstrap_servers, topic)) for topic in {stage.source for stage in STAGES}}
        return {TaskId(s.number, partition): end for s in STAGES for partition, end in ends[s.source].items()}

    def write_last(self, load: TransactionalLoad) -> bool:
        assert isinstance(load, ShopLoad)
        return load.write_last()

    def judge(
        self, bootstrap_servers: str, state_dirs: Mapping[str, Path], lost: Sequence[Sequence[Record]]
    ) -> Verdict:
        return judge(gather(bootstrap_servers, state_dirs, lost))
