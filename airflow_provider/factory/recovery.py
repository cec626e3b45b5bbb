"""The DAGs that a failure starts: the failover, and the repair after it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from airflow.sdk import DAG, AssetWatcher, task

from airflow_provider.assets import answers, answers_alias, incidents
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.factory.parts import Parts, instance_field, timeouts
from airflow_provider.factory.spec import Stream
from airflow_provider.operators.failover import FailOverOperator
from airflow_provider.operators.repair import ListRepairsOperator, ReportFailOverOperator
from airflow_provider.triggers.incident import IncidentTrigger

_REPLACED = "{{ ti.xcom_pull('list_repairs') | selectattr('replace') | list | length > 0 }}"
_MANY_RUNS = 32
"""At once: a failure waits for no other's failover or repair."""


def failover_dag(parts: Parts) -> DAG:
    """Answers the failure of an instance or of a task: one short task that decides and publishes.

    Started by the failure itself, which a watcher in the triggerer sees. Started by hand, it answers what is wrong now,
    or moves everything off the instance that the form names. What it answered starts the repair DAG.
    """
    stream = parts.stream
    form = {"instance": instance_field(stream, "By hand: answer only this one's failure, or move everything off it.")}
    pool: dict[str, Any] = {} if stream.failover_pool is None else {"pool": stream.failover_pool}
    with parts.dag(
        "failover",
        "Starts by itself when an instance or a task fails. Press it to move everything off an instance",
        failover_dag.__doc__,
        form,
        schedule=incidents(stream.application_id, _watcher(stream)),
        max_active_runs=_MANY_RUNS,
        is_paused_upon_creation=False,
    ) as dag:
        FailOverOperator(
            task_id="fail_over",
            instance="{{ params.instance or '' }}",
            priority_weight=1000,
            retry_delay=timedelta(seconds=2),
            outlets=[answers_alias(stream.application_id)],
            on_success_callback=stream.callbacks.on_failover,
            **parts.standbys,
            **pool,
        )
    return dag


def _watcher(stream: Stream) -> AssetWatcher:
    trigger = IncidentTrigger(
        stream.application_id,
        stream.kafka_conn_id,
        instance_timeout_s=stream.instance_timeout_s or Timeouts.instance_s,
        stall_timeout_s=stream.stall_timeout_s or Timeouts.stall_s,
        num_standby_replicas=stream.num_standby_replicas,
    )
    return AssetWatcher(name=stream.application_id, trigger=trigger)


def repair_dag(parts: Parts) -> DAG:
    """Gives the application its redundancy back after a failover: replacements, standbys, warm copies, an even load.

    Started by each run of the failover DAG that answered something. Each instance is replaced by itself, on its own
    queue, so one that cannot be replaced keeps no other from being replaced, and every task gets what standbys the
    living instances allow. The run is red when an instance could not be replaced, or a task is held or did not get its
    warm standbys: correct what is wrong and start it again, or clear the failed tasks. With `ask_on_hold` a person is
    asked what to do with held tasks.
    """
    stream = parts.stream
    form = {"instance": instance_field(stream, "By hand: only what went wrong with this one."), **timeouts()}

    @task.branch(task_id="choose")
    def choose(repairs: list[dict[str, Any]], known: list[str]) -> list[str]:
        """Replace those that are gone and that the file still names."""
        gone = {repair["instance"] for repair in repairs if repair["replace"]}
        return [*(f"replace_{name}" for name in known if name in gone), "assign_standbys"]

    with parts.dag(
        "repair",
        "Starts by itself after a failover. Press it when a run was red and its cause is corrected",
        repair_dag.__doc__,
        form,
        schedule=answers(stream.application_id),
        max_active_runs=_MANY_RUNS,
        is_paused_upon_creation=False,
        on_failure_callback=stream.callbacks.on_repair_failed,
    ) as dag:
        repairs = ListRepairsOperator(
            task_id="list_repairs", instance="{{ params.instance or '' }}", **parts.application
        )
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
    """Ask a person what to do with held tasks; the redundancy of the others does not wait for the answer."""
    from airflow_provider.operators.held_task_question import AskAboutHeldTasksOperator
    from airflow_provider.operators.instance_commands import ReplayChangelogOperator

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
