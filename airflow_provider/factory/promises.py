"""The DAGs that look whether an application keeps what it promises: the monitor, and a drill for each kind."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_provider.assets import drills
from airflow_provider.control.drills.blackout import parse_blackouts
from airflow_provider.control.records.drill_fault import DRILLS, DrillKind
from airflow_provider.factory.parts import Parts, instance_field, lines_field, seconds_field
from airflow_provider.factory.spec import Drill
from airflow_provider.operators.drill import CheckRecoveryOperator, InjectFaultOperator
from airflow_provider.operators.drill_readiness import (
    CheckBlackoutOperator,
    CheckDrillReadinessOperator,
    SkippedDrillNote,
)
from airflow_provider.operators.slo_check import CheckSloOperator
from airflow_provider.sensors.figures import StandbyLagSensor
from airflow_provider.sensors.states import FaultEndSensor


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
        tag="drill",
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
