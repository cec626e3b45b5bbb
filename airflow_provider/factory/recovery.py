"""The DAGs that run by themselves: failover and repair, the monitor, and the drills."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from airflow.sdk import DAG, AssetWatcher, task

from airflow_provider.assets import answers, answers_alias, drills, incidents
from airflow_provider.control.drills.blackout import parse_blackouts
from airflow_provider.control.records.drill_fault import DRILLS, DrillKind
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.factory.parts import Parts, instance_field, lines_field, seconds_field, timeouts
from airflow_provider.factory.spec import Drill, Stream
from airflow_provider.operators.assignment import FailOverOperator
from airflow_provider.operators.checks import (
    CheckBlackoutOperator,
    CheckDrillReadinessOperator,
    CheckSloOperator,
    SkippedDrillNote,
)
from airflow_provider.operators.drill import CheckRecoveryOperator, InjectFaultOperator
from airflow_provider.operators.repair import ListRepairsOperator, ReportFailOverOperator
from airflow_provider.page import DRILL
from airflow_provider.sensors.figures import StandbyLagSensor
from airflow_provider.sensors.states import FaultEndSensor
from airflow_provider.triggers import IncidentTrigger

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


def monitor_dag(parts: Parts) -> DAG:
    """Looks at the application every few minutes, and is red, with figures, when it does not keep what is promised.

    Before the first run of the deploy DAG there is nothing to look at: its tasks are skipped.
    """
    stream = parts.stream
    both: dict[str, Any] = {"deploy_dag_id": f"{stream.application_id}_deploy"}
    if stream.monitor_pool is not None:
        both["pool"] = stream.monitor_pool
    with parts.dag(
        "monitor",
        "Starts by itself every few minutes, and is red when a promise is broken. Press it to look now",
        monitor_dag.__doc__,
        {},
        schedule=stream.monitored_at,
        on_failure_callback=stream.callbacks.on_slo_missed,
    ) as dag:
        CheckSloOperator(task_id="check_slo", slo=stream.slo, **both, **parts.failover_dag, **parts.standbys)
        parts.check_topics(advise=True, max_absence_s=stream.slo.absence_s, **both)
    return dag


def drill_dag(parts: Parts, drill: Drill) -> DAG:
    """Injects a fault, lets failover and repair do their work, and checks the result against what is promised.

    It is skipped in its blackout times. It begins only when every task has its warm standbys, failures are watched for
    and none is open, so that it never makes a weak application weaker, and acts once, however often a task is tried. A
    drill that does not begin is in the history, too. However it ended, every task is given its standbys again. The job
    has to say ``options(allow_faults=True)``.
    """
    stream, kind = parts.stream, drill.kind
    victim = instance_field(stream, "The one that fails. Empty takes the one with the most active tasks.")
    victim.value = drill.instance
    form = {
        "instance": victim,
        "blackout": lines_field(
            "Blackout",
            "Times in which no drill begins, such as 'mon-fri 08:00-18:00 Europe/Vienna' or 'sat,sun'. In UTC where no "
            "time zone is named.",
            map(str, parse_blackouts(drill.blackout)),
            section="Drill",
        ),
        "ready_timeout_s": seconds_field(60, "Ready within", minimum=1),
        "recovery_timeout_s": seconds_field(1800, "Recovered within"),
    }
    on_victim = {"instance": "{{ params.instance or '' }}", **parts.application}
    with parts.dag(
        f"drill_{kind}",
        f"Rehearses a failure, by its schedule or when pressed: {DRILLS[DrillKind(kind)].does}",
        drill_dag.__doc__,
        form,
        tag=DRILL,
        schedule=drill.schedule,
        on_failure_callback=stream.callbacks.on_slo_missed,
    ) as dag:
        allowed = CheckBlackoutOperator(
            task_id="check_blackout",
            blackout="{{ (params.blackout or []) | tojson }}",
            kind=kind,
            **parts.application,
        )
        ready = StandbyLagSensor(task_id="be_ready", timeout_s="{{ params.ready_timeout_s }}", **parts.standbys)
        watched = CheckDrillReadinessOperator(task_id="check_watch", kind=kind, **parts.failover_dag, **on_victim)
        fault = InjectFaultOperator(
            task_id="inject_fault",
            kind=kind,
            max_rto_s=stream.slo.rto_s,
            store=stream.stores[0],
            shared_sink=drill.shared_sink,
            num_standby_replicas=stream.num_standby_replicas,
            **on_victim,
        )
        for before in (ready, watched, fault):  # beside what the DAG's default arguments say
            before.on_failure_callback = [*before.on_failure_callback, SkippedDrillNote(kind)]
        over = FaultEndSensor(
            task_id="wait_for_failover",
            fault=fault.output,
            timeout_s="{{ params.recovery_timeout_s }}",
            **parts.application,
        )
        checked = CheckRecoveryOperator(
            task_id="check_recovery",
            fault=fault.output,
            store=stream.stores[0],
            max_rto_s=stream.slo.rto_s,
            outlets=[drills(stream.application_id)],
            **parts.standbys,
        )
        # A teardown: it runs once the fault was injected, whatever failed since, and does not make a red run green.
        again = parts.assign("restore_redundancy", "standbys again after a drill").as_teardown(setups=fault)
        allowed >> ready >> watched >> fault >> over >> checked >> again
    return dag
