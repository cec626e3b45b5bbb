"""An application of several stages, of which one instance runs now this version of the job, now another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider.common.task_id import tasks_of
from airflow_provider.control.application.job_topics import create_job_topics
from airflow_provider.control.placement.task_placement import TaskPlacement, place_tasks
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import publish_by
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.streaming import StatefulJob
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import ends_of, newest_by_key, records_of


class ChangingApplication(Accounts):
    """The application.

    Args:
        bootstrap_servers: of the brokers.
        application_id: its id.
        folder: of its instance.
        job_file: takes the application id and the version.
        partitions: by stage of the first version, how many tasks it has.
    """

    def __init__(
        self, bootstrap_servers: str, application_id: str, folder: Path, job_file: Path, partitions: Mapping[int, int]
    ) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.admin = TopicAdmin(self.connection)
        self._job_file, self._partitions = job_file, partitions

    def create(self, job: StatefulJob) -> tuple[str, ...]:
        """As a deployment does, what a version needs and does not exist."""
        return create_job_topics(self.connection, self.admin, job.description())[1]

    def start(self, version: str) -> None:
        """Have a version run, whose topics are there."""
        self.launch_version(version)
        self.wait(lambda: self.runs("i1"), f"the version {version} to run", 240)
        wanted = TaskPlacement(instances=["i1"], num_standby_replicas=0, reason="the test says so")
        publish_by(
            self.connection,
            self.id,
            lambda publisher: place_tasks(publisher, wanted, lambda: tasks_of(self._partitions), Timeouts()),
        )

    def launch_version(self, version: str) -> None:
        self.job = (str(self._job_file), self.id, version)
        self.launch("i1", "local[1]")

    def stop(self) -> None:
        self.command(CommandKind.STOP, "i1")
        self.wait_for_state("i1", InstanceState.STOPPED, 120)

    def values(self, sink: str, since: dict[int, int] | None = None) -> dict[str, Any]:
        """The sink's last value of each key, by what was written since it ended there; None for all of it."""
        records = records_of(self.connection.bootstrap_servers, f"{self.id}-{sink}", settled=False)
        found = [record for record in records if record.offset >= (since or {}).get(record.partition, 0)]
        return {key.decode(): json.loads(value) for key, value in newest_by_key(found).items()}

    def ends(self) -> dict[str, dict[int, int]]:
        """By topic of the application, where its partitions end; but for the control topics."""
        control = tuple(f"-{name}" for name in ("assignment", "status", "history", "metrics", "lookups"))
        names = (name for name in self.admin.names() if name.startswith(f"{self.id}-") and not name.endswith(control))
        return {name: ends_of(self.connection.bootstrap_servers, name) for name in sorted(names)}
