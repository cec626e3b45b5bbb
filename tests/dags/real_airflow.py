"""A whole Airflow whose parts can be killed, and which soon takes one that was for lost."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from airflow_provider.demo.airflow_service import AirflowHome, AirflowService
from tests.acceptance.airflow_client import UserClient
from tests.waiting import wait_until

__all__ = ["Home", "Service", "end_of_run", "running"]


class Home(AirflowHome):
    """An Airflow that does not wait minutes before it takes a worker for lost, or an answer for late."""

    def _settings(self) -> dict[str, str]:
        return {
            **super()._settings(),
            "scheduler__task_instance_heartbeat_sec": "1",
            "scheduler__task_instance_heartbeat_timeout": "8",
            "scheduler__task_instance_heartbeat_timeout_detection_interval": "2",
            "scheduler__orphaned_tasks_check_interval": "5",
            # Each beat writes the time of the one before it: two of them have to fit into the threshold.
            "scheduler__scheduler_heartbeat_sec": "1",
            # What nobody waits for costs the processor of those who do.
            "scheduler__scheduler_idle_sleep_time": "0.5",
            "scheduler__scheduler_health_check_threshold": "8",
            "scheduler__trigger_timeout_check_interval": "2",
            "triggerer__job_heartbeat_sec": "2",
            "triggerer__triggerer_health_check_threshold": "8",
        }


class Service(AirflowService):
    """Its parts can be killed and started again."""

    def kill(self, name: str) -> None:
        """SIGKILL to a component and everything that it started."""
        (child,) = [child for child in self.children if child.name == name]
        below = psutil.Process(child.leader.pid).children(recursive=True)
        child.leader.signal_group(signal.SIGKILL)
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        child.reap()
        self.children.remove(child)

    def kill_busy_workers(self) -> None:
        """SIGKILL to the workers that run a task, and to the tasks.

        Not to the idle: one that waits holds the lock of the queue, and the LocalExecutor would never get past it.
        """
        (scheduler,) = [child for child in self.children if child.name == "scheduler"]
        workers = psutil.Process(scheduler.leader.pid).children()
        busy = [(worker, tasks) for worker in workers if (tasks := worker.children(recursive=True))]
        assert busy, "no worker runs anything"
        for worker, tasks in busy:
            for process in [worker, *tasks]:
                process.kill()

    def start_again(self, name: str) -> None:
        self._start(name, (name, "--skip-serve-logs"))


@contextlib.contextmanager
def running(home: Home, logs: Path, dags: Sequence[str]) -> Iterator[tuple[Service, UserClient]]:
    """Start it, give it and its user once it has read the DAGs, and end all of it with the block.

    The deadlines are wide: it starts beside whatever else the machine does.
    """
    service = Service(home, logs)
    try:
        service.prepare(300.0)
        service.start()
        service.wait_until_ready(dags, 600.0)
        yield service, UserClient(home.address, patience_s=180.0)
    finally:
        service.stop(10.0)


def end_of_run(client: UserClient, dag_id: str, run_id: str, deadline_s: float) -> str:
    """Wait for it: ``success`` or ``failed``."""

    def ended() -> str:
        state = client.run_state(dag_id, run_id)
        return state if state in ("success", "failed") else ""

    return wait_until(ended, deadline_s, f"run {run_id} of {dag_id} to end", poll_s=0.5)
