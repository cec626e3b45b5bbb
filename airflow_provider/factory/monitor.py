"""Looks at the application every few minutes, and is red, with figures, when it does not keep what is promised.

Before the first run of the deploy DAG there is nothing to look at: its tasks are skipped.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_provider.factory.parts import Parts
from airflow_provider.operators.slo_check import CheckSloOperator

__all__ = ["monitor_dag"]


def monitor_dag(parts: Parts) -> DAG:
    """``<application>_monitor``."""
    stream, slo = parts.stream, parts.stream.slo
    both: dict[str, Any] = {"deploy_dag_id": f"{stream.application_id}_deploy"}
    if stream.monitor_pool is not None:
        both["pool"] = stream.monitor_pool
    with parts.dag(
        "monitor",
        "Checks what is promised",
        __doc__,
        {},
        schedule=stream.monitored_at,
        on_failure_callback=stream.callbacks.on_slo_missed,
    ) as dag:
        CheckSloOperator(
            task_id="check_slo",
            slo=slo,
            **both,
            **parts.failover_dag,
            **parts.standbys,
        )
        parts.check_topics(advise=True, max_absence_s=slo.absence_s, **both)
    return dag
