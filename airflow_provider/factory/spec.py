"""What a team says about an application, once: its instances, what it promises, and what is rehearsed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from airflow_provider.control.drills.blackout import parse_blackouts
from airflow_provider.control.outlook.slo import Slo
from airflow_provider.control.records.deployment import Placement, parse_placement
from airflow_provider.control.records.drill_fault import DrillKind
from airflow_provider.errors import ConfigurationError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.names import check_name
from airflow_provider.launch.run_folder import RUN_DIR
from airflow_provider.page import LOOKUPS_BY, OPERATORS

__all__ = ["DRILL_KINDS", "Callbacks", "Drill", "Instance", "Slo", "Stream", "check_schedule"]

DRILL_KINDS: Final = tuple(kind.value for kind in DrillKind)
"""What can be rehearsed."""

_PRESETS: Final = frozenset(
    {"@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"}
)

_MONITOR_MINUTES: Final = 10
_SPREAD: Final = object()
"""As a monitor's schedule: every so many minutes, in one that its application's id chooses."""

_OWN_DAG_ARGS: Final = frozenset(
    {
        "catchup",
        "dag_id",
        "default_args",
        "description",
        "doc_md",
        "is_paused_upon_creation",
        "max_active_runs",
        "on_failure_callback",
        "params",
        "schedule",
        "tags",
    }
)
"""What the factory decides for each DAG by itself."""


@dataclass(frozen=True)
class Instance:
    """One instance of an application: a driver with its workers and stores on one host.

    Args:
        name: the same over restarts and replacements.
        queue: of the Airflow workers of its host. Its stores lie there, so its replacement is started there too; None
            for the default queue.
        state_dir: folder for its stores, of this instance alone; None for one of its name in the application's.
        conf: Spark settings, besides the application's.
        env_vars: environment, besides the application's.
        placement: ``"worker"``: the deploy task launches it on the worker of its queue. ``"supervised"``: systemd,
            Kubernetes or another supervisor starts ``python -m airflow_provider run --supervised`` under this name, and
            Airflow waits for that wherever it would launch; folders and settings are the supervisor's, not this file's.
        python: the job's own interpreter on the workers of its queue, besides the application's.

    Raises:
        ConfigurationError: the name cannot be one, the queue is empty, or there is no such placement; or what is the
            supervisor's to say was said here.
    """

    name: str
    _: KW_ONLY
    queue: str | None = None
    state_dir: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    placement: str = Placement.WORKER.value
    python: str | None = None

    def __post_init__(self) -> None:
        """Check the name, the queue and the placement."""
        check_name("instance", self.name)
        if parse_placement(self.placement) is Placement.SUPERVISED and (self.conf or self.env_vars or self.python):
            raise ConfigurationError(
                f"Instance {self.name!r} is supervised, and has conf=, env_vars= or python= here, which nothing would "
                "read: give them to `stateful-streams run --supervised` on its host."
            )
        if self.queue == "":
            raise ConfigurationError(
                f"Instance {self.name!r} has queue='', which no worker listens to: name the queue of its host's "
                "worker, or leave it out for the default queue."
            )

    @property
    def supervised(self) -> bool:
        """Whether another than Airflow starts it."""
        return parse_placement(self.placement) is Placement.SUPERVISED


@dataclass(frozen=True)
class Drill:
    """A failure that is rehearsed.

    Args:
        kind: one of `DRILL_KINDS`; `airflow_provider.control.records.drill_fault` says what each does.
        schedule: as of every DAG; None for one that is started by hand only.
        instance: the one that fails; None takes the one with the most active tasks.
        blackout: times in which none begins, such as ``["mon-fri 08:00-18:00 Europe/Vienna", "sat,sun"]``, or one text
            (`control.drills.blackout.Blackout.parse`): a run then is skipped.
        shared_sink: whether other programs write into the job's sink or dead-letter topic, too; then outputs are not
            counted.

    Raises:
        ConfigurationError: there is no such kind, or the schedule or a time cannot be read.
    """

    kind: str = "crash"
    _: KW_ONLY
    schedule: Any = None
    instance: str | None = None
    blackout: Sequence[str] | str = ()
    shared_sink: bool = False

    def __post_init__(self) -> None:
        """Check the kind, the schedule and the times."""
        parse_blackouts(self.blackout)
        if self.kind not in DRILL_KINDS:
            raise ConfigurationError(f"Drill has kind {self.kind!r}: use {', '.join(map(repr, DRILL_KINDS))}.")
        check_schedule(f"Drill {self.kind!r} has the schedule", self.schedule)


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """What is called, such as Airflow's notifiers; each one or a list, as of every DAG's callbacks.

    Args:
        on_failover: a failover answered incidents.
        on_repair_failed: an instance could not be replaced, or a task did not get its standbys: a person is needed.
        on_slo_missed: a drill or the monitor found a promise broken.
        on_hold: with `Stream.ask_on_hold`, a person is asked about held tasks; one or a list of callables that take
            the context, such as notifiers.
    """

    on_failover: Any = None
    on_repair_failed: Any = None
    on_slo_missed: Any = None
    on_hold: Any = None


@dataclass(frozen=True, kw_only=True)
class Stream:
    """An application and how its DAGs are made; the arguments of `stream_dags`.

    Nothing secret in `conf`, `env_vars` and `application_args`: they are kept in Kafka.

    Args:
        application_id: the id that the job file names.
        job: path of the PySpark file on the workers.
        instances: on which it may run.
        source_topics: what a job of one stage reads, with `output_topics`, `stores` and, those of windows among them,
            `windowed_stores`; none where the job file says which topics it needs.
        num_standby_replicas: standbys of each task.
        replication_factor: of the topics that are created; None for the cluster's.
        state_dir: folder on the workers' local disk, in which each instance has its own for its stores.
        run_dir: folder for logs and scratch, in which each launch has its own.
        python: the job's own interpreter on the workers; None for Airflow's.
        instance_kafka_conn_id: that of the instances; None for the same.
        instance_timeout_s: silence of an instance that counts as its end, for the watcher; None for 5.
        stall_timeout_s: how long a task may commit nothing although its source has records; None for 120.
        slo: what is promised, for monitor and drills.
        drills: what is rehearsed: a DAG for each.
        monitor_schedule: every ten minutes where nothing is said, each application in its own minute; None for by
            hand.
        monitor_pool: of the monitor's tasks.
        callbacks: what is called when something happens.
        failover_pool: of the failover's one task.
        ask_on_hold: whether repair asks a person, in Airflow's UI, what to do with tasks that failed for good.
        lookups: who may look up on the page what stores hold, which are values of records: ``"operators"``, who may
            start a run of each DAG; ``"viewers"``, who may read them; ``"nobody"``.
        default_args: of each DAG.
        tags: of each DAG, besides its application's and its kind.
        dag_args: further arguments of each DAG, such as ``access_control``.

    Raises:
        ConfigurationError: an argument is not what it has to be.
    """

    application_id: str
    job: str
    instances: Sequence[Instance]
    source_topics: Sequence[str] = ()
    output_topics: Sequence[str] = ()
    stores: Sequence[str] = ("state",)
    windowed_stores: Sequence[str] = ()
    num_standby_replicas: int = 1
    replication_factor: int | None = None
    state_dir: str = "/var/lib/stateful-streams"
    run_dir: str = RUN_DIR
    conf: Mapping[str, str] = field(default_factory=dict)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    application_args: Sequence[str] = ()
    kafka_conn_id: str = KafkaStreamsHook.default_conn_name
    instance_kafka_conn_id: str | None = None
    spark_conn_id: str = "spark_default"
    instance_timeout_s: float | None = None
    stall_timeout_s: float | None = None
    slo: Slo = field(default_factory=Slo)
    drills: Sequence[Drill] = ()
    monitor_schedule: Any = _SPREAD
    monitor_pool: str | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    failover_pool: str | None = None
    ask_on_hold: bool = False
    lookups: str = OPERATORS
    default_args: Mapping[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ()
    dag_args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what would only be found when a DAG runs."""
        check_name("application id", self.application_id)
        lists = (("source_topics", self.source_topics), ("instances", self.instances), ("stores", self.stores))
        for what, values in lists:
            if isinstance(values, str) or (not values and what != "source_topics"):
                raise ConfigurationError(f"{self.application_id!r} has {what}={values!r}: give a list of one or more.")
        of_kinds: list[tuple[str, type, Sequence[object]]] = [
            ("instances", Instance, self.instances),
            ("drills", Drill, self.drills),
        ]
        for what, kind, parts in of_kinds:
            if wrong := [part for part in parts if not isinstance(part, kind)]:
                raise ConfigurationError(
                    f"{self.application_id!r} has {wrong[0]!r} among its {what}: give {kind.__name__}(...)."
                )
        if both := sorted({*self.source_topics} & {*self.output_topics}):
            raise ConfigurationError(
                f"{self.application_id!r} has {both[0]!r} among its source_topics and among its output_topics: a job "
                "that reads what it writes has no end."
            )
        if own := sorted(_OWN_DAG_ARGS & self.dag_args.keys()):
            raise ConfigurationError(
                f"{self.application_id!r} has dag_args={{{own[0]!r}: ...}}, which each of its DAGs has from here, the "
                "failover what starts it: use default_args=, tags=, callbacks=, monitor_schedule= or a drill's "
                "schedule=, or change one DAG of the result."
            )
        if self.lookups not in LOOKUPS_BY:
            raise ConfigurationError(
                f"{self.application_id!r} has lookups={self.lookups!r}: give one of {', '.join(map(repr, LOOKUPS_BY))}."
            )
        check_schedule(f"{self.application_id!r} has the monitor_schedule", self.monitored_at)
        if not self.source_topics and self.output_topics:
            raise ConfigurationError(
                f"{self.application_id!r} has output_topics={list(self.output_topics)!r} and no source_topics: name "
                "both, or neither, and the job file says which topics it needs."
            )
        if unknown := [name for name in self.windowed_stores if name not in self.stores]:
            raise ConfigurationError(
                f"{self.application_id!r} has the windowed_stores {unknown!r}, which are not among its stores: name "
                "them there too."
            )
        names = self.instance_names
        if len(set(names)) != len(names):
            raise ConfigurationError(f"{self.application_id!r} names an instance twice: {', '.join(names)}.")
        launched = [instance for instance in self.instances if not instance.supervised]
        folders = [(instance.queue, os.path.normpath(self.state_dir_of(instance))) for instance in launched]
        for instance, (queue, folder) in zip(launched, folders, strict=True):
            if folders.count((queue, folder)) > 1:
                raise ConfigurationError(
                    f"{self.application_id!r} gives {instance.name!r} the state_dir {folder!r}, which another instance "
                    f"of the queue {queue!r} has too: a standby there would be its active's own store. Give each a "
                    "folder of its own, or leave state_dir out."
                )
        if not 0 <= self.num_standby_replicas < len(names):
            raise ConfigurationError(
                f"{self.application_id!r} has num_standby_replicas={self.num_standby_replicas!r} and {len(names)} "
                "instance(s): a standby needs an instance besides that of its active."
            )
        kinds = [drill.kind for drill in self.drills]
        if len(set(kinds)) != len(kinds):
            raise ConfigurationError(f"{self.application_id!r} has two drills of one kind: {', '.join(kinds)}.")
        for drill in self.drills:
            if drill.instance is not None and drill.instance not in names:
                raise ConfigurationError(
                    f"{self.application_id!r} drills instance {drill.instance!r}, which it does not have: name one of "
                    f"{', '.join(names)}."
                )

    def state_dir_of(self, instance: Instance) -> str:
        """The folder of an instance's stores."""
        return instance.state_dir or f"{self.state_dir}/{instance.name}"

    @property
    def monitored_at(self) -> Any:
        """The monitor's schedule. By default every ten minutes, in its own minute as far as there are some.

        All in the same minute they would take the slots of the executor that a failover needs.
        """
        if self.monitor_schedule is not _SPREAD:
            return self.monitor_schedule
        return f"{zlib.crc32(self.application_id.encode()) % _MONITOR_MINUTES}-59/{_MONITOR_MINUTES} * * * *"

    @property
    def instance_names(self) -> list[str]:
        """In their order."""
        return [instance.name for instance in self.instances]


def check_schedule(what: str, schedule: Any) -> None:
    """Refuse a text that is no schedule: Airflow would refuse the whole file for it, without saying whose it is.

    Args:
        what: has it, to begin the message with.
        schedule: as of every DAG; only a text is looked at.

    Raises:
        ConfigurationError: it is neither a preset nor a cron expression.
    """
    if not isinstance(schedule, str) or schedule in _PRESETS:
        return
    # Airflow's own, which it loads when a DAG has such a schedule.
    from croniter import croniter  # type: ignore[import-untyped]

    if not croniter.is_valid(schedule):
        raise ConfigurationError(
            f"{what} {schedule!r}, which is no schedule: give a cron expression of five fields, such as '0 4 * * 1' "
            f"(Mondays at 4:00 UTC), one of {', '.join(sorted(_PRESETS))}, or None to start it by hand."
        )
