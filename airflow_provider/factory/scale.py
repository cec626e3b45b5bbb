"""Runs the application on the instances that the form names: starts those that do not run, stops the others.

What is added is warm and has its share before anything is stopped; what is stopped hands its tasks over to warm
standbys. A new instance is named in the file first.
"""

from __future__ import annotations

from airflow.sdk import DAG, task

from airflow_provider.factory.form import chosen_instances, instances_choice, timeouts
from airflow_provider.factory.parts import WARM_TIMEOUT, Parts
from airflow_provider.operators.instance_stop import StopInstanceOperator

__all__ = ["scale_dag"]


def scale_dag(parts: Parts) -> DAG:
    """``<application>_scale``."""
    stream = parts.stream
    form = {"instances": instances_choice(stream, "Those that are to run afterwards."), **timeouts()}

    @task.branch(task_id="choose_starts")
    def choose_starts(known: list[str]) -> list[str]:
        return [f"deploy_{name}" for name in known if name in chosen_instances()]

    # A branch of its own: what lies behind a chosen task is not skipped by the branch that chose it.
    @task.branch(task_id="choose_stops")
    def choose_stops(known: list[str]) -> list[str]:
        return [*(f"stop_{name}" for name in known if name not in chosen_instances()), "assign_rest"]

    with parts.dag("scale", "Starts and stops instances", __doc__, form) as dag:
        started = [
            parts.deploy(instance, f"deploy_{instance.name}", on_change="attach") for instance in stream.instances
        ]
        stopped = [
            StopInstanceOperator(task_id=f"stop_{name}", instance=name, timeout_s=WARM_TIMEOUT, **parts.application)
            for name in stream.instance_names
        ]
        grown = parts.assign("assign_more", "scaled", trigger_rule="none_failed")
        rest = parts.assign("assign_rest", "scaled", trigger_rule="none_failed")
        chosen = choose_stops(stream.instance_names)
        choose_starts(stream.instance_names) >> started >> grown >> parts.warm("wait_until_grown") >> chosen
        chosen >> [*stopped, rest]
        stopped >> rest >> parts.warm() >> parts.balance()
    return dag
