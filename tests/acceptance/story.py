"""The run: what the pages promise of one call an application, step by step."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider.control.history.record import HistoryKind, HistoryOutcome
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.settings import BrokerSettings
from tests.acceptance.airflow_client import seconds_of
from tests.acceptance.airflow_parts import QUEUES, AirflowParts
from tests.acceptance.application import Application
from tests.acceptance.dag_file import DagFile
from tests.acceptance.drill_plan import KINDS, schedules
from tests.acceptance.errors import AcceptanceError
from tests.acceptance.installation import build_wheel, install
from tests.acceptance.report import Report

__all__ = ["Settings", "Story"]

_PARTITIONS: Final = 4
_HEAL_S: Final = 240.0
_DRILLS_MARGIN_S: Final = 600.0
_POLL_S: Final = 2.0


@dataclass(frozen=True)
class Settings:
    """What a run is asked for.

    Args:
        folder: for everything; it must not exist.
        rate: of each application's load, records a second.
        drill_minutes: between the beginnings of two drills.
        seed: of the loads.
        until: the name of the last act; None runs all.
        python: of an environment where the wheel is installed already; None makes one.
    """

    folder: Path
    rate: int = 60
    drill_minutes: int = 3
    seed: int = 1
    until: str | None = None
    python: Path | None = None


class Story:
    """One run.

    Args:
        settings: what it does.
        report: what a person reads.
    """

    def __init__(self, settings: Settings, report: Report) -> None:
        self._settings, self._report = settings, report
        self._problems: list[str] = []
        self._python = Path()
        self._applications: list[Application] = []

    def run(self) -> bool:
        """Run it, and end whatever was started.

        Returns:
            Whether everything that is promised came true.
        """
        with ExitStack() as steps:
            self._install()
            self._start(steps)
            acts: dict[str, Callable[[], None]] = {
                "deploy": self._deploy,
                "failover": self._fail_over,
                "upgrade": self._upgrade,
                "scale": self._scale,
                "drills": self._drill,
            }
            for name, act in acts.items():
                self._attempt(act)
                if name == self._settings.until:
                    break
            self._attempt(self._end)
            self._attempt(self._tell_history)
        self._report.step(f"Verdict: {'WRONG' if self._problems else 'everything that is promised came true'}")
        self._report.saw(*self._problems)
        return not self._problems

    @property
    def _ledger(self) -> Application:
        return self._applications[0]

    def _attempt(self, act: Callable[[], None]) -> None:
        """What fails is told; what comes after it is tried all the same, because it may tell more."""
        try:
            act()
        except (AcceptanceError, StatefulStreamsError) as error:
            self._problem(f"{type(error).__name__}: {error}")

    def _problem(self, text: str) -> None:
        self._problems.append(text)
        self._report.saw(f"PROBLEM: {text}")

    def _install(self) -> None:
        folder = self._settings.folder
        self._report.step("Build the wheel, install it in an environment of its own")
        if self._settings.python is not None:
            self._python = self._settings.python
            self._report.saw(f"left out: {self._python} has it already")
            return
        began = time.monotonic()
        wheel = build_wheel(folder / "wheel")
        self._python = install(wheel, folder / "env")
        shown = subprocess.run(
            [str(self._python.with_name("stateful-streams")), "--help"], capture_output=True, text=True, check=False
        )
        if shown.returncode != 0:
            raise AcceptanceError(f"'stateful-streams --help' ended with {shown.returncode}: {shown.stderr[-2000:]}")
        self._report.saw(f"{wheel.name} and its dependencies, in {time.monotonic() - began:.0f} s")

    def _start(self, steps: ExitStack) -> None:
        folder = self._settings.folder
        self._report.step("Start a broker, and Airflow with two workers on two queues")
        java_options = ("-XX:TieredStopAtLevel=1",)
        settings = BrokerSettings.on_free_ports(folder / "kafka", die_with_parent=True, java_options=java_options)
        self._broker = EmbeddedBroker(settings)
        steps.callback(self._broker.stop)
        self._broker.start(240.0)
        self._cluster = KafkaConnection(self._broker.bootstrap_servers)
        self._airflow = AirflowParts(folder, self._python, self._broker.bootstrap_servers)
        steps.callback(self._end_instances)
        steps.callback(self._airflow.stop)
        self._airflow.start()
        self._report.saw(
            f"Kafka serves {self._broker.bootstrap_servers}, Airflow {self._airflow.address}; "
            f"worker-1 takes {QUEUES[0]}, worker-2 {QUEUES[1]}"
        )

    def _new(self, application_id: str, instances: list[str], partitions: int) -> Application:
        names = [f"{application_id}-{name}" for name in ("input", "dead-letters")]
        # What a team has before it comes: the source. The deploy DAG makes the rest.
        TopicAdmin(self._cluster).ensure([TopicSpec(name=names[0], partitions=partitions)])
        application = Application(
            DagFile(application_id, self._settings.folder, instances),
            self._airflow,
            self._cluster,
            partitions=partitions,
            rate=self._settings.rate,
            seed=self._settings.seed,
        )
        self._applications.append(application)
        return application

    def _deploy(self) -> None:
        self._report.step("One DAG file; deploy with two instances on two queues")
        ledger = self._new("ledger", ["a", "b"], _PARTITIONS)
        ledger.write_dags()
        self._report.lines(f"      | {line}" for line in ledger.file.text.splitlines())
        took_s = ledger.run("deploy")
        ledger.load.start()
        ledger.wait_for("each instance is active for two tasks", lambda: _counts(ledger) == {"a": 2, "b": 2}, 60.0)
        self._report.saw(f"deploy took {took_s:.0f} s; active: {ledger.actives()}")
        self._report.saw(*self._workers_of(ledger, "deploy", ("deploy_a", "deploy_b")))

    def _workers_of(self, application: Application, dag: str, tasks: tuple[str, ...]) -> list[str]:
        """On which worker a DAG's tasks ran, by Airflow's own account."""
        dag_id = f"{application.id}_{dag}"
        run_id = application.client.runs(dag_id)[-1]["dag_run_id"]
        found = {task["task_id"]: task for task in application.client.tasks(dag_id, run_id)}
        return [f"{name} ran on queue {found[name]['queue']}, host {found[name]['hostname']}" for name in tasks]

    def _fail_over(self) -> None:
        ledger = self._ledger
        self._report.step("Kill an instance under load; failover and repair come by themselves")
        before = ledger.running()
        group = ledger.kill("a")
        self._report.saw(f"SIGKILL to process group {group}, instance a")
        self._wait_for_failover(ledger, before, "a")

    def _wait_for_failover(self, application: Application, before: dict[str, int], instance: str) -> None:
        def repaired() -> bool:
            done = [r for r in application.history(HistoryKind.FAILOVER) if r.instances == (instance,)]
            return (
                bool(done)
                and done[-1].at_ms > before[instance]
                and done[-1].outcome is HistoryOutcome.PASSED
                and application.running().get(instance, 0) > before[instance]
            )

        application.wait_for(f"{instance} is failed over and replaced", repaired, _HEAL_S)
        names = set(application.running())
        application.wait_for("the load is even again", lambda: set(application.actives()) == names, _HEAL_S)
        done = application.history(HistoryKind.FAILOVER)[-1]
        parts = done.rto
        self._report.saw(
            f"{application.id}: RTO {_s(parts.total_ms)} (detected {_s(parts.detected_ms)}, decided "
            f"{_s(parts.decided_ms)}, owned {_s(parts.owned_ms)}, output {_s(parts.first_output_ms)}), "
            f"lost {done.rpo.lost_records}; active: {application.actives()}"
        )

    def _upgrade(self) -> None:
        ledger = self._ledger
        self._report.step("Upgrade under load: a changed environment variable")
        before, records = ledger.running(), ledger.load.records
        ledger.file.version = 2
        ledger.write_dags()
        took_s = ledger.run("upgrade")
        after = ledger.running()
        restarted = [name for name in before if after.get(name, 0) > before[name]]
        versions = {name: d.env_vars.get("VERSION") for name, d in ledger.view().deployments.items()}
        self._report.saw(
            f"upgrade took {took_s:.0f} s, {ledger.load.records - records:,} records came meanwhile; restarted "
            f"{', '.join(restarted)}; VERSION {versions}; active: {ledger.actives()}"
        )
        if set(restarted) != set(before) or set(versions.values()) != {"2"}:
            self._problem("not every instance was restarted with the changed variable")

    def _scale(self) -> None:
        ledger = self._ledger
        self._report.step("Grow to a third instance that takes load, and shrink again")
        ledger.file.instances = ["a", "b", "c"]
        ledger.write_dags()
        took_s = ledger.run("scale", instances=["a", "b", "c"])
        ledger.wait_for("c is active for a task", lambda: "c" in ledger.actives(), _HEAL_S)

        def processed() -> int:
            return sum(task.processed_records for task in ledger.view().statuses["c"].tasks)

        ledger.wait_for("c processes records", lambda: processed() > 0, 60.0)
        self._report.saw(f"grown in {took_s:.0f} s; active: {ledger.actives()}; c processed {processed():,} records")
        took_s = ledger.run("scale", instances=["a", "b"])
        ledger.wait_for("a and b are active alone", lambda: set(ledger.actives()) == {"a", "b"}, _HEAL_S)
        self._report.saw(f"shrunk in {took_s:.0f} s; running {sorted(ledger.running())}; active: {ledger.actives()}")
        if set(ledger.running()) != {"a", "b"}:
            self._problem(f"running after the shrinking: {sorted(ledger.running())}, wanted a and b")
        # What a person does who wants it gone for good.
        ledger.file.instances = ["a", "b"]

    def _drill(self) -> None:
        ledger = self._ledger
        self._report.step("A second application, from a second DAG file")
        audit = self._new("audit", ["x", "y"], 2)
        audit.write_dags()
        took_s = audit.run("deploy")
        audit.load.start()
        self._report.saw(f"deploy took {took_s:.0f} s; active: {audit.actives()}")

        minutes = self._settings.drill_minutes
        self._report.step(f"Ten drills of all kinds by Airflow's scheduler, one every {minutes} minutes")
        ledger.file.drills = schedules(time.time(), minutes)
        ledger.write_dags()
        self._report.saw(*(f"{kind}: {schedule}" for kind, schedule in ledger.file.drills.items()))
        self._watch_drills(ledger, audit)

    def _watch_drills(self, ledger: Application, audit: Application) -> None:
        disturbances: dict[int, Callable[[], None]] = {
            1: lambda: self._kill_beside(audit),
            3: self._restart_worker,
            5: self._kill_triggerer,
        }
        deadline = time.monotonic() + 60.0 * self._settings.drill_minutes * len(KINDS) + _DRILLS_MARGIN_S
        told: set[str] = set()
        while True:
            self._airflow.check()
            begun = len(ledger.history(HistoryKind.DRILL))
            for number in [n for n in disturbances if n <= begun]:
                disturbances.pop(number)()
            runs = self._drill_runs(ledger)
            for run in runs:
                if run["state"] in ("success", "failed") and run["dag_run_id"] + run["dag_id"] not in told:
                    told.add(run["dag_run_id"] + run["dag_id"])
                    self._tell_drill(ledger, run)
            if len(told) >= len(KINDS):
                break
            if time.monotonic() > deadline:
                raise AcceptanceError(f"{len(told)} of {len(KINDS)} drills had ended in time")
            time.sleep(_POLL_S)
        for number in disturbances:
            self._problem(f"disturbance {number} found no drill to disturb")
        self._judge_drills(ledger, audit)

    def _drill_runs(self, ledger: Application) -> list[dict[str, Any]]:
        runs = [run for kind in ledger.file.drills for run in ledger.client.runs(f"{ledger.id}_drill_{kind}")]
        return sorted((run for run in runs if run["run_type"] == "scheduled"), key=lambda run: str(run["run_after"]))

    def _tell_drill(self, ledger: Application, run: dict[str, Any]) -> None:
        took_s = seconds_of(run)
        tasks = ledger.client.task_lines(run["dag_id"], run["dag_run_id"])
        odd = [line for line in tasks if not line.endswith(" success")]
        self._report.saw(
            f"{run['dag_id']} due {run['run_after'][11:19]}: {run['state']} in {took_s or 0:.0f} s"
            + (f" ({', '.join(odd)})" if odd else "")
        )

    def _judge_drills(self, ledger: Application, audit: Application) -> None:
        runs = self._drill_runs(ledger)
        if failed := [run["dag_id"] for run in runs if run["state"] != "success"]:
            self._problem(f"drills failed: {', '.join(failed)}")
        records = ledger.history(HistoryKind.DRILL)
        passed = [record for record in records if record.outcome is HistoryOutcome.PASSED]
        self._report.saw(f"{len(passed)} of {len(records)} drills on record passed, {len(KINDS)} were due")
        if len(passed) < len(KINDS):
            self._problem(f"{len(passed)} drills passed, {len(KINDS)} were wanted")
        for application in (ledger, audit):
            names = set(application.running())
            application.wait_for("every instance has load", lambda a=application, n=names: set(a.actives()) == n, 120.0)  # type: ignore[misc]

    def _kill_beside(self, audit: Application) -> None:
        before = audit.running()
        audit.kill("x")
        self._report.saw("second application: SIGKILL to instance x, while the first one's drill is under way")
        self._wait_for_failover(audit, before, "x")

    def _restart_worker(self) -> None:
        self._airflow.end_part("worker-1")
        self._airflow.start_part("worker-1")
        self._report.saw("worker-1, which has the failover's queue: SIGTERM, and started again")

    def _kill_triggerer(self) -> None:
        self._airflow.kill_part("triggerer")
        self._airflow.start_part("triggerer")
        self._report.saw("triggerer: SIGKILL, and started again")

    def _end(self) -> None:
        self._report.step("Stop the load and the applications, and judge from the topics and the stores alone")
        deployed = [application for application in self._applications if application.load.records]
        for application in deployed:
            application.load.stop()
            application.wait_until_processed()
            application.run("stop", instances=list(application.file.instances))
        for application in deployed:
            verdict = application.judge()
            self._report.saw(*(f"{application.id}: {line}" for line in verdict.lines()))
            if verdict.right:
                self._report.saw(f"{application.id}: nothing lost, nothing doubled")
            else:
                self._problem(f"{application.id}: {', '.join(verdict.differences)}")

    def _tell_history(self) -> None:
        for application in self._applications:
            self._report.step(f"stateful-streams history {application.id}")
            program = str(self._python.with_name("stateful-streams"))
            servers = self._broker.bootstrap_servers
            shown = subprocess.run(
                [program, "history", application.id, "--bootstrap-servers", servers],
                capture_output=True,
                text=True,
                timeout=120.0,
                check=False,
            )
            self._report.lines((shown.stdout or shown.stderr).splitlines())

    def _end_instances(self) -> None:
        for application in self._applications:
            application.end()


def _counts(application: Application) -> dict[str, int]:
    return {name: len(tasks) for name, tasks in application.actives().items()}


def _s(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.2f} s"
