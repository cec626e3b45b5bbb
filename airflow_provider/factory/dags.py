"""All DAGs of one application."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, get_parsing_context
from airflow.sdk.definitions._internal.contextmanager import DagContext

from airflow_provider.errors import ConfigurationError
from airflow_provider.factory.operate import deploy_dag, operate_dag, reset_dag, scale_dag, upgrade_dag
from airflow_provider.factory.parts import Parts
from airflow_provider.factory.recovery import drill_dag, failover_dag, monitor_dag, repair_dag
from airflow_provider.factory.spec import Stream

_MAKERS: Final[dict[str, Callable[[Parts], DAG]]] = {
    "deploy": deploy_dag,
    "upgrade": upgrade_dag,
    "scale": scale_dag,
    "operate": operate_dag,
    "reset": reset_dag,
    "failover": failover_dag,
    "repair": repair_dag,
    "monitor": monitor_dag,
}


class StreamDags(Mapping[str, DAG]):
    """The DAGs of an application, by what stands behind its id in theirs, such as ``"deploy"`` or ``"drill_crash"``.

    To be given further tasks, dependencies or rights. Each is made when it is first asked for.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._parts = Parts(stream)
        drills = {f"drill_{drill.kind}": partial(drill_dag, drill=drill) for drill in stream.drills}
        self._makers: dict[str, Callable[[Parts], DAG]] = {**_MAKERS, **drills}
        self._made: dict[str, DAG] = {}

    def __getitem__(self, name: str) -> DAG:
        if name not in self._made:
            self._made[name] = self._makers[name](self._parts)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def make(self, only: str | None = None) -> None:
        """Make them, so that they register themselves in the DAG file that is being parsed.

        Args:
            only: the id of the DAG that the file is parsed for, which may be none of these; None makes all.

        Raises:
            ConfigurationError: a DAG of that id is in the file already; Airflow would keep one of the two.
        """
        ids = {f"{self.stream.application_id}_{name}": name for name in self}
        if twice := sorted({dag.dag_id for dag, _ in DagContext.autoregistered_dags} & ids.keys()):
            raise ConfigurationError(
                f"This file has a DAG {twice[0]!r} already: stream_dags() was called twice for "
                f"{self.stream.application_id!r}, or another DAG has an id that one of the application's needs. Give "
                "each application an id of its own."
            )
        for dag_id, name in ids.items():
            if only in (None, dag_id):
                self[name]


def stream_dags(application_id: str, **arguments: Any) -> StreamDags:
    """Make the DAGs of an application; to be called in a DAG file, once an application.

    They register themselves, so nothing has to be done with the result. Airflow reads only files in which the words
    "dag" and "airflow" stand; the import of this function has both. Where Airflow parses the file for one task, only
    that task's DAG is made, and another one when the file asks the result for it.

    Args:
        application_id: the id that the job file names; the DAGs' ids begin with it.
        arguments: the fields of `Stream`; ``job`` and ``instances`` are needed. A relative ``job`` is relative to the
            calling file's folder.

    Raises:
        ConfigurationError: an argument is not what it has to be.
        TypeError: an argument is unknown, or one that is needed is missing.
    """
    job = arguments.get("job")
    if isinstance(job, str) and not job.startswith("/"):
        frame = inspect.currentframe()
        caller = frame.f_back.f_globals.get("__file__") if frame is not None and frame.f_back is not None else None
        arguments["job"] = str(Path(caller or "./none").resolve().parent / job)
    dags = StreamDags(Stream(application_id=application_id, **arguments))
    dags.make(get_parsing_context().dag_id)
    return dags
