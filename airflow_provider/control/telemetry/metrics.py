"""The table of all metrics, and their values in what instances report and the control topics hold.

All that names a metric is made from `METRICS`: what is pushed, the exposition, docs/metrics.md, and the test of the
board and of the alerts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.records.incident import Watcher
from airflow_provider.control.records.status import InstanceStatus, Role, TaskState, TaskStatus
from airflow_provider.control.topics.liveness import Liveness, Timeouts, liveness
from airflow_provider.control.topics.view import ControlView

PREFIX: Final = "stateful_streams"


class Kind(Enum):
    """How the values of a metric follow each other."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """It only grows, but begins at 0 again with another owner or process."""


class Level(Enum):
    """What a metric is of; its tags are those of the levels up to its own."""

    APPLICATION = "application"
    INSTANCE = "instance"
    TASK = "task"

    @property
    def tags(self) -> tuple[str, ...]:
        """Names of the tags of all metrics of the level."""
        return _TAGS[: {"application": 1, "instance": 2, "task": 4}[self.value]]


_TAGS: Final = ("application", "instance", "task", "role")
_UNIT_SUFFIX: Final = {"s": "_seconds", "ms": "_milliseconds", "ns": "_nanoseconds", "By": "_bytes"}

Values = float | Mapping[str, float] | None
"""None for no value now; by value of the metric's own tag where it has one."""


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        name: in the form of Kafka, such as ``process-rate``.
        unit: as UCUM and OpenTelemetry write it; in braces what is counted.
        meaning: a sentence for the pages.
        values: of an `InstanceFigures`, a `TaskFigures` or an `ApplicationFigures`, by the level.
        tag: its own, beside those of the level; empty for none.
        kafka: whether Kafka Streams has it under this name, with this meaning.
    """

    level: Level
    name: str
    unit: str
    kind: Kind
    meaning: str
    values: Callable[[Any], Values]
    tag: str = ""
    kafka: bool = False

    @property
    def tags(self) -> tuple[str, ...]:
        """The names of its tags."""
        return (*self.level.tags, self.tag) if self.tag else self.level.tags

    @property
    def otel_name(self) -> str:
        """For OpenTelemetry: dots, as KIP-714 maps Kafka's names."""
        return f"{PREFIX}.{self.level.value}.{self.name.replace('-', '.')}"

    @property
    def prometheus_name(self) -> str:
        """As OpenTelemetry's rules make it of `otel_name`, so that either way ends in the same series."""
        name, unit = self.otel_name.replace(".", "_"), _UNIT_SUFFIX.get(self.unit, "")
        stem = name.removesuffix("_total") if self.kind is Kind.COUNTER else name
        return stem + (unit if not stem.endswith(unit) else "") + ("_total" if self.kind is Kind.COUNTER else "")


@dataclass(frozen=True)
class Sample:
    """One value of a metric.

    Args:
        tags: values of the metric's tags, in their order.
    """

    metric: Metric
    tags: tuple[str, ...]
    value: float


def by_metric(samples: Iterable[Sample]) -> list[list[Sample]]:
    """The samples of each metric."""
    ordered = sorted(samples, key=lambda sample: sample.metric.otel_name)
    return [list(group) for _, group in itertools.groupby(ordered, lambda sample: sample.metric)]


@dataclass(frozen=True)
class InstanceFigures:
    """What a heartbeat says.

    Args:
        store_bytes: by task, what its store takes on disk; without those of which that is not known.
    """

    status: InstanceStatus
    store_bytes: Mapping[TaskId, int] = field(default_factory=dict)

    def count(self, role: Role, *states: TaskState) -> int:
        """How many tasks it has in a role and one of some states."""
        return sum(task.role is role and task.state in states for task in self.status.tasks)

    def samples(self) -> Iterator[Sample]:
        """Of the instance and of its tasks."""
        instance = (self.status.application_id, self.status.instance)
        yield from _samples(Level.INSTANCE, instance, self)
        for task in self.status.tasks:
            tags = (*instance, str(task.task), task.role.value)
            yield from _samples(Level.TASK, tags, TaskFigures(task, self.store_bytes.get(task.task)))


@dataclass(frozen=True)
class TaskFigures:
    """What a heartbeat says of one task."""

    status: TaskStatus
    store_bytes: int | None = None


@dataclass(frozen=True)
class ApplicationFigures:
    """What the control topics hold.

    Args:
        silent_for_s: by instance, for how long no heartbeat came while somebody listened.
        watcher: what the watcher says; None where that is not known.
    """

    view: ControlView
    silent_for_s: Mapping[str, float]
    timeouts: Timeouts
    watcher: Watcher | None = None

    def samples(self) -> Iterator[Sample]:
        """Of the application alone."""
        return _samples(Level.APPLICATION, (self.view.application_id,), self)

    @cached_property
    def alive(self) -> dict[str, InstanceStatus]:
        """The instances that live, by name, sorted."""
        return {
            name: status
            for name, status in sorted(self.view.statuses.items())
            if liveness(status, self.silent_for_s.get(name, 0.0), self.timeouts) is Liveness.ALIVE
        }

    @property
    def lost(self) -> int:
        """How many instances have tasks and do not live."""
        named = self.view.assignment.instances if self.view.assignment else ()
        return len(set(named) - self.alive.keys())

    @property
    def standing_still(self) -> int | None:
        """How many tasks no living instance processes; None before the first assignment."""
        return self._tasks(lambda active, _: active is None or active.state is not TaskState.RUNNING)

    @property
    def unprotected(self) -> int | None:
        """How many tasks no other living instance could take over warm; None before the first assignment."""
        return self._tasks(lambda _, standbys: not any(copy.ready for copy in standbys))

    def _tasks(self, found: Callable[[TaskStatus | None, list[TaskStatus]], bool]) -> int | None:
        if self.view.assignment is None:
            return None
        alive = self.alive

        def copy(name: str | None, task: TaskId) -> TaskStatus | None:
            return alive[name].task(task) if name in alive else None

        return sum(
            found(
                copy(given.active, task),
                [standby for name in given.standbys if (standby := copy(name, task)) is not None],
            )
            for task, given in self.view.assignment.tasks.items()
        )

    @property
    def last_rto_s(self) -> float | None:
        """Of the newest failover that ended and was measured, among those that the control topics still hold."""
        measured = [
            (record.decided_at_ms, total_ms)
            for record in self.view.incidents.values()
            if (total_ms := failover_record(record, record.recovery).rto.total_ms) is not None
        ]
        return max(measured)[1] / 1000 if measured else None


def _samples(level: Level, tags: tuple[str, ...], figures: object) -> Iterator[Sample]:
    for metric in METRICS:
        if metric.level is level:
            values = metric.values(figures)
            if isinstance(values, Mapping):
                yield from (Sample(metric, (*tags, own), float(value)) for own, value in values.items())
            elif values is not None:
                yield Sample(metric, tags, float(values))


def _active(value: Callable[[TaskStatus], Values]) -> Callable[[TaskFigures], Values]:
    return lambda figures: value(figures.status) if figures.status.role is Role.ACTIVE else None


def _task(value: Callable[[TaskStatus], Values]) -> Callable[[TaskFigures], Values]:
    return lambda figures: value(figures.status)


def _instance(value: Callable[[InstanceStatus], Values]) -> Callable[[InstanceFigures], Values]:
    return lambda figures: value(figures.status)


def _states(now: Enum) -> Mapping[str, float]:
    # Each of them: a series that only ends is still there for a while, for those who ask.
    return {state.value: float(state is now) for state in type(now)}


_G, _C = Kind.GAUGE, Kind.COUNTER
_A, _I, _T = Level.APPLICATION, Level.INSTANCE, Level.TASK

# fmt: off
METRICS: Final[tuple[Metric, ...]] = (
    Metric(_A, "alive-instances", "{instance}", _G, "instances that live", lambda f: len(f.alive)),
    Metric(_A, "lost-instances", "{instance}", _G,
           "instances that tasks are assigned to, and that have ended or are silent", lambda f: f.lost),
    Metric(_A, "standing-tasks", "{task}", _G, "tasks that no living instance processes now",
           lambda f: f.standing_still),
    Metric(_A, "unprotected-tasks", "{task}", _G, "tasks without a warm standby on a living instance",
           lambda f: f.unprotected),
    Metric(_A, "unresolved-incidents", "{incident}", _G,
           "failures that were answered, and after which not every task has its standbys again",
           lambda f: len(f.view.unresolved_incidents)),
    Metric(_A, "unanswered-incidents", "{incident}", _G,
           "failures that were reported again and that no failover has taken up; told by the watcher alone",
           lambda f: None if f.watcher is None else len(f.watcher.unanswered)),
    Metric(_A, "last-failover-rto", "s", _G,
           "from the failure to the first commit of the last task's next owner, of the newest failover that is kept",
           lambda f: f.last_rto_s),
    Metric(_A, "assignment-generation", "{generation}", _G, "generation of the newest assignment",
           lambda f: f.view.assignment.generation if f.view.assignment else None),

    Metric(_I, "state", "{state}", _G, "1 for the state that the instance is in, 0 for the others",
           _instance(lambda s: _states(s.state)), tag="state"),
    Metric(_I, "assignment-generation", "{generation}", _G, "generation of the assignment that it carries out",
           _instance(lambda s: s.generation)),
    Metric(_I, "active-restoring-tasks", "{task}", _G, "active tasks that are being taken over or restored",
           lambda f: f.count(Role.ACTIVE, TaskState.OWNING, TaskState.RESTORING), kafka=True),
    Metric(_I, "active-running-tasks", "{task}", _G, "active tasks that process",
           lambda f: f.count(Role.ACTIVE, TaskState.RUNNING)),
    Metric(_I, "paused-tasks", "{task}", _G, "active tasks that process nothing because the instance is paused",
           lambda f: f.count(Role.ACTIVE, TaskState.RUNNING) if f.status.paused else 0),
    Metric(_I, "standby-updating-tasks", "{task}", _G, "standbys that follow their changelogs",
           lambda f: f.count(Role.STANDBY, TaskState.FOLLOWING), kafka=True),
    Metric(_I, "failed-tasks", "{task}", _G, "copies that stopped with an error",
           lambda f: sum(f.count(role, TaskState.FAILED) for role in Role)),
    Metric(_I, "disk-used", "By", _G, "what the stores take", _instance(lambda s: s.disk.used_bytes)),
    Metric(_I, "disk-free", "By", _G, "what the disk of the stores has left", _instance(lambda s: s.disk.free_bytes)),

    Metric(_T, "state", "{state}", _G, "1 for the state that the task is in there, 0 for the others",
           _task(lambda s: _states(s.state)), tag="state"),
    Metric(_T, "process-rate", "{record/s}", _G, "input records a second, over five seconds",
           _active(lambda s: s.records_per_s), kafka=True),
    Metric(_T, "process-total", "{record}", _C, "input records that were processed",
           _active(lambda s: s.processed_records), kafka=True),
    Metric(_T, "process-latency-avg", "ns", _G,
           "mean time of processing a record, without the commit, over five seconds; none while there is no input",
           _active(lambda s: s.work.process_latency_ns), kafka=True),
    Metric(_T, "commit-rate", "{commit/s}", _G, "transactions that were committed a second, over five seconds",
           _active(lambda s: s.work.commits_per_s), kafka=True),
    Metric(_T, "commit-total", "{commit}", _C, "transactions that were committed", _active(lambda s: s.work.commits),
           kafka=True),
    Metric(_T, "commit-latency-avg", "ms", _G, "mean time of a commit, over five seconds; none while there is none",
           _active(lambda s: s.work.commit_latency_ms), kafka=True),
    Metric(_T, "dropped-records-total", "{record}", _C,
           "input records that were left out since the application began, because they came too `late` or could not be "
           "processed (`failed`)",
           _active(lambda s: {"late": s.late_records, "failed": s.failed_records}), tag="reason", kafka=True),
    Metric(_T, "lost-records-total", "{record}", _C, "input offsets that were deleted before they were read",
           _active(lambda s: s.lost_records)),
    Metric(_T, "records-lag", "{record}", _G, "records of the source that wait",
           _active(lambda s: s.source.lag_records), kafka=True),
    Metric(_T, "stalled-time", "s", _G, "for how long it has got no further although its source holds more",
           _active(lambda s: s.source.stalled_s)),
    Metric(_T, "watermark", "ms", _G, "event time up to which all is over, since 1970",
           _active(lambda s: s.time.watermark_ms)),
    Metric(_T, "record-lateness-avg", "ms", _G,
           "by how much records were behind the stream time, over five seconds: their mean; none while there is no "
           "input, and without event time",
           _active(lambda s: s.work.lateness_avg_ms), kafka=True),
    Metric(_T, "record-lateness-max", "ms", _G, "of the record that was furthest behind, over five seconds",
           _active(lambda s: s.work.lateness_max_ms), kafka=True),
    Metric(_T, "timers", "{timer}", _G, "timers of a `process()` that are set and have not fired",
           _active(lambda s: {kind: count.number for kind, count in s.timers.items()}), tag="kind"),
    Metric(_T, "restore-rate", "{record/s}", _G, "changelog records a second of the restore that is under way",
           _task(lambda s: s.restore.records_per_s if s.restore.phase else 0.0), kafka=True),
    Metric(_T, "restore-total", "{record}", _C,
           "changelog records that the restore under way, or the last one, applied",
           _task(lambda s: s.restore.records), kafka=True),
    Metric(_T, "restore-remaining-records-total", "{record}", _G, "changelog records that are left to restore",
           _task(lambda s: s.lag_records if s.restore.phase else 0), kafka=True),
    Metric(_T, "restore-time", "s", _G, "what that restore took, or takes so far", _task(lambda s: s.restore.took_s)),
    Metric(_T, "changelog-records-lag", "{record}", _G, "changelog offsets that the store is behind",
           _task(lambda s: s.lag_records)),
    Metric(_T, "changelog-time-lag", "s", _G, "for how long it has been behind", _task(lambda s: s.lag_s)),
    Metric(_T, "changelog-end", "{record}", _G, "offset after the changelog's last record", _task(lambda s: s.end)),
    Metric(_T, "store-size", "By", _G, "what its store takes on disk", lambda f: f.store_bytes),
    Metric(_T, "store-memory", "By", _G, "what its store takes of the worker's memory, where it is kept there",
           _task(lambda s: s.memory_bytes)),
    Metric(_T, "store-divergences-total", "{comparison}", _C,
           "comparisons that found a standby's store to differ from its active's",
           _task(lambda s: s.certificate.divergences if s.role is Role.STANDBY else None)),
)
# fmt: on
