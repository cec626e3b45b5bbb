"""Everything that a schedule is made of, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from tests.simulation import clients, columns, disk, product, windows
from tests.simulation import kernel as kernels
from tests.simulation.airflow import Airflow
from tests.simulation.broker import Broker, Partition
from tests.simulation.clients import Network
from tests.simulation.disk import Disk
from tests.simulation.hosts import Host
from tests.simulation.job import APPLICATION, SINK, Ledger, Oracle, compiled
from tests.simulation.judge import Judge
from tests.simulation.kernel import EPOCH_S, Kernel
from tests.simulation.product import (
    Assignment,
    ControlView,
    InstanceState,
    InstanceStatus,
    Role,
    TaskId,
    TaskState,
    WorkerSource,
    apply_record,
    assignment_topic,
    status_topic,
)
from tests.simulation.size import Size
from tests.simulation.spark import SOURCE
from tests.simulation.windows import Windows

_KEYS = 3
_STAGED_EVERY, _STAGED = 16, 5
"""Of sixteen seeds that follow each other one has a job of two stages."""
_CORRECTED = frozenset({"ConfigurationError", "InputLostError", "ProcessError", "TopicMismatchError"})
"""What a person corrects, and then deploys again."""
_GO_ON_AFTER_LOSS = 1 / 2
"""Of so many schedules the job goes on without input that is lost; in the others a person says so when it is."""
_READ_BY_WORKERS = 1 / 2
"""Of so many schedules the workers read the sources, and stay; of the others Spark does."""
_WITH_ROCKSDB = 1 / 64
"""Of so many schedules RocksDB itself is a part: to open it takes longer than most of them."""


class World:
    """One application with its instances, brokers, disks, input, and Airflow.

    Args:
        seed: decides everything that is not a fault.
        size: how large it is.
        traced: whether a trace is kept.
    """

    def __init__(self, seed: int, size: Size, traced: bool = False) -> None:
        random, self.size = Random(f"{seed}/world"), size
        self.kernel = Kernel(seed, traced)
        self.partitions = random.choice(self.size.partitions)
        self.standbys = random.choice(self.size.standbys)
        self.balances = random.random() < 0.7
        apart = random.random() < 0.3
        self.airflow_clock_s = random.uniform(-3600, 3600) if apart else 0.0
        self.broker = Broker(
            lambda: self.kernel.now,
            lambda: int((EPOCH_S + self.kernel.now) * 1000),
            self.kernel.after,
            self.kernel.random.uniform,
            self._appended,
        )
        self.net = Network(self.broker)
        self.disk = Disk(real=Random(f"{seed}/rocksdb").random() < _WITH_ROCKSDB)
        self.retention_s = random.choice((86_400.0, 86_400.0, 16.0))
        retention_ms = int(self.retention_s * 1000)
        self.oracle: Oracle | Windows
        if seed % _STAGED_EVERY == _STAGED:
            of_windows = Random(f"{seed}/windows")
            self.oracle = Windows(self.partitions, of_windows, lambda: int((EPOCH_S + self.kernel.now) * 1000))
            self.job = windows.compiled(self.partitions, of_windows.choice((1, 1, 2)), retention_ms)
        else:
            self.oracle = Oracle(self.partitions)
            self.job = compiled(self.partitions, retention_ms)
        self._workers_read = Random(f"{seed}/reads").random() < _READ_BY_WORKERS
        if Random(f"{seed}/loss").random() < _GO_ON_AFTER_LOSS:
            self._accept_loss()
        self.sources = [(stage.source.topic, task.partition) for stage in self.job.stages for task in stage.tasks]
        self.changelogs = [(stage.spec.changelog, task.partition) for stage in self.job.stages for task in stage.tasks]
        self.judge = Judge(self, self.oracle)
        self.broker.ended.append(self._judged(self.judge.ended))
        self.broker.marked.append(self._judged(self.judge.marked))
        self.disk.written = self._judged(self.judge.written)
        self._reported = self._judged(self.judge.reported)
        count = random.choice(self.size.instances)
        self.hosts: dict[str, Host] = {}
        for number in range(1, count + 1):
            self.add_host(f"i{number}", random.uniform(-7200, 7200) if apart else 0.0, random.choice(self.size.cores))
        self.airflow = Airflow(self)
        self._input = random
        self.records = random.randint(*self.size.records)
        self.round_interval_s = random.choice((0.5, 1.0, 1.0))
        self._create_topics()

    def add_host(self, name: str, clock_s: float = 0.0, cores: int = 1) -> Host:
        self.hosts[name] = Host(self, name, clock_s, cores)
        return self.hosts[name]

    def _create_topics(self) -> None:
        self.broker.create(SINK, 2)
        for stage in self.job.stages:
            self.broker.create(stage.source.topic, stage.num_tasks)
            self.broker.create(
                stage.spec.changelog, stage.num_tasks, compacted=True, delete_retention_s=self.retention_s
            )
        self.broker.create(assignment_topic(APPLICATION), 1, compacted=True, append_time=True)
        self.broker.create(status_topic(APPLICATION), 1, compacted=True, append_time=True)

    def _appended(self, at: Partition) -> None:
        self.net.appended(at)
        if at[0] == status_topic(APPLICATION):
            record = self.broker.topics[at[0]].partitions[0].records[-1]
            if record.key is not None and record.key.startswith(b"instance/") and record.value is not None:
                view = ControlView(APPLICATION)
                apply_record(view, record.key, record.value, record.timestamp_ms)
                for status in view.statuses.values():
                    self._reported(status)

    def use(self) -> None:
        """Make it what the product's clients, stores and clocks in this process are of."""
        kernels.use(self.kernel)
        clients.use(self.net)
        disk.use(self.disk)
        columns.use({stage.source.topic: stage.source for stage in self.job.stages})
        product.Handover.held.clear()

    def begin(self, until: float) -> None:
        """Instances start, tasks are assigned, a watcher watches, input comes."""
        for host in self.hosts.values():
            self.kernel.at(self.kernel.random.uniform(0.0, self.size.start_s / 2), host.start)
        self.kernel.at(0.0, self.airflow.deploy)
        self.kernel.at(0.5, self.airflow.watch)
        begin = self.size.start_s / 2
        if isinstance(self.oracle, Windows):
            for partition in range(self.partitions):
                self.arrives(partition, b"")  # nobody waits for one that has never had any
        for _ in range(self.records * self.partitions):
            partition = self._input.randrange(self.partitions)
            burst = self._input.choice((1, 1, 2, 5))
            for _ in range(burst):
                key, at = b"k%d%d" % (partition, self._input.randrange(_KEYS)), self._input.uniform(begin, until)
                self.kernel.at(at, partial(self.arrives, partition, key))

    def arrives(self, partition: int, key: bytes) -> None:
        """One more record comes."""
        offset, value = self.oracle.add(partition, key)
        found = self.broker.append((SOURCE, partition), key, value)
        assert found == offset

    @property
    def sources_of_workers(self) -> dict[int, WorkerSource]:
        """By stage, the source that its workers read; none where Spark does."""
        if not self._workers_read:
            return {}
        return {
            stage.number: WorkerSource(topic=stage.source.topic, goes_on_after_loss=stage.source.goes_on_after_loss)
            for stage in self.job.stages
        }

    @property
    def goes_on_after_loss(self) -> bool:
        """Whether the job says that it does."""
        return self.job.stages[0].source.goes_on_after_loss

    def _accept_loss(self) -> None:
        """The job says ``on_data_loss("continue")``."""
        stages = (replace(one, source=replace(one.source, goes_on_after_loss=True)) for one in self.job.stages)
        self.job = replace(self.job, stages=tuple(stages))

    @property
    def _ledger(self) -> Ledger:
        return cast(Ledger, self.job.stages[0].spec.operation)

    def bad_record(self, partition: int) -> None:
        """The job cannot process the record of a partition that comes next."""
        if isinstance(self.oracle, Oracle):
            self._ledger.bad.add((partition, len(self.oracle.keys[partition])))
            self.arrives(partition, b"k%d0" % partition)

    def _judged(self, judgement: Callable[..., None]) -> Callable[..., None]:
        """A judgement in the middle of the product's work, which must not see what it comes to."""

        def judge(*what: object) -> None:
            try:
                judgement(*what)
            except Exception as error:
                self.kernel.fail(error)

        return judge

    def operate(self, view: ControlView) -> None:
        """What a person does by the runbook, once the faults are over: end a transaction that hides a changelog."""
        assignment = view.assignment
        self._deploy_again(view)
        for task_id, changelog in zip(self.job.tasks, self.changelogs, strict=True):
            active = None if assignment is None else assignment.tasks[task_id].active
            found = view.statuses.get(active or "")
            task = None if found is None else found.task(task_id)
            if task is not None and task.error_kind == "TopicBlockedError" and self.hosts[str(active)].alive:
                for pid in list(self.broker.log(changelog, led=False).open):
                    self.kernel.passed("a person aborts what hangs")
                    self.broker.abort_hanging(changelog, pid)

    def ends_in_a_reset(self, view: ControlView) -> bool:
        """Whether a task names half of a transaction that cannot be undone, in a changelog that a leader has cut.

        A person resets the application then: nothing more can be expected of this one.
        """
        errors = {
            task.task: task.error or ""
            for status in view.statuses.values()
            for task in status.tasks
            if task.error_kind == "TopicMismatchError"
        }
        return any(
            "no commit record follows" in errors.get(task_id, "") and changelog in self.judge.cut_changelogs
            for task_id, changelog in zip(self.job.tasks, self.changelogs, strict=True)
        )

    def _deploy_again(self, view: ControlView) -> None:
        """Correct what an instance holds a task for, the job or a topic's policy, and start it again."""
        for host in self.hosts.values():
            status = view.statuses.get(host.name)
            for task in () if status is None or status.incarnation != host.incarnation else status.tasks:
                if task.state is TaskState.FAILED and task.error_kind in _CORRECTED and host.alive:
                    if isinstance(self.oracle, Oracle):
                        self._ledger.bad.clear()
                    if task.error_kind == "InputLostError":
                        self._accept_loss()
                    self.kernel.passed(f"a person deploys again: {task.error_kind}")
                    host.kill()
                    host.start()
                    break

    # -- what the control topics say -----------------------------------------------------------------------------

    def view(self) -> ControlView:
        """All of both topics, as their newest records are."""
        view = ControlView(APPLICATION)
        for topic in (assignment_topic(APPLICATION), status_topic(APPLICATION)):
            for record in self._committed(topic):
                apply_record(view, record.key or b"", record.value, record.timestamp_ms)
        return view

    def _committed(self, topic: str) -> Iterator[Any]:
        newest = {}
        log = self.broker.topics[topic].partitions[0]
        for record in log.records:
            if record.offset < log.stable and record.marker is None and record.state == "committed":
                newest[record.key] = record
        return iter(newest.values())

    def last_status(self, instance: str) -> InstanceStatus | None:
        """Its newest status; None where it sent none."""
        return next(self._statuses(instance), None)

    def _statuses(self, instance: str, within_s: float = 0.0) -> Iterator[InstanceStatus]:
        """Its statuses, the newest first, back to the first that is older than that."""
        key, view = f"instance/{instance}".encode(), ControlView(APPLICATION)
        begin_ms = int((EPOCH_S + self.kernel.now - within_s) * 1000)
        for record in reversed(self.broker.topics[status_topic(APPLICATION)].partitions[0].records):
            if record.key == key and record.value is not None:
                view.statuses.clear()
                apply_record(view, record.key, record.value, record.timestamp_ms)
                yield view.statuses[instance]
                if record.timestamp_ms < begin_ms:
                    return

    def assignment_from(self, value: bytes) -> Assignment:
        view = ControlView(APPLICATION)
        apply_record(view, b"assignment", value, 0)
        assert view.assignment is not None, view.unreadable
        return view.assignment

    def newest_assignment(self) -> Assignment | None:
        found = [r for r in self._committed(assignment_topic(APPLICATION)) if r.key == b"assignment"]
        return self.assignment_from(found[0].value) if found and found[0].value else None

    def is_warm(self, instance: str, task_id: TaskId, for_s: int = 0) -> bool:
        """Whether a copy that a failover counts on is warm, and has been for so long, on an instance that lives.

        So long, because who decides has read what it decides from a moment ago; and it has sent a heartbeat in
        each of them, because one that was silent is given up.
        """
        host = self.hosts.get(instance)
        if host is None or not host.alive or host.driver is None or host.driver.paused_until > self.kernel.now:
            return False
        statuses = list(self._statuses(instance, within_s=for_s))[: None if for_s else 1]
        return len(statuses) >= max(1, for_s) and all(self._says_warm(host, status, task_id) for status in statuses)

    @staticmethod
    def _says_warm(host: Host, status: InstanceStatus, task_id: TaskId) -> bool:
        if status.state is not InstanceState.RUNNING or status.incarnation != host.incarnation:
            return False
        copy = status.task(task_id)
        if copy is None or copy.error is not None or status.paused:
            return False
        return copy.ready if copy.role is Role.STANDBY else copy.state is TaskState.RUNNING

    def all_warm(self, view: ControlView) -> bool:
        """Whether each task runs, and each standby that there should be is warm."""
        return self.unsettled(view) is None

    def unsettled(self, view: ControlView) -> str | None:
        """What is not as it should be by the control topics; None where nothing is."""
        assignment = view.assignment
        if assignment is None:
            return "nothing is assigned"
        wanted = min(self.standbys, len([h for h in self.hosts.values() if h.wanted]) - 1)
        for task_id, task in assignment.tasks.items():
            status = None if task.active is None else view.statuses.get(task.active)
            found = None if status is None else status.task(task_id)
            if found is None or found.state is not TaskState.RUNNING or found.generation != task.active_since:
                return f"task {task_id} does not run on {task.active}: {_said(found)}"
            if len(task.standbys) < wanted:
                return f"task {task_id} has the standbys {task.standbys} of {wanted}"
            for name in task.standbys:
                status = view.statuses.get(name)
                copy = None if status is None else status.task(task_id)
                if copy is None or copy.state is not TaskState.FOLLOWING or not copy.ready:
                    return f"task {task_id} is not warm on {name}: {_said(copy)}"
        return None


def _said(task: Any) -> str:
    return "nothing is said" if task is None else f"{task.state.name} in {task.generation}, {task.error}"
