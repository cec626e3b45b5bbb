"""Deletes all state of the application, so that the next deployment begins with nothing and reads its sources again.

First it lists what goes: changelogs, control topics, and the stores on each host. It goes on only where the id of the
application was typed into the form, and refuses while an instance lives: stop them all first. Sources and outputs stay;
what the job wrote into its sinks before it will write again.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param, get_current_context, task

from airflow_provider.factory.parts import Parts
from airflow_provider.operators.application_reset import ResetApplicationOperator
from airflow_provider.operators.state_removal import RemoveStateOperator

__all__ = ["reset_dag"]

_SECTION = "Reset"
_CONFIRM = "{{ params.confirm or '' }}"
_HISTORY = "{{ params.delete_history }}"


def reset_dag(parts: Parts) -> DAG:
    """``<application>_reset``."""
    stream = parts.stream
    confirm = Param(
        None,
        type=["null", "string"],
        title="Application id",
        description=f"Type {stream.application_id} to delete its state. Empty only lists what would go.",
        section=_SECTION,
    )
    history = Param(
        False,
        type="boolean",
        title="Delete the history too",
        description="What is remembered of drills and failovers.",
        section=_SECTION,
    )

    @task.branch(task_id="confirm")
    def confirmed(known: list[str]) -> list[str]:
        typed = get_current_context()["params"]["confirm"]
        return [f"remove_state_{name}" for name in known] if typed else []

    reset = {"stores": list(stream.stores), "delete_history": _HISTORY, **parts.application}
    with parts.dag("reset", "Deletes the state", __doc__, {"confirm": confirm, "delete_history": history}) as dag:
        listed = ResetApplicationOperator(task_id="list_what_goes", **reset)
        removed = [
            RemoveStateOperator(
                task_id=f"remove_state_{instance.name}",
                instance=instance.name,
                state_dir=parts.state_dir(instance),
                confirm=_CONFIRM,
                placement=instance.placement,
                **parts.application,
                **parts.queue(instance),
            )
            for instance in stream.instances
        ]
        deleted = ResetApplicationOperator(task_id="delete_topics", confirm=_CONFIRM, **reset)
        listed >> confirmed(stream.instance_names) >> removed >> deleted
    return dag
