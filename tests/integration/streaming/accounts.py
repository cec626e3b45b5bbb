"""An application of real instances on a real Spark: its orders, what they come to, its processes, its control plane."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import KafkaError, Message, Producer

from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import InstanceState, InstanceStatus, Role, TaskState
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.jars.jar_sets import spark_kafka_jars
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, control_specs, history_spec, lookups_spec
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import Launched, launch
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.json.user_values import decode_state
from tests.builders import assigned
from tests.integration.streaming.committed import commits, newest_by_key, outputs_by_key, records_of
from tests.waiting import wait_until

JOB: Final = Path(__file__).parent / "accounts_job.py"
ROOT: Final = Path(__file__).parents[3]
CLOCK: Final = ROOT / "tests/chaos/clock"

Order = tuple[int, str | None, int]
"""Partition, account, amount."""


def environment(ahead: Path | None = None) -> dict[str, str]:
    """Of an instance.

    Args:
        ahead: holds the seconds by which the clock of its host is ahead; None for one that is right.
    """
    own = [str(CLOCK), str(ROOT)] if ahead else [str(ROOT)]
    paths = [*own, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        **({"CHAOS_CLOCK": str(ahead)} if ahead else {}),
    }


class Orders:
    """Writes orders and keeps what they should come to."""

    def __init__(self, bootstrap_servers: str, topic: str, seed: int) -> None:
        print(f"orders with seed {seed}")
        self.topic = topic
        self._chance = random.Random(seed)
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-producer"})
        self._producer.init_transactions(30)
        self.outputs: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.state: dict[str, list[int]] = {}
        self.without_account = 0
        self.all_named = False
        """Whether none lacks an account from now on."""

    def write(self, number: int, partitions: Sequence[int]) -> None:
        """Some of them lack an account, some close theirs, and some are aborted: those never were."""
        self._transact([self._order(partitions) for _ in range(number // 10)], commit=False)
        orders = [self._order(partitions) for _ in range(number)]
        self._transact(orders, commit=True)
        for order in orders:
            self._book(order)

    def write_raw(self, partition: int, key: bytes, value: bytes) -> int:
        """Anything at all; returns its offset."""
        offsets: list[int] = []

        def note(_: KafkaError | None, message: Message) -> None:
            offsets.append(message.offset() or 0)

        self._producer.begin_transaction()
        self._producer.produce(self.topic, value, key, partition=partition, on_delivery=note)
        self._producer.commit_transaction(30)
        self._producer.poll(0)
        return offsets[0]

    @property
    def number(self) -> int:
        return sum(map(len, self.outputs.values()))

    def _order(self, partitions: Sequence[int]) -> Order:
        partition = self._chance.choice(partitions)
        account = f"p{partition}-{self._chance.randrange(9)}" if self._named() else None
        return partition, account, self._chance.choice([0, 1, 2, 3, 5, 8])

    def _named(self) -> bool:
        return self._chance.random() > 0.05 or self.all_named

    def _transact(self, orders: list[Order], commit: bool) -> None:
        self._producer.begin_transaction()
        for partition, account, amount in orders:
            value = json.dumps({"account": account, "amount": amount})
            self._producer.produce(self.topic, value, account, partition=partition)
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(30)

    def _book(self, order: Order) -> None:
        _, account, amount = order
        if account is None:
            self.without_account += 1
            return
        count, total = self.state.get(account, [0, 0])
        count, total = count + 1, total + 100 * amount
        self.outputs[account].append({"account": account, "count": count, "total": total})
        self.state[account] = [count, total]
        if amount == 0:
            del self.state[account]


class Accounts:
    """The application. `close` leaves none of its processes."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path, num_tasks: int, seed: int) -> None:
        self.id, self.folder, self.num_tasks = application_id, folder, num_tasks
        self.connection = KafkaConnection(bootstrap_servers)
        self.totals, self.changelog = f"{application_id}-totals", f"{application_id}-state-changelog"
        self.orders = Orders(bootstrap_servers, f"{application_id}-orders", seed)
        self.job: tuple[str, ...] = (str(JOB), application_id)
        """The file that is submitted and its arguments, behind further options of spark-submit."""
        self.ahead_s: dict[str, int] = {}
        """By instance, how far the clock of its host is ahead."""
        self.failed_tasks: set[int] = set()
        """The tasks that a test has failed for good: `settled` does not look at them."""
        plain = [
            TopicSpec(name=self.orders.topic, partitions=num_tasks),
            TopicSpec(name=self.totals, partitions=3),
        ]
        changelog = changelog_spec(application_id, "state", num_tasks)
        TopicAdmin(self.connection).ensure(
            [
                *plain,
                changelog,
                *control_specs(application_id),
                history_spec(application_id),
                lookups_spec(application_id),
            ]
        )
        self._launched: dict[str, Launched] = {}
        self._incarnations: dict[str, int] = {}
        self._seen: dict[int, psutil.Process] = {}
        self._reader = ControlReader(self.connection, application_id)

    def close(self) -> None:
        for name, launched in self._launched.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                launcher = psutil.Process(launched.launcher_pid)
                if "airflow_provider.launch.launcher" in launcher.cmdline():
                    self.processes(name)
                    self._seen[launcher.pid] = launcher
        for process in self._seen.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()  # psutil sees to it that the id still means this process
        self._reader.close()

    # -- processes -----------------------------------------------------------------------------------------------

    def launch(self, name: str, master: str = "local[2]", ui: bool = False, **more: Any) -> None:
        """Start it, with Spark's UI or without; `more` are further fields of its settings."""
        ahead_s, ahead = self.ahead_s.get(name, 0), self.folder / f"clock-{name}"
        ahead.write_text(str(ahead_s))
        incarnation = time.time_ns() // 1_000_000 + 1000 * ahead_s
        run_dir, state_dir = self.folder / f"run-{name}-{incarnation}", self.folder / name
        settings = InstanceSettings(
            application_id=self.id,
            instance=name,
            incarnation=incarnation,
            state_dir=str(state_dir),
            run_dir=str(run_dir),
            connection=self.connection,
            **more,
        )
        command = [
            str(Path(sys.executable).parent / "spark-submit"),
            *("--master", master, "--driver-memory", "512m", "--conf", f"spark.ui.enabled={str(ui).lower()}"),
            *("--conf", "spark.ui.port=0"),
            *("--conf", "spark.driver.extraJavaOptions=-XX:+UseSerialGC"),
            *("--jars", ",".join(map(str, spark_kafka_jars()))),
            *self.job,
        ]
        self._incarnations[name] = incarnation
        self._launched[name] = launch(settings, command, environment(ahead if ahead_s else None))

    def runs(self, name: str) -> bool:
        """Whether the instance that was launched last under this name is up."""
        if name not in self._launched or not self.launcher_lives(name) or name not in self.view.statuses:
            return False
        status = self.status(name)
        return (status.incarnation, status.state) == (self._incarnations[name], InstanceState.RUNNING)

    def processes(self, name: str) -> list[psutil.Process]:
        """All of an instance but its launcher."""
        with contextlib.suppress(psutil.NoSuchProcess):
            found = psutil.Process(self._launched[name].launcher_pid).children(recursive=True)
            self._seen.update({process.pid: process for process in found})
            return found
        return []

    def worker_of(self, name: str, task: int) -> psutil.Process:
        """The Python worker that has a task's store open; one that is being replaced is waited for."""
        store = str(self.directory(name).database(TaskId(0, task)))

        def holder() -> psutil.Process | None:
            for process in self.processes(name):
                with contextlib.suppress(psutil.Error):
                    if any(file.path.startswith(store) for file in process.open_files()):
                        return process
            return None

        found = wait_until(holder, 10, f"a process of {name} to hold {store}")
        assert found is not None
        return found

    def signal(self, name: str, number: signal.Signals) -> None:
        """To the whole instance: driver, JVM and workers; its launcher is left alone and tells of an end."""
        group = int((self.run_dir(name) / "process_group").read_text())
        os.killpg(group, number)
        for process in self.processes(name):
            # The workers' daemon makes itself the leader of a group of its own.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def launcher_lives(self, name: str) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._launched[name].launcher_pid).status() != psutil.STATUS_ZOMBIE
        return False

    def run_dir(self, name: str) -> Path:
        return Path(self._launched[name].run_dir)

    def log(self, name: str) -> str:
        return Path(self._launched[name].log_file).read_text()

    def directory(self, name: str) -> StateDirectory:
        return StateDirectory(self.folder / name, self.id)

    # -- the control plane ---------------------------------------------------------------------------------------

    def read_anew(self) -> None:
        """The control topics were deleted and created again."""
        self._reader.close()
        self._reader = ControlReader(self.connection, self.id)
        self._generation = 0

    @property
    def view(self) -> ControlView:
        self._reader.poll(0.0)
        return self._reader.view

    def status(self, name: str) -> InstanceStatus:
        return self.view.statuses[name]

    def assign(self, *tasks: str) -> Assignment:
        """Publish ``"active standby"`` by task; nobody gets one that failed for good."""
        left = ["-" if number in self.failed_tasks else words for number, words in enumerate(tasks)]
        return self._publish(assigned(*left).tasks, tasks_of({0: self.num_tasks}))

    def give(self, active: Mapping[TaskId, str | None], standby: Mapping[TaskId, str] | None = None) -> Assignment:
        """Publish who is active and who is the standby of each task, of any stage."""
        standbys = {task: (name,) for task, name in (standby or {}).items()}
        wanted = {task: TaskAssignment(active=name, standbys=standbys.get(task, ())) for task, name in active.items()}
        return self._publish(wanted, tuple(active))

    def _publish(self, wanted: Mapping[TaskId, TaskAssignment], tasks: Sequence[TaskId]) -> Assignment:
        publisher = AssignmentPublisher(self.connection, self.id)
        newest = publisher.view.assignment or Assignment.empty(self.id, tasks)
        publisher.publish(newest.next(wanted, "the test says so", carried_out=0))
        assert publisher.view.assignment is not None
        self._generation = publisher.view.assignment.generation
        return publisher.view.assignment

    def command(self, kind: CommandKind, name: str, tasks: tuple[int, ...] = ()) -> str:
        """Give a command and wait until it is carried out; a stop is not waited for. Its id."""
        command = Command(
            id=f"{kind.value}-{time.time_ns()}",
            kind=kind,
            instance=name,
            incarnation=self.status(name).incarnation,
            tasks=tuple(TaskId(0, task) for task in tasks),
        )
        ControlWriter(self.connection, self.id).write(command)
        if kind is not CommandKind.STOP:
            self.wait(lambda: command.id in self.status(name).last_commands, f"{name} to {kind.value}")
        return command.id

    def settled(self) -> bool:
        """Whether every copy of every task is what the newest assignment says, and warm; but for `failed_tasks`."""
        view = self.view
        if view.assignment is None or view.assignment.generation < self._generation:
            return False  # what was published last has not been read yet
        for task_id, task in view.assignment.tasks.items():
            for name in (task.active, *task.standbys):
                copy = view.statuses[name].task(task_id) if name in view.statuses else None
                if task_id.partition in self.failed_tasks:
                    continue
                if copy is None or copy.error is not None or copy.lag_records != 0:
                    return False
                if name == task.active:
                    if (copy.role, copy.state, copy.generation) != (Role.ACTIVE, TaskState.RUNNING, task.active_since):
                        return False
                elif (copy.role, copy.state) != (Role.STANDBY, TaskState.FOLLOWING):
                    return False
        return True

    def wait(self, predicate: Callable[[], bool], what: str, deadline_s: float = 60.0) -> None:
        """As `wait_until`; where it fails, with the statuses, the ends of the logs and what every Python is about.

        What a run of many tests keeps of it is its end, so that is where the copies stand.
        """
        try:
            wait_until(predicate, deadline_s, what, poll_s=0.1)
        except AssertionError as error:
            statuses = "\n".join(f"{name}: {status}" for name, status in self.view.statuses.items())
            copies = "; ".join(
                f"{name} {status.state.value} {status.error or ''} "
                + ", ".join(
                    f"{one.task} {one.role.value} {one.state.value} lag {one.lag_records} {one.error or ''}"
                    for one in status.tasks
                )
                for name, status in self.view.statuses.items()
            )
            logs = "\n".join(f"--- {name}\n{self.log(name)[-3000:]}" for name in self._launched)
            stacks = "\n".join(f"--- {name}\n{self._stacks(name)}" for name in self._launched)
            found = f"{logs}\n{statuses}\n{self.view.assignment}\n{stacks}\n{error}: {copies}"
            raise AssertionError(found) from None

    def _stacks(self, name: str) -> str:
        """Of all threads of an instance's driver and workers, which end by it (`PYTHONFAULTHANDLER`)."""
        before = len(self.log(name))
        for process in self.processes(name):
            with contextlib.suppress(psutil.Error):
                if "python" in process.name():
                    process.send_signal(signal.SIGABRT)
        time.sleep(2)
        lines = self.log(name)[before:].splitlines()
        told = ("Thread", "Current thread", "/airflow_provider/", "/tests/", "/pyspark/")
        return "\n".join(line for line in lines if any(word in line for word in told))

    def wait_for_state(self, name: str, state: InstanceState, deadline_s: float = 60.0) -> InstanceStatus:
        def reported() -> bool:
            return name in self.view.statuses and self.status(name).state is state

        self.wait(reported, f"{name} to be {state.value}", deadline_s)
        return self.status(name)

    # -- results -------------------------------------------------------------------------------------------------

    def processed(self) -> int:
        """How many outputs can be seen now: what a killed worker left open is not waited for."""
        return len(records_of(self.connection.bootstrap_servers, self.totals, settled=False))

    def check(self, deadline_s: float = 60.0) -> None:
        """Every committed order counted once, in output, in state, in the counts; nothing else did."""
        servers = self.connection.bootstrap_servers
        self.wait(lambda: self.processed() >= self.orders.number, "all orders to be processed", deadline_s)
        changelog: list[Any] = []

        def counted() -> bool:
            changelog[:] = records_of(servers, self.changelog)
            return self._filtered(changelog) >= self.orders.without_account

        self.wait(counted, "all orders without an account to be counted")
        assert outputs_by_key(records_of(servers, self.totals)) == self.orders.outputs
        state = {key.decode(): decode_state(value) for key, value in newest_by_key(changelog).items()}
        assert state == self.orders.state
        assert self._filtered(changelog) == self.orders.without_account

    def _filtered(self, changelog: list[Any]) -> int:
        last = [commits(changelog, task)[-1:] for task in range(self.num_tasks)]
        return sum(record["filtered"].get("no_account", 0) for records in last for record in records)
