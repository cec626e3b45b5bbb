"""What the simulation uses of the product, all of it in one place, once its modules are bound to simulated ones.

To be imported in a process that does nothing else: `bind` puts the clock, the threads, the clients and the stores of
the simulation where the product's modules have those of the system. What a module is bound to it finds by what it is,
not by its name, so that modules may be moved.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import sys
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, ClassVar

import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
import rocksdict

from tests.simulation import clients, columns, disk, threads
from tests.simulation.kernel import the


def _stub_airflow() -> None:
    """Of Airflow the watcher needs two classes and a connection, and to import it takes longer than many schedules."""

    def stub(name: str, **members: object) -> None:
        module = ModuleType(name)
        # What else is imported there is not used.
        module.__dict__.update(members, __getattr__=lambda member: type(member, (), {}))
        sys.modules[name] = module

    class Trigger:
        log = logging.getLogger("simulation.trigger")

    class TriggerEvent:
        def __init__(self, payload: Any) -> None:
            self.payload = payload

    class Hook:
        default_conn_name = "kafka"

        def __init__(self, conn_id: str) -> None:
            self.conn_id = conn_id

        async def get_connection_async(self) -> Any:
            return CONNECTION

    class NotFound(Exception):
        pass

    class Pushes:
        """Nobody asks for figures."""

        def __init__(self, *_: object) -> None: ...

        def tell(self, _: object) -> None: ...

        def stop(self) -> None: ...

    stub("airflow")
    stub("airflow.sdk")
    stub("airflow.sdk.exceptions", AirflowNotFoundException=NotFound)
    stub("airflow.triggers")
    stub("airflow.triggers.base", BaseEventTrigger=Trigger, TriggerEvent=TriggerEvent)
    stub("airflow_provider.hooks.kafka_streams", KafkaStreamsHook=Hook)
    stub("airflow_provider.hooks.telemetry", WatcherPushes=Pushes)


_stub_airflow()

from airflow_provider import triggers as triggers_module  # noqa: E402
from airflow_provider.changelog.commit_record import COMMIT_KEY  # noqa: E402
from airflow_provider.common import host_name as host_names  # noqa: E402
from airflow_provider.common.json_codec import from_plain, to_json  # noqa: E402
from airflow_provider.common.store_signature import StoreSignature  # noqa: E402
from airflow_provider.common.task_id import TaskId  # noqa: E402
from airflow_provider.control.failover.detection import detect  # noqa: E402
from airflow_provider.control.failover.incident_answer import (  # noqa: E402
    IncidentEvent,
    IncidentFinder,
    answer_incidents,
    is_due,
    wrong_now,
)
from airflow_provider.control.placement.task_placement import TaskPlacement, place_tasks  # noqa: E402
from airflow_provider.control.records.assignment import Assignment  # noqa: E402
from airflow_provider.control.records.status import (  # noqa: E402
    FormerProcess,
    InstanceState,
    InstanceStatus,
    Role,
    TaskState,
)
from airflow_provider.control.topics import codec, follower, publisher  # noqa: E402, F401 - before it is bound
from airflow_provider.control.topics.codec import apply as apply_record  # noqa: E402
from airflow_provider.control.topics.liveness import Timeouts  # noqa: E402
from airflow_provider.control.topics.reader import ControlReader  # noqa: E402
from airflow_provider.control.topics.view import ControlView  # noqa: E402
from airflow_provider.control.topics.writer import ControlWriter  # noqa: E402
from airflow_provider.errors import AssignmentError, StatefulStreamsError  # noqa: E402
from airflow_provider.failpoint import FailPoint, FailPoints  # noqa: E402
from airflow_provider.kafka import column_consumer  # noqa: E402
from airflow_provider.kafka.connection import KafkaConnection  # noqa: E402
from airflow_provider.kafka.names import (  # noqa: E402
    assignment_topic,
    publisher_transactional_id,
    status_topic,
    transactional_id,
)
from airflow_provider.launch.instance_settings import InstanceSettings  # noqa: E402
from airflow_provider.launch.run_folder import Pulse  # noqa: E402
from airflow_provider.state import digest as digests  # noqa: E402
from airflow_provider.state.kind import StoreKind  # noqa: E402
from airflow_provider.state.position import RESERVED_PREFIX  # noqa: E402
from airflow_provider.streaming import StatefulJob, stream, window  # noqa: E402
from airflow_provider.streaming import functions as F  # noqa: E402
from airflow_provider.streaming.driver import instance as instance_module  # noqa: E402
from airflow_provider.streaming.driver.heartbeat import Heartbeat  # noqa: E402
from airflow_provider.streaming.driver.instance import Instance  # noqa: E402
from airflow_provider.streaming.driver.instance_controller import InstanceController  # noqa: E402
from airflow_provider.streaming.driver.slots import slot_driver as slot_driver_module  # noqa: E402
from airflow_provider.streaming.driver.slots.slot_driver import SlotDriver  # noqa: E402
from airflow_provider.streaming.driver.watches.progress_watch import ProgressWatch  # noqa: E402
from airflow_provider.streaming.driver.watches.source_ends import SourceEnd  # noqa: E402
from airflow_provider.streaming.operations.batch import Changes, FunctionError  # noqa: E402
from airflow_provider.streaming.operations.operation import Operation  # noqa: E402
from airflow_provider.streaming.planner.compile import TopicFacts, compile_job  # noqa: E402
from airflow_provider.streaming.planner.compiled_job import CompiledJob, CompiledStage, SourceSpec  # noqa: E402
from airflow_provider.streaming.planner.stage_plan import changelog_of, partitions_read  # noqa: E402
from airflow_provider.streaming.planner.stage_spec import InputSpec, StageSpec, StoreSpec  # noqa: E402
from airflow_provider.streaming.worker import slot as slot_module  # noqa: E402
from airflow_provider.streaming.worker.calls import answer_of  # noqa: E402
from airflow_provider.streaming.worker.slot import Slot  # noqa: E402
from airflow_provider.streaming.worker.tasks import handover as handover_module  # noqa: E402
from airflow_provider.streaming.worker.tasks.plan import CallReport, WorkerSource  # noqa: E402
from airflow_provider.streaming.worker.tasks.task import TaskLife  # noqa: E402
from airflow_provider.triggers import IncidentTrigger  # noqa: E402

CONNECTION = KafkaConnection("simulated:9092")
POSITION_KEY = RESERVED_PREFIX + b"position"


def _host() -> str:
    fiber = the().current
    return "nowhere" if fiber is None else fiber.process.name.partition("/")[0]


class _Os(ModuleType):
    """`os`, of which every host has its own numbers."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def getpid() -> int:
        return 1


class Handover:
    """How a store passes between two workers of one instance, without a socket."""

    held: ClassVar[dict[str, Handover]] = {}

    def __init__(self, release: Any) -> None:
        kernel = the()
        assert kernel.current is not None
        self.release, self.process = release, kernel.current.process
        self.address = f"{self.process.name}/handover"
        Handover.held[self.address] = self

    @property
    def gone(self) -> bool:
        """Whether its worker is."""
        return self.process.dead

    def close(self) -> None:
        Handover.held.pop(self.address, None)

    @staticmethod
    def ask(address: str, folder: str, deadline: float) -> None:
        kernel, holder = the(), Handover.held.get(address)
        if holder is None or holder.gone:
            return
        fiber = kernel.spawn(holder.process, "handover", lambda: holder.release(folder))
        while kernel.now < deadline and fiber.goes_on:
            kernel.wait(fiber.joining, 0.1)


def _hit(_: object, point: FailPoint) -> None:
    kernel = the()
    kernel.passed(f"fail point {point}")
    kernel.note("at", point)
    at_fail_point(str(point))
    if kernel.random.random() < 0.25:
        kernel.sleep(kernel.random.uniform(0.0, 0.002))


def _never(point: str) -> None:
    """No fault is due."""


at_fail_point = _never
"""Called with each fail point that is passed; set by the faults of a schedule."""


def set_fail_points(call: Any) -> None:
    """Have a function called at every fail point."""
    global at_fail_point  # product code has no other way to the faults
    at_fail_point = call


_Os_ = _Os("os")
REPLACED: tuple[tuple[object, object], ...] = (
    *threads.REPLACED,
    (os, _Os_),
    (socket, SimpleNamespace(gethostname=_host, socket=socket.socket, AF_UNIX=socket.AF_UNIX)),
    (confluent_kafka.Producer, clients.Producer),
    (confluent_kafka.Consumer, clients.Consumer),
    (confluent_kafka.aio.AIOConsumer, clients.AIOConsumer),
    (confluent_kafka.admin.AdminClient, clients.AdminClient),
    (column_consumer.ColumnConsumer, columns.ColumnConsumer),
    (rocksdict.Rdict, disk.Rdict),
    (rocksdict.WriteBatch, disk.Batch),
    (rocksdict.ReadOptions, disk.ReadOptions),
    (handover_module.Handover, Handover),
    (host_names.host_name, _host),
)


def bind(logs: bool = False) -> None:
    """Bind all modules of the product to the simulation. Once, and for good."""
    by_id = {id(before): after for before, after in REPLACED}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("airflow_provider") or module is handover_module:
            continue
        for key, value in list(vars(module).items()):
            if id(value) in by_id:
                setattr(module, key, by_id[id(value)])
            elif isinstance(value, FunctionType):
                _rebind_defaults(value, by_id)
            elif isinstance(value, type) and value.__module__ == name:
                for member in vars(value).values():
                    if isinstance(member, FunctionType):
                        _rebind_defaults(member, by_id)
    handover_module.time = threads.TIME  # type: ignore[assignment, attr-defined]
    handover_module._ask = Handover.ask  # noqa: SLF001
    for method in vars(handover_module).values():
        if isinstance(method, FunctionType):
            _rebind_defaults(method, by_id)
    change = TaskLife.transition

    def transition(life: TaskLife, to: TaskState, error: Exception | None = None) -> None:
        the().passed(f"{life.state.value} > {to.value}")
        change(life, to, error)

    TaskLife.transition = transition  # type: ignore[assignment, method-assign]
    FailPoints.hit = _hit  # type: ignore[assignment, method-assign]
    Pulse.beat = lambda *_: None  # type: ignore[method-assign]  # a file for who looks on the same host
    triggers_module._POLL_S = 0.5  # type: ignore[misc]  # noqa: SLF001
    instance_module._CONTROL_POLL_S = 0.5  # type: ignore[misc]  # noqa: SLF001 - a record wakes it all the same
    # Each record is read by many, and is a value.
    codec.from_numbered_json = functools.lru_cache(4096)(codec.from_numbered_json)  # type: ignore[assignment, attr-defined]
    if not logs:
        logging.disable(logging.CRITICAL)


def _rebind_defaults(function: FunctionType, by_id: dict[int, object]) -> None:
    if function.__defaults__:
        function.__defaults__ = tuple(by_id.get(id(value), value) for value in function.__defaults__)
    if function.__kwdefaults__:
        function.__kwdefaults__ = {k: by_id.get(id(v), v) for k, v in function.__kwdefaults__.items()}


__all__ = [
    "COMMIT_KEY",
    "CONNECTION",
    "POSITION_KEY",
    "Assignment",
    "AssignmentError",
    "CallReport",
    "Changes",
    "CompiledJob",
    "CompiledStage",
    "ControlReader",
    "ControlView",
    "ControlWriter",
    "F",
    "FailPoint",
    "FormerProcess",
    "FunctionError",
    "Heartbeat",
    "IncidentEvent",
    "IncidentFinder",
    "IncidentTrigger",
    "InputSpec",
    "Instance",
    "InstanceController",
    "InstanceSettings",
    "InstanceState",
    "InstanceStatus",
    "Operation",
    "ProgressWatch",
    "Role",
    "Slot",
    "SlotDriver",
    "SourceEnd",
    "SourceSpec",
    "StageSpec",
    "StatefulJob",
    "StatefulStreamsError",
    "StoreKind",
    "StoreSignature",
    "StoreSpec",
    "TaskId",
    "TaskPlacement",
    "TaskState",
    "Timeouts",
    "TopicFacts",
    "WorkerSource",
    "answer_incidents",
    "answer_of",
    "apply_record",
    "assignment_topic",
    "bind",
    "changelog_of",
    "compile_job",
    "detect",
    "digests",
    "from_plain",
    "is_due",
    "partitions_read",
    "place_tasks",
    "publisher",
    "publisher_transactional_id",
    "set_fail_points",
    "slot_driver_module",
    "slot_module",
    "status_topic",
    "stream",
    "to_json",
    "transactional_id",
    "window",
    "wrong_now",
]
