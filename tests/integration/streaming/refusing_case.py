"""An application whose instance refuses to start, and so needs no Spark."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from pathlib import Path

import psutil

from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, control_specs
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import Launched, launch
from tests.integration.streaming.accounts import environment
from tests.waiting import wait_until

# Without spark-submit: an instance that refuses does so before it starts a JVM.
JOB = """
import sys
from airflow_provider.streaming import StatefulJob, functions as F, run, stream

app = sys.argv[1]
counts = stream(f"{app}-source").group_by("key").aggregate(F.count().alias("n"), name="state")
run(StatefulJob(app, counts.sink(f"{app}-sink")))
"""


@dataclasses.dataclass(frozen=True)
class RefusingCase:
    """An application, as it is found."""

    application_id: str
    connection: KafkaConnection
    folder: Path

    @classmethod
    def create(cls, bootstrap_servers: str, application_id: str, folder: Path) -> RefusingCase:
        return cls(application_id, KafkaConnection(bootstrap_servers), folder)

    def topics(self, *without: str, source_partitions: int = 2, **changelog_config: str) -> None:
        """Make all topics but those that are named."""
        source = TopicSpec(name=f"{self.application_id}-source", partitions=source_partitions)
        sink = TopicSpec(name=f"{self.application_id}-sink", partitions=1)
        changelog = changelog_spec(self.application_id, "state", 2)
        config = {name.replace("_", "."): value for name, value in changelog_config.items()}
        changelog = dataclasses.replace(changelog, config={**changelog.config, **config})
        wanted = [source, sink, changelog, *control_specs(self.application_id)]
        left_out = {f"{self.application_id}-{name}" for name in without}
        TopicAdmin(self.connection).ensure(spec for spec in wanted if spec.name not in left_out)

    def launch(self, connection: KafkaConnection | None = None) -> Launched:
        settings = InstanceSettings(
            application_id=self.application_id,
            instance="i1",
            incarnation=1,
            state_dir=str(self.folder / "state"),
            run_dir=str(self.folder / "run"),
            connection=connection or self.connection,
        )
        return launch(settings, [sys.executable, "-c", JOB, self.application_id], environment())

    def ended(self, launched: Launched) -> InstanceStatus:
        """The last word of the instance, after its launcher ended too."""
        with ControlReader(self.connection, self.application_id) as reader:

            def has_ended() -> bool:
                reader.poll(0.1)
                status = reader.view.statuses.get("i1")
                return status is not None and not status.state.alive

            wait_until(has_ended, 60, "the instance to end")
            wait_until(lambda: not lives(launched), 10, "the launcher to end")
            status = reader.read_to_end().statuses["i1"]
        assert not status.state.alive
        return status


def lives(launched: Launched) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(launched.launcher_pid).status() != psutil.STATUS_ZOMBIE
    return False
