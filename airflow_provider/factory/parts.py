"""What the DAGs of one application are made of."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import DAG, Param, get_current_context

from airflow_provider.assets import incidents_name
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.factory.spec import Instance, Stream
from airflow_provider.operators.assignment import AssignTasksOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.topics import CheckTopicsOperator
from airflow_provider.page import KIND_TAG, LOOKUPS_TAG, OPERATORS
from airflow_provider.sensors.figures import StandbyLagSensor


def instances_field(stream: Stream, description: str) -> Param:
    """``instances``: some of the application's, all of them at first."""
    names = stream.instance_names
    return Param(
        names,
        type="array",
        items={"type": "string", "enum": names},
        examples=names,
        minItems=1,
        title="Instances",
        description=description,
        section="Instances",
    )


def chosen_instances() -> list[str]:
    """What a run's form says in `instances_field`."""
    chosen: list[str] = get_current_context()["params"]["instances"]
    return chosen


def instance_field(stream: Stream, description: str) -> Param:
    """``instance``: one of the application's, or none."""
    return Param(
        None, enum=[None, *stream.instance_names], title="Instance", description=description, section="Instances"
    )


def lines_field(
    title: str, description: str, lines: Iterable[str] = (), *, section: str, pattern: str | None = None
) -> Param:
    """A text a line, or none: a browser sends null where a person has cleared it."""
    items: dict[str, Any] = {"type": "string"} if pattern is None else {"type": "string", "pattern": pattern}
    return Param(
        list(lines), type=["null", "array"], items=items, title=title, description=description, section=section
    )


def seconds_field(default: int, title: str, *, minimum: int = 10) -> Param:
    """A time limit in seconds."""
    return Param(default, type="integer", minimum=minimum, title=title, description="Seconds.", section="Limits")


def timeouts() -> dict[str, Param]:
    """How long instances may take to start, and standbys to become warm."""
    return {
        "start_timeout_s": seconds_field(int(Timeouts.start_s), "Start within"),
        "warm_timeout_s": seconds_field(3600, "Warm within"),
    }


WARM_TIMEOUT: Final = "{{ params.warm_timeout_s }}"
_START_TIMEOUT: Final = "{{ params.start_timeout_s }}"


class Parts:
    """Makes the DAGs and the tasks of an application, each with what is the same for all."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.application: dict[str, Any] = {
            "application_id": stream.application_id,
            "kafka_conn_id": stream.kafka_conn_id,
        }
        if stream.instance_timeout_s is not None:
            self.application["instance_timeout_s"] = stream.instance_timeout_s
        self.failover_dag: dict[str, Any] = {
            "failover_dag_id": f"{stream.application_id}_failover",
            "failover_asset": incidents_name(stream.application_id),
        }
        self.standbys = {**self.application, "num_standby_replicas": stream.num_standby_replicas}

    @contextmanager
    def dag(
        self,
        name: str,
        description: str,
        doc: str | None,
        params: Mapping[str, Param],
        *,
        tag: str | None = None,
        **more: Any,
    ) -> Iterator[DAG]:
        """A DAG ``<application>_<name>``, with what the owner gave for all, to be given its tasks within.

        Its description says when to press it, for Airflow's list of DAGs, and its tag which kind of DAG it is: its
        name where nothing is said.
        """
        stream = self.stream
        arguments: dict[str, Any] = {
            "schedule": None,
            "catchup": False,
            "max_active_runs": 1,
            **more,
            **stream.dag_args,
        }
        who_looks_up = [] if stream.lookups == OPERATORS else [f"{LOOKUPS_TAG}{stream.lookups}"]
        dag = DAG(
            f"{stream.application_id}_{name}",
            description=f"{description}.",
            doc_md=inspect.cleandoc(doc or ""),
            tags=sorted({stream.application_id, f"{KIND_TAG}{tag or name}", *who_looks_up, *stream.tags}),
            default_args={
                "retries": 2,
                "retry_delay": timedelta(seconds=10),
                "deferrable": True,
                **stream.default_args,
            },
            **arguments,
        )
        # Its own root group: a file may ask for a DAG while it describes a task group of another one.
        with dag, dag.task_group:
            yield dag
        # Last: each operator copies the form that its DAG has when it is made, though a run gives it the DAG's anyway.
        dag.params.update(params)

    def deploy(self, instance: Instance, task_id: str, **more: Any) -> DeployInstanceOperator:
        """Starts an instance as the file describes it, on its own queue; or waits for its supervisor to start it."""
        stream = self.stream
        return DeployInstanceOperator(
            task_id=task_id,
            instance=instance.name,
            application=stream.job,
            state_dir=self.state_dir(instance),
            run_dir=stream.run_dir,
            instance_kafka_conn_id=stream.instance_kafka_conn_id,
            spark_conn_id=stream.spark_conn_id,
            conf={**stream.conf, **instance.conf},
            env_vars={**stream.env_vars, **instance.env_vars},
            application_args=list(stream.application_args),
            start_timeout_s=_START_TIMEOUT,
            placement=instance.placement,
            python=instance.python or stream.python,
            **self.application,
            **self.queue(instance),
            **more,
        )

    def state_dir(self, instance: Instance) -> str:
        """Where an instance keeps its stores."""
        return self.stream.state_dir_of(instance)

    def queue(self, instance: Instance) -> dict[str, Any]:
        """An operator's argument that has it run on an instance's host."""
        return {} if instance.queue is None else {"queue": instance.queue}

    def topics(self) -> dict[str, Any]:
        """The arguments that say which topics are created: those that the file names, else those of the job file.

        The job file lies where the instances are: the host of the first one that has a worker asks it, by the job's
        own Python.
        """
        stream = self.stream
        if stream.source_topics:
            return {
                "source_topics": list(stream.source_topics),
                "stores": list(stream.stores),
                "windowed_stores": list(stream.windowed_stores),
                "output_topics": list(stream.output_topics),
            }
        first = next((one for one in stream.instances if not one.supervised), stream.instances[0])
        python = first.python or stream.python
        return {
            "application": stream.job,
            "application_args": list(stream.application_args),
            "env_vars": {**({"PYSPARK_PYTHON": python} if python else {}), **stream.env_vars, **first.env_vars},
            **self.queue(first),
        }

    def check_topics(self, **more: Any) -> CheckTopicsOperator:
        """Verifies the topics."""
        stream = self.stream
        return CheckTopicsOperator(
            task_id="check_topics",
            # None where the job file says them: that was kept when they were created.
            source_topics=list(stream.source_topics),
            stores=list(stream.stores),
            windowed_stores=list(stream.windowed_stores),
            output_topics=list(stream.output_topics),
            replication_factor=stream.replication_factor,
            **self.application,
            **more,
        )

    def assign(self, task_id: str, why: str, **more: Any) -> AssignTasksOperator:
        """Gives every task its active and its standbys."""
        return AssignTasksOperator(
            task_id=task_id, store=self.stream.stores[0], reason=f"{why} by {{{{ run_id }}}}", **self.standbys, **more
        )

    def balance(self, **more: Any) -> AssignTasksOperator:
        """Evens out the load, by warm copies."""
        more = {"balance": True, **more}
        return self.assign("balance", "evened out", timeout_s=WARM_TIMEOUT, **more)

    def warm(self, task_id: str = "wait_until_warm", **more: Any) -> StandbyLagSensor:
        """Waits until every task runs and has its warm standbys."""
        return StandbyLagSensor(task_id=task_id, timeout_s=WARM_TIMEOUT, **self.standbys, **more)
