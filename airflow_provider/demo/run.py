"""The demo from its start to its verdict."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import KafkaException

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.report import FailoverReport
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.demo import flights_job
from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.flights import Truth, compute_truth, flights_file, read_flights, records
from airflow_provider.demo.judge import Table, decode_aircraft, decode_airport_hour, judge
from airflow_provider.demo.publisher import Publisher
from airflow_provider.demo.results import Timeline, aircraft_of, airport_hour_of, read_outputs, read_state
from airflow_provider.demo.screen import (
    Narrator,
    Screen,
    next_steps,
    page_address,
    positions,
    processed,
    result_rows,
    result_title,
)
from airflow_provider.demo.stage import DemoFolder, Stage, dag_file
from airflow_provider.jars.jar_sets import find_java, kafka_broker_jars, spark_kafka_jars
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic, commits_topic, repartition_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.streaming.driver.watches.source_ends import SourceEnds

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class DemoSettings:
    """What a demo does.

    Args:
        kill_at: the drill that kills an instance begins when this part of the flights is published; above 0, below 1.
        spark_conf: of both instances. Two Java machines share two cores with a broker and an Airflow, for two minutes:
            so one compiler that is quick to be ready, one thread to collect garbage, and no pages.
    """

    folder: Path = Path(".demo")
    keep: bool = False
    kill_at: float = 1 / 3
    victim: str = "i1"
    publish_s: float = 110.0
    flights: int | None = None
    limit_s: float = 600.0
    spark_master: str = "local[1]"
    spark_conf: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType(
            {
                "spark.ui.enabled": "false",
                "spark.log.level": "WARN",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.memory": "512m",
                "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            }
        )
    )

    def __post_init__(self) -> None:
        """Refuse values that no demo could be run with."""
        if not 0 < self.kill_at < 1:
            raise DemoError(
                f"Found --kill-at {self.kill_at:g}, expected a part of the flights above 0 and below 1: 0.4 kills when "
                "40 % of them are published."
            )
        if self.publish_s <= 0:
            raise DemoError(f"Found --seconds {self.publish_s:g}, expected more than 0.")
        if self.flights is not None and self.flights < 1:
            raise DemoError(f"Found --flights {self.flights}, expected 1 or more.")

    @staticmethod
    def random_kill(seed: int) -> tuple[float, str]:
        """Return a moment between 20 % and 70 % of the flights and an instance, the same for the same seed."""
        chance = random.Random(seed)
        return chance.uniform(0.2, 0.7), chance.choice(["i1", "i2"])


APPLICATION: Final = flights_job.job.application_id
SOURCE: Final = flights_job.flights.topic
AIRCRAFT: Final = "aircraft"
AIRPORTS: Final = "airports"
ON_THE_WAY: Final = repartition_topic(APPLICATION, AIRPORTS)
READERS: Final = (0, 1)
"""The stages that read the flights: aircraft, and the one that sends flights to their airports."""
AIRPORTS_STAGE: Final = 2
INSTANCES: Final = ("i1", "i2")
PARTITIONS: Final = 6
DEPLOY: Final = f"{APPLICATION}_deploy"
FAILOVER: Final = f"{APPLICATION}_failover"
REPAIR: Final = f"{APPLICATION}_repair"
DRILL: Final = f"{APPLICATION}_drill_crash"

_POLL_S: Final = 0.2
_LOOK_S: Final = 1.0


class Backlog:
    """The records of an internal topic; a context manager."""

    def __init__(self, connection: KafkaConnection, topic: str, stage: int) -> None:
        self._ends, self._stage = SourceEnds(connection, topic), stage

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def is_empty(self, view: ControlView) -> bool:
        """Whether all that lies there now is processed, by a view that was read before; not before it is known."""
        offsets = positions(view, self._stage)
        try:
            ends = self._ends.look(offsets)
        except (KafkaException, TimeoutError):
            return False
        return all(ends[partition].lag_records(offset) == 0 for partition, offset in offsets.items())


class Demo:
    """One demo."""

    def __init__(self, settings: DemoSettings, screen: Screen) -> None:
        self._settings, self._screen, self._narrator = settings, screen, Narrator(screen, READERS)
        self._folder = DemoFolder(settings.folder.absolute())
        self._deadline = time.monotonic() + settings.limit_s

    def run(self) -> bool:
        """Run it, and take down what it started; returns whether everything came out right."""
        say = self._screen.say
        find_java()
        for of, jar_set in (("Kafka's broker", kafka_broker_jars), ("Spark's Kafka connector", spark_kafka_jars)):
            say(f"Jars of {of}: from the cache, or from Maven Central the first time (about half a minute)")
            jar_set()
        flights = flights_file()
        with self._folder.held():
            self._folder.clear()
            stage = Stage(self._folder, self._dag_file(), self._settings.spark_master, self._settings.keep)
            kept = False
            try:
                right = self._show(stage, flights)
                kept = self._settings.keep
            except DemoError:
                kept = self._settings.keep
                if kept:
                    say(f"All is left up for a look, logs in {self._folder.root}; 'make down' ends it.")
                raise
            finally:
                if not kept:
                    say("Stopping everything")
                    stage.stop()
                    self._screen.clear()
            if kept:
                address, servers = stage.airflow.home.address, stage.broker.bootstrap_servers
                for line in next_steps(address, servers, APPLICATION, DRILL):
                    say(line)
        return right

    def _show(self, stage: Stage, path: Path) -> bool:
        say = self._screen.say
        say(f"Starting Kafka and Airflow (about 20 s); logs are in {self._folder.root}")
        with ThreadPoolExecutor(1) as pool:
            prepared = pool.submit(self._prepare, path)
            # A hang is not to use up all of the time that a person grants.
            stage.start(timeout_s=self._settings.limit_s / 4)
            say(f"Kafka serves {stage.broker.bootstrap_servers}; waiting for Airflow and its DAGs")
            TopicAdmin(stage.connection).ensure([_topic(SOURCE), _topic(AIRCRAFT)])
            dags = [DEPLOY, FAILOVER, REPAIR, DRILL]
            stage.airflow.wait_until_ready(dags, timeout_s=self._settings.limit_s / 4)
            say(f"Airflow serves {page_address(stage.airflow.home.address, APPLICATION)}")
            truth, published = prepared.result()
        self._deploy(stage)
        # After the fault, whenever the drill comes to it, there has to be something to process.
        hold_at = (1 + self._settings.kill_at) / 2
        publisher = Publisher(stage.connection, SOURCE, published, self._settings.publish_s, hold_at)
        publisher.start()
        say(f"Publishing {publisher.total:,} flights into topic {SOURCE!r} over {self._settings.publish_s:.0f} s")
        try:
            with ControlReader(stage.connection, APPLICATION) as reader:
                reader.read_to_end()
                run_id, fault = self._until_killed(stage, reader, publisher)
                report = self._until_whole(stage, reader, publisher, fault)
            self._await_run(stage, DRILL, run_id)
            say(f"DAG {DRILL} passed: the next owners went on at the last commits, and all is whole again")
        finally:
            publisher.stop()
        return self._judge(stage, truth, fault, report)

    def _prepare(self, path: Path) -> tuple[Truth, list[tuple[bytes | None, bytes]]]:
        flights = read_flights(path, self._settings.flights)
        return compute_truth(flights), list(records(flights))

    def _dag_file(self) -> str:
        return dag_file(
            application_id=APPLICATION,
            job=Path(flights_job.__file__).resolve(),
            instances=INSTANCES,
            state_dir=self._folder.state,
            run_dir=self._folder.run,
            conf=self._settings.spark_conf,
        )

    def _deploy(self, stage: Stage) -> None:
        self._screen.say(f"DAG {DEPLOY} starts instances {' and '.join(INSTANCES)} (about a minute)")
        client = stage.airflow.client
        run_id = f"demo-{now_ms()}"
        # Who grants more time because the machine is busy grants it to the instances' start, too.
        client.trigger(DEPLOY, run_id, {"start_timeout_s": max(int(Timeouts.start_s), int(self._settings.limit_s / 3))})
        self._await_run(stage, DEPLOY, run_id)
        with ControlReader(stage.connection, APPLICATION) as reader:
            assignment = reader.read_to_end().assignment
        if assignment is None:
            raise DemoError(f"DAG {DEPLOY} succeeded, but nothing is assigned.", self._folder.logs / "scheduler.log")
        for name in INSTANCES:
            active, standby = assignment.active_on(name), assignment.standby_on(name)
            self._screen.say(f"  {name} is active for tasks {_names(active)} and standby for {_names(standby)}")

    def _await_run(self, stage: Stage, dag_id: str, run_id: str) -> None:
        while (state := self._state_of_run(stage, dag_id, run_id)) != "success":
            tasks = stage.airflow.client.tasks(dag_id, run_id)
            now = Counter(f"{t['task_id']} {t['state']}" for t in tasks if t["state"] not in (None, "success"))
            counted = (f"{what} ({count})" if count > 1 else what for what, count in now.items())
            self._screen.show(f"DAG {dag_id}: {', '.join(counted) or state}")
            self._check(stage, f"DAG {dag_id}")
            time.sleep(0.5)

    def _state_of_run(self, stage: Stage, dag_id: str, run_id: str) -> str:
        """The state of a run that has not failed."""
        client = stage.airflow.client
        state = client.run_state(dag_id, run_id)
        if state == "failed":
            tasks = client.tasks(dag_id, run_id)
            failed = next((t["task_id"] for t in tasks if t["state"] == "failed"), "?")
            raise DemoError(f"Task {failed!r} of DAG {dag_id} failed.", self._folder.task_log(dag_id, failed))
        return state

    def _until_killed(self, stage: Stage, reader: ControlReader, publisher: Publisher) -> tuple[str, InjectedFault]:
        """Let it work for a while, then have a drill kill one whole instance; the drill's run, and its fault."""
        while publisher.published < self._settings.kill_at * publisher.total:
            reader.poll(_POLL_S)
            self._narrator.progress(reader.view, publisher)
            self._check(stage, "publishing", publisher)
        victim, run_id, looked_at = self._settings.victim, f"demo-{now_ms()}", time.monotonic()
        self._screen.say(f"DAG {DRILL} begins at {self._settings.kill_at:.0%} of the flights")
        stage.airflow.client.trigger(DRILL, run_id, {"instance": victim})
        while not reader.view.faults:
            reader.poll(_POLL_S)
            self._narrator.progress(reader.view, publisher)
            self._check(stage, f"DAG {DRILL}", publisher)
            if time.monotonic() - looked_at > _LOOK_S:
                looked_at = time.monotonic()
                self._state_of_run(stage, DRILL, run_id)
        (fault,) = reader.view.faults.values()
        publisher.release()
        self._screen.say(f"kill -9 of instance {victim} by the drill, active for tasks {_names(fault.tasks)}")
        return run_id, fault

    def _until_whole(
        self, stage: Stage, reader: ControlReader, publisher: Publisher, fault: InjectedFault
    ) -> FailoverReport:
        """Follow the failover until every task has a warm standby again and every flight is processed."""
        ended = False
        with Backlog(stage.connection, ON_THE_WAY, AIRPORTS_STAGE) as backlog:
            while True:
                reader.poll(_POLL_S)
                report = self._narrator.failover(reader.view, fault.instance, fault.incarnation, fault.injected_at_ms)
                self._narrator.progress(reader.view, publisher)
                self._check(stage, "the failover and the last flights", publisher)
                if publisher.done and not ended:
                    ended = True
                    self._screen.say("All flights are published")
                if not ended or report is None or report.resolved_at_ms is None:
                    continue
                if processed(reader.view, READERS) >= publisher.total and backlog.is_empty(reader.view):
                    return report

    def _judge(self, stage: Stage, truth: Truth, fault: InjectedFault, report: FailoverReport) -> bool:
        self._screen.show("Reading the changelog and the output, comparing with pandas")
        cluster = stage.connection
        aircraft, of_aircraft = read_state(cluster, changelog_topic(APPLICATION, AIRCRAFT), SOURCE, decode_aircraft)
        _, on_the_way = read_state(cluster, commits_topic(APPLICATION, READERS[1]), SOURCE, decode_aircraft)
        airports, of_airports = read_state(
            cluster, changelog_topic(APPLICATION, AIRPORTS), ON_THE_WAY, decode_airport_hour
        )
        outputs, times = read_outputs(cluster, AIRCRAFT, aircraft_of)
        airport_outputs, _ = read_outputs(cluster, AIRPORTS, airport_hour_of)
        commits = (of_aircraft, on_the_way, of_airports)
        verdict = judge(truth, Table(aircraft, outputs), Table(airports, airport_outputs), commits)
        timeline = Timeline.of(fault.injected_at_ms, fault.tasks, report, times)
        rows = result_rows(timeline, verdict, truth.flights, outputs.records + airport_outputs.records)
        self._screen.result(result_title(verdict.right), verdict.right, rows, verdict.lines())
        return verdict.right

    def _check(self, stage: Stage, waiting_for: str, publisher: Publisher | None = None) -> None:
        """Return when all is as it should be and time is left."""
        stage.airflow.check()
        if publisher is not None:
            _ = publisher.done
        if not stage.broker.is_running:
            raise DemoError("The broker ended.", stage.broker.log_file)
        if time.monotonic() > self._deadline:
            raise DemoError(
                f"{self._settings.limit_s:.0f} s are over, and {waiting_for} did not end. A busy machine may need more "
                "time: 'make demo LIMIT=1200' gives it 1200 s.",
                self._folder.newest_log(),
            )


def _topic(name: str) -> TopicSpec:
    # The broker's clock: the sink's timestamps are when output was stored.
    config = {"message.timestamp.type": "LogAppendTime"} if name == AIRCRAFT else {}
    return TopicSpec(name=name, partitions=PARTITIONS, replication_factor=1, config=config, required=frozenset())


def _names(tasks: Sequence[TaskId]) -> str:
    return ", ".join(map(str, tasks)) or "none"
