"""Three months of an application's life, with time moved by hand: nothing that it leaves behind grows without bound.

Folders, stores, threads and sockets are real. The control topics are what compaction leaves of them: the newest value
of each key, by the code that writes and reads their keys. It prints its figures.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider.common.files import folder_bytes
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.codec import Value, apply, to_key, to_value
from airflow_provider.control.topics.view import ControlView, outdated
from airflow_provider.launch.run_folder import RunFolder
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.instance_controller import task_plans
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import SlotPlan
from airflow_provider.testing.in_memory_clients import InMemoryClients, InMemoryLog
from tests.unit.streaming.worker.bench import APPLICATION, commit_elsewhere, instance_settings, job_spec

pytestmark = pytest.mark.long

SEED = 11
DAY_MS = 86_400_000
BEGIN_MS = 1_800_000_000_000
DAYS, ASSIGNMENTS, RESTARTS, FAILOVERS = 90, 10_000, 3_000, 500
SLOT_EVERY = 200
"""Every so many assignments are carried out by real slots on real stores."""
TASKS = tuple(TaskId(0, partition) for partition in range(6))
HOSTS = ("a", "b", "c", "d")


class World:
    """Hosts with their folders, slots on them, and the control topics."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.folder, self.now_ms = random.Random(seed), folder, BEGIN_MS
        self.topic: dict[bytes, bytes] = {}
        self.view = ControlView(APPLICATION)
        self.most_keys = 0
        self.incarnations = dict.fromkeys(HOSTS, 0)
        self.log = InMemoryLog()
        for task in TASKS:
            commit_elsewhere(self.log, task.partition, 1, k=1)
        self.slots: dict[str, Slot] = {}
        self.publish(Assignment.empty(APPLICATION, TASKS))

    # -- the control topics --------------------------------------------------------------------------------------

    def publish(self, *values: Value) -> None:
        for value in values:
            self.topic[to_key(value)] = to_value(value)
            apply(self.view, to_key(value), to_value(value), self.now_ms)
        self.most_keys = max(self.most_keys, len(self.topic))

    def assign(self, names: list[str], *explaining: Value) -> None:
        """As an operator does: publish the next generation, then remove what has outlived its use."""
        before = self.view.assignment
        assert before is not None
        tasks = assign(before, names, 1, self.view.statuses, balance=True)
        self.publish(before.next(tasks, "the next", carried_out=0), *explaining)
        for value in outdated(self.view, self.now_ms):
            del self.topic[to_key(value)]
            apply(self.view, to_key(value), None, self.now_ms)

    # -- hosts ---------------------------------------------------------------------------------------------------

    def heartbeat(self, name: str, state: InstanceState = InstanceState.RUNNING) -> None:
        status = InstanceStatus(
            application_id=APPLICATION, instance=name, incarnation=self.incarnations[name], state=state
        )
        self.publish(status)

    def restart(self, name: str) -> None:
        """A process that was killed together with its launcher is followed by the next."""
        self.incarnations[name] += 1
        folder = RunFolder(self.folder / "run" / f"app-{name}-{self.incarnations[name]}")
        folder.make()
        folder.clear_earlier(now_s=self.now_ms / 1000)
        folder.settings.write_bytes(b"password")
        folder.log.write_bytes(b"log")
        (folder.temporary / "blockmgr").mkdir()
        (folder.checkpoint / "slot-0-1").mkdir(parents=True)
        os.utime(folder.log, (self.now_ms / 1000,) * 2)
        self.heartbeat(name)

    def fail(self, name: str) -> None:
        self.heartbeat(name, InstanceState.ENDED)
        incident = Incident(
            application_id=APPLICATION,
            kind=IncidentKind.INSTANCE_ENDED,
            instance=name,
            incarnation=self.incarnations[name],
            tasks=TASKS,
            evidence="killed",
        )
        record = IncidentRecord(
            incident=incident,
            answered_by="run",
            detected_at_ms=self.now_ms,
            decided_at_ms=self.now_ms,
            generation=0,
            resolved_at_ms=self.now_ms,
        )
        self.assign([other for other in HOSTS if other != name], record)
        self.restart(name)

    def pass_through(self, name: str) -> None:
        """An instance whose name does not come again, as that of a pod."""
        self.incarnations[name] = 1
        deployment: dict[str, Any] = {"application": "/job.py", "kafka_conn_id": "k", "spark_conn_id": "s"}
        self.publish(Deployment(application_id=APPLICATION, instance=name, state_dir="s", run_dir="r", **deployment))
        self.heartbeat(name, InstanceState.STOPPED)

    def carry_out(self) -> None:
        """Let a slot on each host do what the newest assignment says, then look for what has left."""
        assignment = self.view.assignment
        assert assignment is not None
        for name in HOSTS:
            plans = task_plans(assignment, name, {})
            settings = instance_settings(self.folder, name)
            plan = SlotPlan(settings=settings, stages={0: job_spec()}, slot=0, tasks=plans, budget_s=0.0)
            if name not in self.slots or self.random.random() < 0.3:
                self.close(name)
                self.slots[name] = Slot(plan, InMemoryClients(self.log))
            self.slots[name].call(plan, (), attempts_left=False)
            directory = StateDirectory(Path(settings.state_dir), APPLICATION)
            if directory.path.exists() and self.random.random() < 0.1 and plans:
                self.slots[name].call(
                    SlotPlan(settings=settings, stages={0: job_spec()}, slot=0, tasks=(), budget_s=0.0), (), False
                )
                directory.quarantine(self.random.choice(plans).task)
            directory.retire({task.task for task in plans}, DAY_MS, self.now_ms)
            directory.empty_removed()

    def close(self, name: str) -> None:
        if (slot := self.slots.pop(name, None)) is not None:
            slot.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, SEED)
    yield world
    for name in HOSTS:
        world.close(name)


def figures(world: World) -> dict[str, int]:
    gc.collect()
    process = psutil.Process()
    stores = [path for name in HOSTS for path in (world.folder / f"state-{name}").glob("app/*_*")]
    aside = [path for name in HOSTS for path in (world.folder / f"state-{name}").glob("app/quarantine/*")]
    return {
        "keys": len(world.topic),
        "stores": len(stores),
        "quarantine": len(aside),
        "state_kb": sum(folder_bytes(world.folder / f"state-{name}") for name in HOSTS) >> 10,
        "run_folders": len(list((world.folder / "run").iterdir())),
        "passwords": len(list((world.folder / "run").glob("*/instance.json"))),
        "run_kb": folder_bytes(world.folder / "run") >> 10,
        "threads": process.num_threads(),
        "handles": process.num_fds(),
        "memory_mb": process.memory_info().rss >> 20,
    }


def test_nothing_grows_without_bound_in_three_months(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for name in HOSTS:
        world.restart(name)
    seen: list[dict[str, int]] = []
    for step in range(1, ASSIGNMENTS + 1):
        world.now_ms = BEGIN_MS + step * DAYS * DAY_MS // ASSIGNMENTS
        for name in HOSTS:
            world.heartbeat(name)
        if step % (ASSIGNMENTS // FAILOVERS) == 0:
            world.fail(world.random.choice(HOSTS))
        elif step * RESTARTS // ASSIGNMENTS != (step - 1) * RESTARTS // ASSIGNMENTS:
            world.restart(world.random.choice(HOSTS))
        if step % (ASSIGNMENTS // DAYS) == 0:
            world.pass_through(f"pod-{step}")
        world.assign(world.random.sample(HOSTS, world.random.choice((2, 3, 4))))
        if step % SLOT_EVERY == 0:
            world.carry_out()
        if step % (ASSIGNMENTS // 10) == 0:
            seen.append(figures(world))
    with capsys.disabled():
        print(f"\nseed {SEED}; {DAYS} days; each tenth of them:")
        for word in seen[0]:
            print(f"  {word:12}", *(f"{figure[word]:>7}" for figure in seen))

    half, end = seen[4], seen[-1]
    # 4 hosts and the assignment; 30 days of pods, each with its deployment; 30 days or 100 of incidents.
    assert world.most_keys <= 1 + 4 + 2 * 32 + 101
    assert end["stores"] <= len(HOSTS) * len(TASKS)
    assert end["quarantine"] <= len(HOSTS) * (4 + len(TASKS))
    assert end["run_folders"] <= len(HOSTS) * 11
    assert end["passwords"] <= len(HOSTS)
    assert (end["threads"], end["handles"]) <= (half["threads"] + 8, half["handles"] + 300)
    assert end["state_kb"] <= 2 * max(figure["state_kb"] for figure in seen[:5])
    assert end["memory_mb"] <= half["memory_mb"] + 100
