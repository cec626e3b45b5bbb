"""A storm of failovers on hosts that cannot keep up, of the ledger, and its end: see ``tests.benchmarks.overload``."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psutil

from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.records.incident import Action, IncidentKind, IncidentRecord
from airflow_provider.operators.assignment import AssignTasksOperator, FailOverOperator
from airflow_provider.operators.repair import ReportFailOverOperator
from airflow_provider.triggers import IncidentTrigger
from tests.integration.airflow.deployed_ledger import Ledger
from tests.integration.airflow.placed_hosts import APPLICATION, OF, START_S, OnWorkers
from tests.integration.airflow.running import caused_by, run
from tests.waiting import wait_until

_STALL_S: Final = 5.0
_STORM_S: Final = 3_600.0


@contextlib.contextmanager
def slowed(hosts: OnWorkers, share: float, *names: str) -> Iterator[None]:
    """The JVM of each instance gets a share of a core."""
    stop = threading.Event()

    def slow(jvm: psutil.Process) -> None:
        begun, before = time.monotonic(), _cpu_s(jvm)
        while not stop.wait(0.02):
            above = _cpu_s(jvm) - before > share * (time.monotonic() - begun)
            (jvm.suspend if above else jvm.resume)()
        jvm.resume()

    with ThreadPoolExecutor(len(names)) as pool:
        slowing = [pool.submit(slow, _jvm(hosts, name)) for name in names]
        try:
            yield
        finally:
            stop.set()
        for one in slowing:
            one.result()


def _jvm(hosts: OnWorkers, name: str) -> psutil.Process:
    (jvm,) = [process for process in hosts.processes(name).find() if process.name() == "java"]
    return jvm


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@contextlib.contextmanager
def answered(ledger: Ledger) -> Iterator[None]:
    """A watcher, and for each incident the failover and the repair, as their DAGs do it."""
    stop, numbers = threading.Event(), itertools.count()

    def answer(payload: dict[str, Any]) -> None:
        for one in run(FailOverOperator(task_id="fail_over", **OF), caused_by(payload, run_id=f"run-{next(numbers)}")):
            run(AssignTasksOperator(task_id="assign", **OF))
            run(ReportFailOverOperator(task_id="report", incident_id=one["incident_id"], **OF))

    async def watch() -> None:
        trigger = IncidentTrigger(APPLICATION, stall_timeout_s=_STALL_S, instance_timeout_s=START_S).run()
        pending = asyncio.ensure_future(anext(trigger))
        while not stop.is_set():
            done, _ = await asyncio.wait([pending], timeout=0.5)
            if done:
                await asyncio.to_thread(answer, pending.result().payload)
                pending = asyncio.ensure_future(anext(trigger))
        pending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pending

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(asyncio.run, watch())
        try:
            yield
        finally:
            stop.set()
        watching.result()


def held(ledger: Ledger) -> list[IncidentRecord]:
    """What no failover follows any more."""
    return [one for one in ledger.view().incidents.values() if any(decision.overloaded for decision in one.plan)]


def moved(ledger: Ledger) -> list[IncidentRecord]:
    """The failovers of tasks that stood still, in order."""
    found = [
        one
        for one in ledger.view().incidents.values()
        if any(decision.action in (Action.PROMOTE, Action.REPLAY) for decision in one.plan)
    ]
    assert {one.incident.kind for one in found} <= {IncidentKind.TASK_STALLED}
    return sorted(found, key=lambda one: one.decided_at_ms)


def rounds(answers: Sequence[IncidentRecord]) -> list[int]:
    """The seconds between failovers; tasks that are moved within half a minute are one."""
    decided = [one.decided_at_ms for one in answers]
    return [round((now - last) / 1000) for last, now in itertools.pairwise(decided) if now - last > 30_000]


def storm(ledger: Ledger, share: float) -> None:
    """The storm, and its end; prints what was found."""
    assert isinstance(ledger.hosts, OnWorkers)
    ledger.deploy("a", "b")
    ledger.start_load()
    before = ledger.generation()
    with answered(ledger), slowed(ledger.hosts, share, "a", "b"):
        wait_until(lambda: held(ledger), _STORM_S, "the storm to end", poll_s=1.0)
        answers, generations = moved(ledger), ledger.generation() - before
        said = [line for line in ApplicationState(ledger.view()).problems if "the host cannot keep up" in line]
        # Nothing more is moved, though the tasks stand still as before.
        time.sleep(6 * _STALL_S)
        later = len(moved(ledger)) - len(answers)
    print(
        f"{1 + len(rounds(answers))} failovers of {len(answers)} tasks, {rounds(answers)} s apart, "
        f"{generations} generations; {later} tasks moved in the {6 * _STALL_S:.0f} s after the last answer"
    )
    print("\n".join(said), flush=True)
    ledger.check("a", "b")
    print("with their cores back: nothing lost, nothing doubled")
