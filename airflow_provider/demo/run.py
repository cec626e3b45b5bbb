"""The demo from its start to its verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.control.reader import ControlReader
from airflow_provider.control.report import FailoverReport
from airflow_provider.demo import flights_job
from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.flights import flights_file, read_flights, records
from airflow_provider.demo.folder import DemoFolder
from airflow_provider.demo.instance_processes import kill_instance
from airflow_provider.demo.judge import Verdict, judge
from airflow_provider.demo.narrator import Narrator, processed
from airflow_provider.demo.publisher import Publisher
from airflow_provider.demo.results import read_outputs, read_state
from airflow_provider.demo.screen import Screen, table
from airflow_provider.demo.settings import DemoSettings
from airflow_provider.demo.stage import Stage
from airflow_provider.demo.timeline import Timeline
from airflow_provider.demo.truth import Truth, compute_truth
from airflow_provider.embedded.jars import kafka_broker_jars, spark_kafka_jars
from airflow_provider.embedded.java import find_java
from airflow_provider.names import changelog_topic
from airflow_provider.topics import TopicAdmin, TopicSpec

__all__ = ["Demo"]

APPLICATION: Final = flights_job.job.application_id
SOURCE: Final = str(flights_job.job.source_topic)
SINK: Final = str(flights_job.job.sink_topic)
CHANGELOG: Final = changelog_topic(APPLICATION, flights_job.job.store)
INSTANCES: Final = ("i1", "i2")
PARTITIONS: Final = 6
DEPLOY: Final = "stateful_streams_deploy"
FAILOVER: Final = "stateful_streams_failover"

_POLL_S: Final = 0.2


@dataclass(frozen=True)
class _Kill:
    """The fault: when, whose, and which tasks it struck."""

    at_ms: int
    instance: str
    incarnation: int
    tasks: tuple[int, ...]


class Demo:
    """One demo.

    Args:
        settings: what it does.
        screen: what a person sees.
    """

    def __init__(self, settings: DemoSettings, screen: Screen) -> None:
        self._settings, self._screen, self._narrator = settings, screen, Narrator(screen)
        self._folder = DemoFolder(settings.folder.absolute())
        self._deadline = time.monotonic() + settings.limit_s

    def run(self) -> bool:
        """Run it, and take down what it started.

        Returns:
            Whether everything came out right.

        Raises:
            StatefulStreamsError: it could not be run to its end; says why.
        """
        say = self._screen.say
        find_java()
        say("Resolving jars: from the cache, or over the network the first time")
        kafka_broker_jars()
        spark_kafka_jars()
        flights = flights_file()
        with self._folder.held():
            self._folder.clear()
            stage = Stage(self._folder, APPLICATION, self._settings.spark_master, self._settings.keep)
            kept = False
            try:
                right = self._show(stage, flights)
                kept = self._settings.keep
            finally:
                if not kept:
                    say("Stopping everything")
                    stage.stop()
                    self._screen.settle()
            if kept:
                say(f"All is left up. Airflow: {stage.airflow.home.address}  Kafka: {stage.broker.bootstrap_servers}")
                say("'make down' ends it.")
        return right

    def _show(self, stage: Stage, path: Path) -> bool:
        say = self._screen.say
        say(f"Starting Kafka and Airflow; logs are in {self._folder.root}")
        with ThreadPoolExecutor(1) as pool:
            prepared = pool.submit(self._prepare, path)
            stage.start()
            say(f"Kafka serves {stage.broker.bootstrap_servers}")
            TopicAdmin(stage.connection).ensure([_topic(SOURCE), _topic(SINK)])
            stage.airflow.wait_until_ready([DEPLOY, FAILOVER])
            say(f"Airflow serves {stage.airflow.home.address}")
            truth, published = prepared.result()
        self._deploy(stage)
        publisher = Publisher(stage.connection, SOURCE, published, self._settings.publish_s)
        publisher.start()
        say(f"Publishing {publisher.total:,} flights into topic {SOURCE!r} over {self._settings.publish_s:.0f} s")
        try:
            with ControlReader(stage.connection, APPLICATION) as reader:
                reader.read_to_end()
                kill = self._until_killed(stage, reader, publisher)
                told = self._until_whole(stage, reader, publisher, kill)
        finally:
            publisher.stop()
        return self._judge(stage, truth, kill, told)

    def _prepare(self, path: Path) -> tuple[Truth, list[tuple[bytes | None, bytes]]]:
        flights = read_flights(path, self._settings.flights)
        return compute_truth(flights), list(records(flights))

    def _deploy(self, stage: Stage) -> None:
        self._screen.say(f"DAG {DEPLOY}: instances {' and '.join(INSTANCES)}")
        client = stage.airflow.client
        run_id = f"demo-{time.time_ns() // 1_000_000}"
        client.trigger(
            DEPLOY,
            run_id,
            {
                "application_id": APPLICATION,
                "application": str(Path(flights_job.__file__).resolve()),
                "source_topics": [SOURCE],
                "instances": list(INSTANCES),
                "state_dir": str(self._folder.state),
                "run_dir": str(self._folder.run),
                "conf": dict(self._settings.spark_conf),
            },
        )
        self._await_run(stage, DEPLOY, run_id)
        with ControlReader(stage.connection, APPLICATION) as reader:
            assignment = reader.read_to_end().assignment
        if assignment is None:
            raise DemoError(f"DAG {DEPLOY} succeeded, but nothing is assigned.", self._folder.logs / "scheduler.log")
        for name in INSTANCES:
            active, standby = assignment.active_on(name), assignment.standby_on(name)
            self._screen.say(f"  {name} is active for tasks {_numbers(active)} and standby for {_numbers(standby)}")

    def _await_run(self, stage: Stage, dag_id: str, run_id: str) -> None:
        client = stage.airflow.client
        while (state := client.run_state(dag_id, run_id)) != "success":
            tasks = client.tasks(dag_id, run_id)
            if state == "failed":
                failed = next((t["task_id"] for t in tasks if t["state"] == "failed"), "?")
                raise DemoError(f"Task {failed!r} of DAG {dag_id} failed.", self._task_log(dag_id, failed))
            now = [f"{t['task_id']} {t['state']}" for t in tasks if t["state"] not in (None, "success")]
            self._screen.show(f"DAG {dag_id}: {', '.join(now) or state}")
            self._check(stage, f"DAG {dag_id}")
            time.sleep(0.5)

    def _until_killed(self, stage: Stage, reader: ControlReader, publisher: Publisher) -> _Kill:
        """Let it work for a while, then kill one whole instance."""
        while publisher.published < self._settings.kill_at * publisher.total:
            reader.poll(_POLL_S)
            self._narrator.progress(reader.view, publisher)
            self._check(stage, "publishing", publisher)
        view, victim = reader.view, self._settings.victim
        status, assignment = view.statuses[victim], view.assignment
        tasks = assignment.active_on(victim) if assignment else ()
        at_ms, processes = kill_instance(status.pid)
        self._screen.say(
            f"kill -9 of instance {victim} at {self._settings.kill_at:.0%} of the flights: {processes} processes, "
            f"active for tasks {_numbers(tasks)}"
        )
        return _Kill(at_ms, victim, status.incarnation, tasks)

    def _until_whole(self, stage: Stage, reader: ControlReader, publisher: Publisher, kill: _Kill) -> FailoverReport:
        """Follow the failover until redundancy is back and every flight is processed."""
        ended = False
        while True:
            reader.poll(_POLL_S)
            told = self._narrator.failover(reader.view, kill.instance, kill.incarnation, kill.at_ms)
            self._narrator.progress(reader.view, publisher)
            self._check(stage, "the failover and the last flights", publisher)
            if publisher.done and not ended:
                ended = True
                self._screen.say("All flights are published")
            if ended and told and told.resolved_at_ms and processed(reader.view) >= publisher.total:
                return told

    def _judge(self, stage: Stage, truth: Truth, kill: _Kill, told: FailoverReport) -> bool:
        self._screen.show("Reading the changelog and the output, comparing with pandas")
        state, commits = read_state(stage.connection, CHANGELOG, SOURCE)
        outputs, times = read_outputs(stage.connection, SINK)
        verdict = judge(truth, state, outputs, commits)
        timeline = Timeline.of(kill.at_ms, kill.tasks, told, times)
        self._screen.print(["", *_result(timeline, verdict, outputs.records, truth), *verdict.lines(), ""])
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
                f"{self._settings.limit_s:.0f} s are over, and {waiting_for} did not end.", self._newest_log()
            )

    def _task_log(self, dag_id: str, task_id: str) -> Path | None:
        logs = (self._folder.airflow / "logs" / f"dag_id={dag_id}").glob(f"run_id=*/task_id={task_id}/**/*.log")
        return max(logs, key=lambda path: path.stat().st_mtime, default=None)

    def _newest_log(self) -> Path | None:
        """Of the instances' and the DAGs' tasks."""
        logs = [*self._folder.run.glob("*/instance.log"), *self._folder.airflow.glob("logs/dag_id=*/**/*.log")]
        return max(logs, key=lambda path: path.stat().st_mtime, default=None)


def _topic(name: str) -> TopicSpec:
    # The broker's clock: the sink's stamps tell when output was there.
    config = {"message.timestamp.type": "LogAppendTime"} if name == SINK else {}
    return TopicSpec(name, PARTITIONS, 1, config, frozenset())


def _numbers(tasks: Sequence[int]) -> str:
    return ", ".join(map(str, tasks)) or "none"


def _result(timeline: Timeline, verdict: Verdict, outputs: int, truth: Truth) -> list[str]:
    rows = [(name, "-" if s is None else f"{s:+.2f} s") for name, s in timeline.steps()]
    rto = timeline.rto_s
    rows += [
        ("RTO: kill to output of all its tasks", "-" if rto is None else f"{rto:.2f} s"),
        ("records replayed", "-" if timeline.replayed is None else f"{timeline.replayed:,}"),
        ("flights", f"{truth.flights:,}"),
        ("outputs", f"{outputs:,}"),
        ("aircraft compared with pandas", f"{verdict.compared:,}"),
        ("different", f"{len(verdict.different):,}"),
        ("duplicated", f"{len(verdict.repeated):,}"),
        ("miscounted", f"{len(verdict.miscounted):,}"),
    ]
    right = "Right: state and last output of every aircraft are what pandas computes, and nothing came out twice."
    return table(right if verdict.right else "WRONG: what came out is not what pandas computes.", rows)
