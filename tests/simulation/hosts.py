"""Instances: the product's controller, slots, heartbeat and workers in simulated processes, and who starts them."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.simulation import product, spark
from tests.simulation.columns import Door
from tests.simulation.job import APPLICATION
from tests.simulation.kernel import EPOCH_S, Kernel, Process
from tests.simulation.product import (
    CONNECTION,
    ControlReader,
    ControlWriter,
    Heartbeat,
    Instance,
    InstanceController,
    InstanceSettings,
    InstanceState,
    InstanceStatus,
    ProgressWatch,
    SlotDriver,
    SourceEnd,
    StatefulStreamsError,
)


class Host:
    """One instance's host: its disk, its clock, and the process that runs there.

    Args:
        name: of the instance.
        clock_s: how far its clock is ahead.
        cores: how many slots it has.
    """

    def __init__(self, world: Any, name: str, clock_s: float, cores: int) -> None:
        self.world, self.name, self.clock_s, self.cores = world, name, clock_s, cores
        self.root = f"hosts/{name}"
        self.driver: Process | None = None
        self.workers: spark.Workers | None = None
        self.incarnation = 0
        self.wanted = True
        self.reports_its_end = True
        self.zombie_s = 0.0
        self.stop: Callable[[], None] | None = None
        Path(self.root).mkdir(parents=True, exist_ok=True)

    @property
    def kernel(self) -> Kernel:
        kernel: Kernel = self.world.kernel
        return kernel

    @property
    def alive(self) -> bool:
        return self.driver is not None and not self.driver.dead

    def processes(self) -> list[Process]:
        """Those that run: the driver and its workers."""
        found = [] if self.driver is None else [self.driver]
        found += [] if self.workers is None else self.workers.processes.values()
        return [process for process in found if not process.dead]

    # -- its life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process of the instance, unless one runs."""
        if self.alive or not self.wanted:
            return
        kernel = self.kernel
        self.incarnation = max(self.incarnation + 1, int((EPOCH_S + kernel.now) * 1000))
        former = self._former()
        number = kernel.seen[f"start {self.name}"] = kernel.seen[f"start {self.name}"] + 1
        process = self.driver = Process(f"{self.name}/{number}", self.clock_s)
        workers = self.workers = spark.Workers(process)
        process.on_death.append(lambda: self._driver_died(process, workers))
        kernel.note("start", process)
        kernel.spawn(process, "main", lambda: self._main(process, workers, former))

    def _former(self) -> Any:
        last: InstanceStatus | None = self.world.last_status(self.name)
        if last is None or last.state is InstanceState.STOPPED or last.incarnation >= self.incarnation:
            return None
        assignment = self.world.newest_assignment()
        return product.FormerProcess(
            incarnation=last.incarnation,
            state=InstanceState.ENDED,
            heard_at_ms=0,
            generation=assignment.generation if assignment else 0,
            how="killed",
        )

    def kill(self) -> None:
        """The driver is killed; its workers end with it, or a moment after."""
        if self.driver is not None:
            self.kernel.kill(self.driver)

    def _driver_died(self, process: Process, workers: spark.Workers) -> None:
        kernel = self.kernel
        zombie_s, self.zombie_s = self.zombie_s, 0.0
        if zombie_s:
            kernel.after(zombie_s, workers.end)
        else:
            workers.end()
        incarnation = self.incarnation
        if self.reports_its_end and self.stop is not None:
            kernel.after(kernel.random.uniform(0.1, 1.0), lambda: self._report_end(incarnation))

    def _report_end(self, incarnation: int) -> None:
        """The launcher tells how its process ended."""
        if self.incarnation != incarnation or self.kernel.closing:
            return
        last: InstanceStatus | None = self.world.last_status(self.name)
        launcher = Process(f"{self.name}/launcher", self.clock_s)
        launcher.cut_in_until = launcher.cut_out_until = max(
            (p.cut_out_until for p in ([self.driver] if self.driver else [])), default=0.0
        )
        base = last if last is not None and last.incarnation == incarnation else None
        status = base or InstanceStatus(
            application_id=APPLICATION, instance=self.name, incarnation=incarnation, state=InstanceState.ENDED
        )
        if status.state in (InstanceState.STOPPED,):
            return
        ended = dataclasses.replace(
            status,
            state=InstanceState.ENDED,
            process=dataclasses.replace(status.process, exit_code=-9),
            tasks=(),
        )

        def tell() -> None:
            with ControlWriter(CONNECTION, APPLICATION) as writer:
                writer.write(ended, 60.0)

        def safely() -> None:
            try:
                tell()
            except StatefulStreamsError:
                self.kernel.note("launcher", "not told")

        self.kernel.spawn(launcher, "launcher", safely)

    # -- what runs there -----------------------------------------------------------------------------------------

    def _main(self, process: Process, workers: spark.Workers, former: Any) -> None:
        kernel = self.kernel
        settings = InstanceSettings(
            application_id=APPLICATION,
            instance=self.name,
            incarnation=self.incarnation,
            state_dir=f"{self.root}/state",
            run_dir=f"{self.root}/run-{process.name.rpartition('/')[2]}",
            connection=CONNECTION,
            former=former,
            call_timeout_s=60.0,
            round_interval_s=self.world.round_interval_s,
        )
        Path(settings.run_dir).mkdir(parents=True, exist_ok=True)
        heartbeat = Heartbeat(settings, ControlWriter(CONNECTION, APPLICATION))
        heartbeat.start()
        reported = True
        try:
            kernel.sleep(kernel.random.uniform(0.05, 1.5 * self.world.size.start_s))
            self._work(settings, heartbeat, workers)
            heartbeat.end(InstanceState.STOPPED, None)
        except StatefulStreamsError as error:
            kernel.note("ended", type(error).__name__)
            kernel.passed(f"instance ended: {type(error).__name__}")
            try:
                heartbeat.end(InstanceState.ENDED, error)
            except StatefulStreamsError:
                reported = False
        if reported:
            self.stop = None
        kernel.kill(process)

    def _work(self, settings: InstanceSettings, heartbeat: Heartbeat, workers: spark.Workers) -> None:
        instance = Instance(None, settings, heartbeat)  # type: ignore[arg-type]  # what it follows needs no job
        stop = instance._stop  # noqa: SLF001 - as a command or SIGTERM does
        self.stop = stop.set
        job = self.world.job
        session: Any = spark.Session(workers, self.cores)
        with ControlReader(CONNECTION, APPLICATION, statuses=False, follows=True) as control:
            control.read_to_end()
            slots: list[Any] = []
            progress = ProgressWatch(
                {stage.number: spark.Ends(stage.source.topic, SourceEnd) for stage in job.stages},
                lambda: None,
                lambda slot: slots[slot].batch_since,
                lambda slot, task: slots[slot].first_call(task),
                lambda slot: slots[slot].silent_for_s,
                settings.call_timeout_s,
            )
            count = max(1, min(self.cores, len(job.tasks)))
            slots += [
                SlotDriver(
                    session, job, settings, number, heartbeat.report, spark.earliest, spark.latest,
                    lambda: progress.idle, lambda: progress.fell_back,
                    sources=self.world.sources_of_workers, open_door=Door,
                )
                for number in range(count)
            ]  # fmt: skip
            controller = InstanceController(settings, slots, heartbeat, stop, at_start=control.view)
            try:
                for slot in slots:
                    slot.start()
                progress.start()
                heartbeat.set_seen(progress.seen)
                heartbeat.set_state(InstanceState.RUNNING)
                checks = [heartbeat.check, *(slot.check for slot in slots)]
                instance._follow(control, controller, checks, _NoCleanup())  # type: ignore[arg-type]  # noqa: SLF001
                heartbeat.set_state(InstanceState.STOPPING)
            finally:
                if not self.kernel.closing:
                    heartbeat.clear_plans()
                    heartbeat.set_seen(None)
                    progress.stop()
                    for slot in slots:
                        slot.stop(10.0)

    # -- its disk ------------------------------------------------------------------------------------------------

    def lose_unsynced(self) -> None:
        """The host lost power: what was not synced may be gone."""
        for database in self.world.disk.of_host(self.root):
            lost = database.lose(self.kernel.random.randint(0, len(database.log)))
            database.flush()
            if lost:
                self.kernel.passed("store lost its newest writes")

    def lose_folder(self) -> None:
        """The state folder is gone."""
        shutil.rmtree(f"{self.root}/state", ignore_errors=True)


class _NoCleanup:
    def tick(self, *_: object) -> None:
        """Nothing is unassigned for days here."""
