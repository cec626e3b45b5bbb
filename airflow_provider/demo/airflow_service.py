"""Runs the demo's own Airflow: its components, each in a process group of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_provider.demo.airflow_client import AirflowClient
from airflow_provider.demo.airflow_home import AirflowHome
from airflow_provider.demo.errors import DemoError
from airflow_provider.kit.child import Child, end_groups

_COMPONENTS: Final[dict[str, tuple[str, ...]]] = {
    "api-server": ("api-server",),
    # Task logs are read from the folder: their servers would listen beyond loopback.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
_POLL_S: Final = 0.5


class AirflowService:
    """An Airflow that was started here.

    Args:
        home: its settings.
        logs: folder for the components' logs.
        die_with_parent: whether it is killed when this process is gone.
    """

    def __init__(self, home: AirflowHome, logs: Path, die_with_parent: bool = True) -> None:
        self.home, self.children = home, list[Child]()
        self.client = AirflowClient(home.address)
        self._logs, self._die_with_parent = logs, die_with_parent
        self._environment = home.to_environment(os.environ)

    def prepare(self, timeout_s: float) -> None:
        """Make its database.

        Raises:
            DemoError: that failed or took too long.
        """
        migration = self._start("airflow-db", ("db", "migrate"))
        status = migration.wait(timeout_s)
        if status != 0:
            how = f"failed with status {status}" if status is not None else f"took longer than {timeout_s:g} s"
            migration.end(1.0)
            raise DemoError(f"Creating Airflow's database {how}.", migration.log_file)
        migration.end(1.0)
        self.children.remove(migration)

    def start(self) -> None:
        """Start the components; returns at once."""
        for name, arguments in _COMPONENTS.items():
            self._start(name, arguments)

    def check(self) -> None:
        """Return when every component that was started still runs.

        Raises:
            DemoError: one ended.
        """
        for child in self.children:
            if child.exit_status is not None:
                raise DemoError(f"Airflow's {child.name} ended with status {child.exit_status}.", child.log_file)

    def wait_until_ready(self, dags: Sequence[str], timeout_s: float) -> None:
        """Return when every component is healthy and the DAGs were read.

        Raises:
            DemoError: a component ended, a DAG file cannot be read, or it took too long.
        """
        deadline = time.monotonic() + timeout_s
        serves_tasks = False
        while True:
            self.check()
            missing = self.client.unhealthy()
            if "api-server" not in missing and not serves_tasks:
                serves_tasks = self.client.serves_tasks()
                missing = self.client.unhealthy() if serves_tasks else ["api-server"]
            if not missing:
                if errors := self.client.import_errors():
                    raise DemoError(f"Airflow cannot read a DAG: {errors[0]}.", self._logs / "dag-processor.log")
                missing = sorted(set(dags) - self.client.dags())
            if not missing:
                return
            if time.monotonic() > deadline:
                log = f"{missing[0].replace('_', '-')}.log"
                raise DemoError(
                    f"Airflow was not ready within {timeout_s:g} s: no {', '.join(missing)}. A busy machine needs more "
                    "time: --limit, or LIMIT= with make.",
                    self._logs / (log if (self._logs / log).is_file() else "dag-processor.log"),
                )
            time.sleep(_POLL_S)

    def stop(self, timeout_s: float) -> None:
        """End all of it, together; returns when it is gone."""
        end_groups([child.leader for child in self.children], timeout_s)
        for child in self.children:
            child.reap()
        self.children.clear()

    def _start(self, name: str, arguments: tuple[str, ...]) -> Child:
        child = Child(
            name,
            [sys.executable, "-m", "airflow", *arguments],
            self._logs / f"{name}.log",
            self._environment,
            die_with_parent=self._die_with_parent,
        )
        self.children.append(child)
        return child
