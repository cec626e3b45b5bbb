"""An application on a real broker without Spark: its topics, its plans, and workers that are driven call by call."""

from __future__ import annotations

import dataclasses
import multiprocessing
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState, TaskStatus
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.kind import StoreKind
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.store import Store
from airflow_provider.streaming.json.user_values import decode_state
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.process import Process
from airflow_provider.streaming.planner.stage_spec import InputSpec, StageSpec, StoreSpec
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import SlotPlan, TaskPlan
from tests.integration.streaming.committed import wait_for_markers
from tests.integration.streaming.orders import running_totals

ACTIVE, STANDBY = Role.ACTIVE, Role.STANDBY
RESTORE_S = 20.0
"""How long a call may follow changelogs: it returns as soon as it is at their ends."""

_SMALL = RocksDBOptions(block_cache_bytes=4 << 20, write_buffer_bytes=4 << 20)


def active(task: int, generation: int = 1, replay: str | None = None) -> TaskPlan:
    return TaskPlan(task=TaskId(0, task), role=ACTIVE, generation=generation, replay=replay)


def standby(task: int, generation: int = 1, replay: str | None = None) -> TaskPlan:
    return TaskPlan(task=TaskId(0, task), role=STANDBY, generation=generation, replay=replay)


@dataclass(frozen=True)
class Application:
    """What the tests of one application share."""

    connection: KafkaConnection
    folder: Path
    spec: StageSpec

    @classmethod
    def create(
        cls,
        bootstrap_servers: str,
        application_id: str,
        folder: Path,
        operation: Operation | None = None,
        num_tasks: int = 1,
        changelog_config: Mapping[str, str] | None = None,
        filters: tuple[str, ...] = (),
    ) -> Application:
        """Make its topics."""
        connection = KafkaConnection(bootstrap_servers)
        changelog = changelog_spec(application_id, "state", num_tasks)
        changelog = dataclasses.replace(changelog, config={**changelog.config, **(changelog_config or {})})
        plain = [TopicSpec(name=f"{application_id}-{name}", partitions=num_tasks) for name in ("source", "sink")]
        admin = TopicAdmin(connection)
        admin.ensure([changelog, *plain])
        spec = StageSpec(
            application_id=application_id,
            input=InputSpec(topic=f"{application_id}-source", key_name="customer", filters=filters),
            operation=operation or Process(running_totals, ("amount",)),
            store=StoreSpec(
                name="state",
                changelog=changelog.name,
                kind=StoreKind(rocksdb=_SMALL),
                delete_retention_ms=24 * 3_600_000,
            ),
            sink_topic=f"{application_id}-sink",
            topic_ids=admin.ids([changelog.name, f"{application_id}-source"]),
        )
        return cls(connection, folder, spec)

    def started_again(self) -> Application:
        """As instances know it that start now: a topic that was created again has another id."""
        ids = TopicAdmin(self.connection).ids(list(self.spec.topic_ids))
        return dataclasses.replace(self, spec=dataclasses.replace(self.spec, topic_ids=ids))

    @property
    def changelog(self) -> str:
        return self.spec.changelog

    def settle(self) -> None:
        """Wait until a reader of the changelog can see all that was committed."""
        wait_for_markers(self.connection.bootstrap_servers, self.changelog)

    def instance(self, name: str, fail_points: tuple[str, ...] = (), state_dir: str | None = None) -> InstancePlans:
        run_dir = self.folder / f"run-{name}"
        run_dir.mkdir(parents=True, exist_ok=True)
        settings = InstanceSettings(
            application_id=self.spec.application_id,
            instance=name,
            incarnation=1,
            state_dir=str(self.folder / (state_dir or f"state-{name}")),
            run_dir=str(run_dir),
            connection=self.connection,
            fail_points=fail_points,
        )
        return InstancePlans(self.spec, settings)


@dataclass(frozen=True)
class InstancePlans:
    """What the driver of one instance tells its workers."""

    spec: StageSpec
    settings: InstanceSettings

    def plan(self, *tasks: TaskPlan, budget_s: float = RESTORE_S) -> SlotPlan:
        rows_of = dict.fromkeys(t.task for t in tasks if t.role is ACTIVE)
        return SlotPlan(
            settings=self.settings, stages={0: self.spec}, slot=0, tasks=tasks, budget_s=budget_s, rows_of=rows_of
        )

    @property
    def directory(self) -> StateDirectory:
        return StateDirectory(Path(self.settings.state_dir), self.spec.application_id)

    @property
    def quarantined(self) -> list[Path]:
        return sorted((self.directory.path / "quarantine").glob("*"))

    def stored(self, task: int = 0) -> dict[bytes, bytes]:
        """What lies in the store of a task that no worker holds."""
        name = self.spec.store.name
        store = Store(self.directory.database(TaskId(0, task)), [name], self.spec.store.kind.rocksdb)
        try:
            return dict(store.items(name))
        finally:
            store.close()


class WorkerDiedError(Exception):
    """The worker's process ended in the middle of a call."""


@dataclass
class WorkerProcess:
    """A worker in a process of its own, as Spark's daemon forks them: the same `call`, and it can die."""

    first: SlotPlan
    _process: Any = field(init=False)
    _pipe: Connection = field(init=False)

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        # pyarrow would import pandas in every worker, at its first conversion.
        context.set_forkserver_preload(["pandas", "tests.integration.streaming.application"])
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(self.first, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def call(
        self, plan: SlotPlan, rows: Iterable[pa.RecordBatch], attempts_left: bool = False
    ) -> tuple[TaskStatus, ...]:
        """As `Slot.call`.

        Raises:
            WorkerDiedError: the process died.
        """
        try:
            self._pipe.send((plan, rows, attempts_left))
            answer = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise WorkerDiedError from error
        if isinstance(answer, Exception):
            raise answer
        statuses: tuple[TaskStatus, ...] = answer
        return statuses

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def exit_status(self) -> int | None:
        """After it ended: negative for the signal that ended it."""
        self._process.join(10)
        status: int | None = self._process.exitcode
        return status

    def close(self) -> None:
        """Let go of everything and end."""
        if self._process.is_alive():
            self._pipe.send(None)
        self._process.join(10)
        self._pipe.close()

    def kill(self) -> None:
        """With SIGKILL, if it still lives."""
        self._process.kill()
        self._process.join(10)


def _work(first: SlotPlan, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    slot = Slot(first)
    while (asked := pipe.recv()) is not None:
        try:
            pipe.send(slot.call(*asked))
        except Exception as error:
            pipe.send(error)
    slot.close()


def the_only(statuses: Sequence[TaskStatus]) -> TaskStatus:
    (status,) = statuses
    return status


def with_store(spec: StageSpec, **changes: Any) -> StageSpec:
    """The same job with other settings of its store."""
    return dataclasses.replace(spec, store=dataclasses.replace(spec.store, **changes))


def state_of(statuses: Sequence[TaskStatus]) -> dict[int, TaskState]:
    return {status.task.partition: status.state for status in statuses}


def json_state(stored: Mapping[bytes, bytes]) -> dict[str, Any]:
    return {key.decode(): decode_state(value) for key, value in stored.items()}
