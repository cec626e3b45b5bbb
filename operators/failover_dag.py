"""Whether the DAG that answers failures can run, as far as Airflow's API server tells a task."""

from __future__ import annotations

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType


def failover_dag_problem(context: Context, dag_id: str, asset: str | None = None) -> str | None:
    """What is wrong with it, in one line; None where nothing is.

    A task is told of a DAG whether it is paused, not whether it is stale or its file does not parse. Of an asset it is
    told whether it is active. Airflow ends that for the asset of a stale DAG, but some minutes later, and only when it
    cleans up after a DAG file that is gone.

    Args:
        context: of the running task.
        dag_id: of the DAG that answers the failures of the application.
        asset: the name of the one whose events start that DAG; None does not ask.
    """
    try:
        paused = context["ti"].get_dag(dag_id).is_paused
    except AirflowRuntimeError as error:
        return f"whether failover DAG {dag_id!r} is unpaused could not be found out ({error}): correct its id."
    if paused:
        return f"failover DAG {dag_id!r} is paused, so no failure is answered: unpause it."
    return None if asset is None else _asset_problem(context, dag_id, asset)


def _asset_problem(context: Context, dag_id: str, asset: str) -> str | None:
    try:
        # Only looked up, by the API server: this run need not have been started by any event.
        context["triggering_asset_events"].for_asset(name=asset)
    except KeyError:
        return None
    except AirflowRuntimeError as error:
        if error.error.error is not ErrorType.ASSET_NOT_FOUND:
            return f"whether asset {asset!r} of failover DAG {dag_id!r} is active could not be found out ({error})."
        return (
            f"asset {asset!r} is not active, so failover DAG {dag_id!r} is stale or its file does not parse, and no "
            "failure is answered: look at `airflow dags list-import-errors`."
        )
    return None
