"""What ends the queries of one task, on a real Spark: that task alone stops, with a cause that a person can act on."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.jars.jar_sets import spark_kafka_jars
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, control_specs
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import launch
from tests.builders import assigned
from tests.integration.streaming.accounts import environment
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

JOB = """
import sys
from airflow_provider.streaming import StatefulJob, functions as F, run, stream

app, expression = sys.argv[1:]
run(
    StatefulJob(
        app,
        stream(f"{app}-source", schema="customer STRING, amount BIGINT", key="customer")
        .with_column("doubled", expression)
        .group_by("customer")
        .aggregate(F.max("doubled").alias("n"), name="state"),
    )
)
"""
DEADLINE_S = 120


class SmallApplication:
    """Two tasks in one slot of one instance."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        self.id, self.folder, self.connection = application_id, folder, KafkaConnection(bootstrap_servers)
        self.source = f"{application_id}-source"
        topics = [TopicSpec(name=self.source, partitions=2), changelog_spec(application_id, "state", 2)]
        TopicAdmin(self.connection).ensure([*topics, *control_specs(application_id)])
        AssignmentPublisher(self.connection, application_id).publish(
            assigned("i1", "i1", application_id=application_id)
        )
        self._launcher: psutil.Process | None = None

    def start(self, expression: str) -> None:
        settings = InstanceSettings(
            application_id=self.id,
            instance="i1",
            incarnation=time.time_ns() // 1_000_000,
            state_dir=str(self.folder / "state"),
            run_dir=str(self.folder / f"run-{time.time_ns()}"),
            connection=self.connection,
        )
        job = self.folder / "job.py"
        job.write_text(JOB)
        command = [
            str(Path(sys.executable).parent / "spark-submit"),
            *("--master", "local[1]", "--driver-memory", "512m", "--conf", "spark.ui.enabled=false"),
            *("--jars", ",".join(map(str, spark_kafka_jars()))),
            *(str(job), self.id, expression),
        ]
        self._launcher = psutil.Process(launch(settings, command, environment()).launcher_pid)

    def stop(self) -> None:
        if self._launcher is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [self._launcher, *self._launcher.children(recursive=True)]:
                    process.kill()
            self._launcher = None

    def end(self) -> InstanceStatus:
        """How it ended."""
        with ControlReader(self.connection, self.id) as reader:

            def look() -> InstanceStatus | None:
                reader.poll(0.2)
                status = reader.view.statuses.get("i1")
                return status if status is not None and status.state is InstanceState.ENDED else None

            status = wait_until(look, DEADLINE_S, "the instance to end")
        assert status is not None
        return status


@pytest.fixture
def application(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[SmallApplication]:
    application = SmallApplication(bootstrap_servers, application_id, tmp_path)
    yield application
    application.stop()


def test_state_folder_that_cannot_be_made_ends_the_instance_at_its_start(application: SmallApplication) -> None:
    (application.folder / "state").write_text("a file in its place")

    application.start(expression="amount * 2")
    status = application.end()

    assert status.error_kind == "ConfigurationError"
    assert f"The state folder {application.folder}/state/{application.id} cannot be used" in str(status.error)


def test_expression_that_spark_refuses_ends_the_instance_with_sparks_hint(application: SmallApplication) -> None:
    application.start(expression="amount * upper_case(customer)")

    status = application.end()

    assert status.error_kind == "ConfigurationError"
    assert "upper_case" in str(status.error)
    assert "Project" not in str(status.error)
