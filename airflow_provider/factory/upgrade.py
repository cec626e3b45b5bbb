"""Rolls a changed job file or setting over the instances, one after the other, without a task standing still for long.

Each instance hands its active tasks over to warm standbys first, so that only standbys are restarted; it stops, starts
as the file describes it now, and is waited for until it has caught up. It ends at the first that is not well, with the
others as they were. One that was stopped is left so. With a dry run nothing is done, and each instance's task says what
differs.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider.factory.form import timeouts
from airflow_provider.factory.parts import Parts
from airflow_provider.sensors.standby_lag import StandbyLagSensor

__all__ = ["upgrade_dag"]

_ON_CHANGE = "{{ 'report' if params.dry_run else 'upgrade' }}"


def upgrade_dag(parts: Parts) -> DAG:
    """``<application>_upgrade``."""
    dry_run = Param(
        False,
        type="boolean",
        title="Dry run",
        description="Only say what differs from the file, for each instance.",
        section="Upgrade",
    )
    with parts.dag("upgrade", "Rolls changes over the instances", __doc__, {"dry_run": dry_run, **timeouts()}) as dag:
        before: StandbyLagSensor | None = None
        for instance in parts.stream.instances:
            restart = parts.deploy(
                instance, f"upgrade_{instance.name}", on_change=_ON_CHANGE, trigger_rule="none_failed"
            )
            assign = parts.assign(
                f"assign_standbys_{instance.name}", f"{instance.name} upgraded", trigger_rule="none_failed"
            )
            warm = parts.warm(f"wait_until_warm_{instance.name}")
            restart >> assign >> warm
            if before is not None:
                before >> restart
            before = warm
        warm >> parts.balance()
    return dag
