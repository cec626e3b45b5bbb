"""The run: what the pages promise of one call an application, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.errors import StatefulStreamsError
from tests.acceptance.application import Application
from tests.acceptance.drill_round import DrillRound
from tests.acceptance.errors import AcceptanceError
from tests.acceptance.report import Report
from tests.acceptance.stage import Stage

__all__ = ["ACTS", "Settings", "Story"]

ACTS: Final = ("deploy", "failover", "upgrade", "scale", "drills")
"""The acts, in their order."""

_HEAL_S: Final = 240.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is asked for.

    Args:
        folder: for everything.
        rate: of each application's load, records a second.
        drill_minutes: between the beginnings of two drills.
        seed: of the loads.
        acts: those of `ACTS` that are played; all others build on the first.
        python: of an environment where the wheel is installed already; None makes one.
    """

    folder: Path
    rate: int = 40
    drill_minutes: int = 3
    seed: int = 1
    acts: Sequence[str] = ACTS
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

    def run(self) -> bool:
        """Run it, and end whatever was started.

        Returns:
            Whether everything that is promised came true.

        Raises:
            AcceptanceError: nothing could be started.
            StatefulStreamsError: likewise.
        """
        with Stage(self._settings.folder, self._report, self._settings.python) as self._stage:
            acts = (self._deploy, self._fail_over, self._upgrade, self._scale, self._drill)
            for name, act in zip(ACTS, acts, strict=True):
                if name in self._settings.acts:
                    self._attempt(act)
            self._attempt(self._end)
            for application in self._stage.applications:
                self._attempt(lambda a=application: self._tell_history(a))  # type: ignore[misc]
        self._report.step(f"Verdict: {'WRONG' if self._problems else 'everything that is promised came true'}")
        self._report.saw(*self._problems)
        return not self._problems

    @property
    def _ledger(self) -> Application:
        return self._stage.applications[0]

    def _attempt(self, act: Callable[[], None]) -> None:
        """What fails is told; what comes after it is tried all the same, because it may tell more."""
        try:
            act()
        except (AcceptanceError, StatefulStreamsError) as error:
            self._problems.append(f"{type(error).__name__}: {error}")
            self._report.saw(f"PROBLEM: {self._problems[-1]}")

    def _add(self, application_id: str, instances: list[str], partitions: int) -> Application:
        """Deployed, under load."""
        rate, seed = self._settings.rate, self._settings.seed
        application = self._stage.add(application_id, instances, partitions=partitions, rate=rate, seed=seed)
        application.write_dags()
        self._report.lines(f"      | {line}" for line in application.file.text.splitlines())
        took_s = application.run("deploy")
        application.load.start()
        each = dict.fromkeys(instances, partitions // len(instances))
        application.wait_for("the load is even", lambda: _counts(application) == each, 60.0)
        self._report.saw(f"deploy took {took_s:.0f} s; active: {application.actives()}")
        return application

    def _deploy(self) -> None:
        self._report.step("One DAG file; deploy with two instances on two queues")
        ledger = self._add("ledger", ["a", "b"], 4)
        (run,) = ledger.client.runs("ledger_deploy")
        for task in ledger.client.tasks("ledger_deploy", run["dag_run_id"]):
            if task["task_id"] in ("deploy_a", "deploy_b"):
                self._report.saw(f"{task['task_id']} ran on queue {task['queue']}, on {task['hostname']}")

    def _fail_over(self) -> None:
        ledger = self._ledger
        self._report.step("Kill an instance under load; failover and repair come by themselves")
        before = ledger.running()
        self._report.saw(f"SIGKILL to process group {ledger.kill('a')}, instance a")
        self._report.saw(ledger.wait_for_failover("a", before["a"]))

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
            raise AcceptanceError("not every instance was restarted with the changed variable")

    def _scale(self) -> None:
        ledger = self._ledger
        self._report.step("Grow to a third instance that takes load, and shrink again")
        ledger.file.instances = ["a", "b", "c"]
        ledger.write_dags()
        took_s = ledger.run("scale", instances=["a", "b", "c"])

        def processed() -> int:
            return sum(task.processed_records for task in ledger.view().statuses["c"].tasks)

        ledger.wait_for("c is active for a task", lambda: "c" in ledger.actives(), _HEAL_S)
        ledger.wait_for("c processes records", lambda: processed() > 0, 60.0)
        self._report.saw(f"grown in {took_s:.0f} s; active: {ledger.actives()}; c processed {processed():,} records")
        took_s = ledger.run("scale", instances=["a", "b"])
        ledger.wait_for("a and b are active alone", lambda: set(ledger.actives()) == {"a", "b"}, _HEAL_S)
        self._report.saw(f"shrunk in {took_s:.0f} s; running {sorted(ledger.running())}; active: {ledger.actives()}")
        # Gone for good: the next time that the file is written, it names two.
        ledger.file.instances = ["a", "b"]
        if set(ledger.running()) != {"a", "b"}:
            raise AcceptanceError(f"running after the shrinking: {sorted(ledger.running())}, wanted a and b")

    def _drill(self) -> None:
        self._report.step("A second application, from a second DAG file")
        audit = self._add("audit", ["x", "y"], 2)
        minutes = self._settings.drill_minutes
        self._report.step(f"Ten drills of all kinds by Airflow's scheduler, one every {minutes} minutes")
        drills = DrillRound(self._ledger, audit, self._stage.airflow, self._report, minutes=minutes)
        drills.schedule()
        drills.look_on()
        for application in self._stage.applications:
            application.wait_for_load_on_all()

    def _end(self) -> None:
        self._report.step("Stop the load and the applications, and judge from the topics and the stores alone")
        deployed = [application for application in self._stage.applications if application.load.records]
        for application in deployed:
            application.load.stop()
            application.wait_until_processed()
            application.run("operate", action="stop")
        wrong = []
        for application in deployed:
            verdict = application.judge()
            self._report.saw(*(f"{application.id}: {line}" for line in verdict.lines()))
            if verdict.right:
                self._report.saw(f"{application.id}: nothing lost, nothing doubled")
            else:
                wrong.append(f"{application.id}: {', '.join(verdict.differences)}")
        if wrong:
            raise AcceptanceError("; ".join(wrong))

    def _tell_history(self, application: Application) -> None:
        self._report.step(f"stateful-streams history {application.id}")
        self._report.lines(self._stage.history_table(application).splitlines())


def _counts(application: Application) -> dict[str, int]:
    return {name: len(tasks) for name, tasks in application.actives().items()}
