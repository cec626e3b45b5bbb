"""Stops instances cleanly: each commits, closes its stores and ends.

Stopping them all leaves each task where it is, so that the deploy DAG starts with warm stores. Stopping some hands
their tasks over to those that run on.
"""

from __future__ import annotations

from airflow.sdk import DAG, task

from airflow_provider.factory.form import chosen_instances, instances_choice
from airflow_provider.factory.parts import Parts
from airflow_provider.operators.instance_stop import StopInstanceOperator

__all__ = ["stop_dag"]

_SOME = "{{{{ params.instances | length < {} }}}}"


def stop_dag(parts: Parts) -> DAG:
    """``<application>_stop``."""
    stream = parts.stream
    form = {"instances": instances_choice(stream, "Those to stop.")}

    @task.branch(task_id="choose")
    def choose() -> list[str]:
        return [f"stop_{name}" for name in chosen_instances()]

    with parts.dag("stop", "Stops instances", __doc__, form) as dag:
        choose() >> [
            StopInstanceOperator(
                task_id=f"stop_{name}",
                instance=name,
                hand_over=_SOME.format(len(stream.instances)),
                **parts.application,
            )
            for name in stream.instance_names
        ]
    return dag
