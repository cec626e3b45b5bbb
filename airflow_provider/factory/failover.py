"""Answers the failure of an instance or of a task: one short task that decides and publishes.

Started by the failure itself, which a watcher in the triggerer sees. Started by hand, it answers what is wrong now, or
moves everything off the instance that the form names. What it answered starts the repair DAG.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, AssetWatcher

from airflow_provider.assets import answers_alias, incidents
from airflow_provider.control.liveness import Timeouts
from airflow_provider.factory.form import instance_choice
from airflow_provider.factory.parts import Parts
from airflow_provider.factory.spec import Stream
from airflow_provider.operators.failover import FailOverOperator
from airflow_provider.triggers.incident import IncidentTrigger

__all__ = ["failover_dag"]


def _watcher(stream: Stream) -> AssetWatcher:
    trigger = IncidentTrigger(
        stream.application_id,
        stream.kafka_conn_id,
        instance_timeout_s=stream.instance_timeout_s or Timeouts.instance_s,
        stall_timeout_s=stream.stall_timeout_s or Timeouts.stall_s,
        num_standby_replicas=stream.num_standby_replicas,
    )
    return AssetWatcher(name=stream.application_id, trigger=trigger)


def failover_dag(parts: Parts) -> DAG:
    """``<application>_failover``."""
    stream = parts.stream
    form = {"instance": instance_choice(stream, "By hand: answer only this one's failure, or move everything off it.")}
    pool: dict[str, Any] = {} if stream.failover_pool is None else {"pool": stream.failover_pool}
    with parts.dag(
        "failover",
        "Promotes the standbys",
        __doc__,
        form,
        schedule=incidents(stream.application_id, _watcher(stream)),
        max_active_runs=32,
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
