"""Gives the application its redundancy back after a failover: replacements, standbys, warm copies, an even load.

Started by each run of the failover DAG that answered something. Each instance is replaced by itself, on its own queue,
so one that cannot be replaced keeps no other from being replaced, and every task gets what standbys the living
instances allow. The run is red when an instance could not be replaced, or a task is held or did not get its warm
standbys: correct what is wrong and start it again, or clear the failed tasks. With `ask_on_hold` a person is asked what
becomes of held tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from airflow.sdk import DAG, task

from airflow_provider.assets import answers
from airflow_provider.factory.form import instance_choice, timeouts
from airflow_provider.factory.parts import Parts
from airflow_provider.operators.failover_report import ReportFailOverOperator
from airflow_provider.operators.repair_list import ListRepairsOperator

__all__ = ["repair_dag"]

_REPLACED = "{{ ti.xcom_pull('list_repairs') | selectattr('replace') | list | length > 0 }}"


def repair_dag(parts: Parts) -> DAG:
    """``<application>_repair``."""
    stream = parts.stream
    form = {"instance": instance_choice(stream, "By hand: only what went wrong with this one."), **timeouts()}

    @task.branch(task_id="choose")
    def choose(repairs: list[dict[str, Any]], known: list[str]) -> list[str]:
        """Replace those that are gone and that the file still names."""
        gone = {repair["instance"] for repair in repairs if repair["replace"]}
        return [*(f"replace_{name}" for name in known if name in gone), "assign_standbys"]

    with parts.dag(
        "repair",
        "Restores the redundancy",
        __doc__,
        form,
        schedule=answers(stream.application_id),
        max_active_runs=32,
        is_paused_upon_creation=False,
        on_failure_callback=stream.callbacks.on_repair_failed,
    ) as dag:
        repairs = ListRepairsOperator(task_id="list_repairs", instance="{{ params.instance or '' }}", **parts.standbys)
        chosen = choose(cast(Any, repairs.output), stream.instance_names)
        replacements = [
            parts.deploy(instance, f"replace_{instance.name}", on_change="attach") for instance in stream.instances
        ]
        # Whatever became of the replacements, the living instances take what standbys they can.
        assign = parts.assign("assign_standbys", "standbys again", trigger_rule="all_done")
        report = ReportFailOverOperator(
            task_id="report",
            incident_id=cast(Any, repairs.output.map(_incident_id)),
            max_rto_s=stream.slo.rto_s,
            **parts.application,
        )
        # What was moved off an instance that lives has to stay off it: evened out only after a replacement. The last
        # task says whether all went well, so the run is red when an instance could not be replaced.
        balance = parts.balance(balance=_REPLACED, trigger_rule="none_failed")
        chosen >> [*replacements, assign]
        # Nobody is asked where nothing is held, and nothing is replayed where the person leaves it.
        warm = parts.warm(**({"trigger_rule": "none_failed_min_one_success"} if stream.ask_on_hold else {}))
        replacements >> assign >> warm >> report >> balance
        replacements >> balance
        if stream.ask_on_hold:
            _ask(parts, repairs, warm)
    return dag


def _ask(parts: Parts, before: Any, after: Any) -> None:
    """Ask a person what becomes of held tasks; the redundancy of the others does not wait for the answer."""
    from airflow_provider.operators.changelog_replay import ReplayChangelogOperator
    from airflow_provider.operators.held_task_question import AskAboutHeldTasksOperator

    callbacks = parts.stream.callbacks.on_hold
    ask = AskAboutHeldTasksOperator(
        task_id="ask_about_held_tasks",
        application_id=parts.stream.application_id,
        kafka_conn_id=parts.stream.kafka_conn_id,
        notifiers=[] if callbacks is None else callbacks if isinstance(callbacks, Sequence) else [callbacks],
    )
    replay = ReplayChangelogOperator.partial(task_id="replay_held_tasks", **parts.application).expand_kwargs(ask.output)
    before >> ask >> replay >> after


def _incident_id(repair: dict[str, Any]) -> str:
    return str(repair["incident_id"])
