"""What is not as it has to be ends an instance with its typed error, before anything is processed."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, control_specs
from airflow_provider.kit.ports import free_ports
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import Launched, launch
from tests.integration.streaming.accounts import environment
from tests.integration.streaming.committed import records_of
from tests.waiting import wait_until

# Without spark-submit: an instance that refuses does so before it starts a JVM.
JOB = """
import sys
from airflow_provider.streaming import StatefulJob, functions as F, run

app = sys.argv[1]
job = StatefulJob(app).source(f"{app}-source").group_by("key").aggregate(F.count().alias("n")).sink(f"{app}-sink")
run(job)
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """An application, as it is found."""

    application_id: str
    connection: KafkaConnection
    folder: Path

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


@pytest.fixture
def case(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Case:
    return Case(application_id, KafkaConnection(bootstrap_servers), tmp_path)


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        pytest.param(
            lambda case: case.topics(cleanup_policy="delete"),
            "TopicMismatchError",
            ["cleanup.policy=delete", "compact is needed"],
            id="changelog-is-not-compacted",
        ),
        pytest.param(
            lambda case: case.topics("state-changelog"),
            "TopicMissingError",
            ["-state-changelog' does not exist", "CreateChangelogTopicsOperator"],
            id="changelog-is-missing",
        ),
        pytest.param(
            lambda case: case.topics(source_partitions=3),
            "TopicMismatchError",
            ["2 partitions, 3 are needed"],
            id="source-has-other-partitions",
        ),
        pytest.param(
            lambda case: case.topics("source"), "TopicMissingError", ["-source' does not exist"], id="source-is-missing"
        ),
        pytest.param(
            lambda case: case.topics("sink"), "TopicMissingError", ["-sink' does not exist"], id="sink-is-missing"
        ),
    ],
)
def test_instance_ends_with_its_typed_error_and_processes_nothing(
    found: Callable[[Case], None], kind: str, words: Sequence[str], case: Case
) -> None:
    found(case)
    servers = case.connection.bootstrap_servers
    if "-source'" not in words[0]:
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(f"{case.application_id}-source", b"value", b"key")
        assert producer.flush(30) == 0

    launched = case.launch()
    ended = case.ended(launched)

    assert ended.state is InstanceState.ENDED
    assert str(ended.error).startswith(f"{kind}: ")
    for word in words:
        assert word in str(ended.error)
    for name in ("sink", "state-changelog"):
        if TopicAdmin(case.connection).describe(f"{case.application_id}-{name}") is not None:
            assert records_of(servers, f"{case.application_id}-{name}") == []
    assert kind in Path(launched.log_file).read_text()


def lives(launched: Launched) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(launched.launcher_pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def unreachable(case: Case) -> Iterator[Launched]:
    launched = case.launch(KafkaConnection(f"127.0.0.1:{free_ports(1)[0]}"))
    yield launched
    with contextlib.suppress(psutil.NoSuchProcess):
        launcher = psutil.Process(launched.launcher_pid)
        for process in [*launcher.children(recursive=True), launcher]:
            process.kill()


def test_unreachable_broker_is_reported_in_the_log(unreachable: Launched) -> None:
    def text() -> str:
        return Path(unreachable.log_file).read_text()

    wait_until(lambda: "BrokerUnreachableError: " in text(), 60, "the error in the log")

    assert "check the address, the security protocol, the credentials, and that they answer" in text()
