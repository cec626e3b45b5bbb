"""Injects a fault, lets failover and repair do their work, and checks the result against what is promised.

It is skipped in its blackout times. It begins only when every task has its warm standbys, failures are watched for and
none is open, so that it never makes a weak application weaker, and acts once, however often a task is tried. A drill
that does not begin is in the history, too. Whatever became of it, every task is given its standbys again. The job has
to say ``options(allow_faults=True)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG

from airflow_provider.assets import drills
from airflow_provider.control.drill_fault import DRILLS, DrillKind
from airflow_provider.control.drills.blackout import parse_blackouts
from airflow_provider.dag_form import blackout_field
from airflow_provider.factory.form import instance_choice, timeouts
from airflow_provider.factory.parts import Parts
from airflow_provider.factory.spec import Drill
from airflow_provider.operators.blackout_check import CheckBlackoutOperator
from airflow_provider.operators.drill_readiness import CheckDrillReadinessOperator
from airflow_provider.operators.fault_injection import InjectFaultOperator
from airflow_provider.operators.recovery_check import CheckRecoveryOperator
from airflow_provider.operators.skipped_drill import SkippedDrillNote
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.fault_end import FaultEndSensor
from airflow_provider.sensors.standby_lag import StandbyLagSensor

__all__ = ["drill_dag", "drill_tasks"]


def drill_dag(parts: Parts, drill: Drill) -> DAG:
    """``<application>_drill_<kind>``."""
    stream = parts.stream
    victim = instance_choice(stream, "The one that fails. Empty takes the one with the most active tasks.")
    victim.value = drill.instance
    times = map(str, parse_blackouts(drill.blackout))
    form = {"instance": victim, "blackout": blackout_field(list(times), section="Drill"), **timeouts(recovery=True)}
    with parts.dag(
        f"drill_{drill.kind}",
        f"Drill {drill.kind} ({DRILLS[DrillKind(drill.kind)].does})",
        __doc__,
        form,
        schedule=drill.schedule,
        on_failure_callback=stream.callbacks.on_slo_missed,
    ) as dag:
        drill_tasks(
            parts.application,
            {"num_standby_replicas": stream.num_standby_replicas},
            kind=drill.kind,
            store=stream.stores[0],
            **parts.failover_dag,
            max_rto_s=stream.slo.rto_s,
            shared_sink=drill.shared_sink,
            outlets=[drills(stream.application_id)],
        )
    return dag


def drill_tasks(
    application: Mapping[str, Any],
    standbys: Mapping[str, Any],
    *,
    kind: str,
    store: str = "state",
    failover_dag_id: str | None = None,
    failover_asset: str | None = None,
    max_rto_s: float | None = None,
    shared_sink: bool | str = False,
    **check: Any,
) -> None:
    """The tasks of a drill, in a DAG whose form has ``instance``, ``blackout`` and the timeouts of a drill.

    Args:
        application: each task's arguments that say which application it is of.
        standbys: the arguments that say how many standbys a task has.
        kind: of the drill; may be a template.
        store: one of the job's.
        failover_dag_id: the DAG that answers the failure, where it is known.
        failover_asset: the name of the asset whose events start that DAG.
        max_rto_s: what is promised; None where nothing is.
        shared_sink: whether other programs write where the job does, so that outputs are not counted.
        check: further arguments of `CheckRecoveryOperator`.
    """
    allowed = CheckBlackoutOperator(
        task_id="check_blackout", blackout="{{ (params.blackout or []) | tojson }}", kind=kind, **application
    )
    ready = StandbyLagSensor(task_id="be_ready", timeout_s="{{ params.ready_timeout_s }}", **standbys, **application)
    victim = {"instance": "{{ params.instance or '' }}", **application}
    watched = CheckDrillReadinessOperator(
        task_id="check_watch", failover_dag_id=failover_dag_id, failover_asset=failover_asset, kind=kind, **victim
    )
    fault = InjectFaultOperator(
        task_id="inject_fault",
        kind=kind,
        max_rto_s=max_rto_s,
        store=store,
        shared_sink=shared_sink,
        **standbys,
        **victim,
    )
    for before in (ready, watched, fault):  # beside what the DAG's default arguments say
        before.on_failure_callback = [*before.on_failure_callback, SkippedDrillNote(kind)]
    over = FaultEndSensor(
        task_id="wait_for_failover", fault=fault.output, timeout_s="{{ params.recovery_timeout_s }}", **application
    )
    checked = CheckRecoveryOperator(
        task_id="check_recovery",
        fault=fault.output,
        store=store,
        max_rto_s=max_rto_s,
        **check,
        **standbys,
        **application,
    )
    # A teardown: it runs once the fault was injected, whatever failed since, and does not make a red run green.
    again = AssignTasksOperator(
        task_id="restore_redundancy",
        store=store,
        reason="standbys again after a drill by {{ run_id }}",
        **standbys,
        **application,
    ).as_teardown(setups=fault)
    allowed >> ready >> watched >> fault >> over >> checked >> again
