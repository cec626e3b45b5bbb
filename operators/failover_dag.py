"""Whether the DAG that answers failures is there and unpaused, as Airflow's API server says."""

from __future__ import annotations

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRuntimeError

__all__ = ["failover_dag_problem"]


def failover_dag_problem(context: Context, dag_id: str) -> str | None:
    """What is wrong with it, in one line; None where nothing is.

    Args:
        context: of the running task.
        dag_id: of the DAG that answers the failures of the application.
    """
    try:
        paused = context["ti"].get_dag(dag_id).is_paused
    except AirflowRuntimeError as error:
        return f"whether failover DAG {dag_id!r} is unpaused could not be found out ({error}): correct its id."
    if paused:
        return f"failover DAG {dag_id!r} is paused, so no failure is answered: unpause it."
    return None
