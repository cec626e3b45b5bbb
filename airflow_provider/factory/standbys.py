"""Has standbys compared with their actives now, or their stores copied elsewhere, whether that is due or not.

The actives are not touched. A standby that is found to hold something else than its active is restored from its
changelog, and the run is red. Only what is certified is copied; a job whose ``snapshots()`` names no place refuses.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param, get_current_context, task

from airflow_provider.dag_form import OPTIONAL_LIST
from airflow_provider.factory.form import instances_choice
from airflow_provider.factory.parts import Parts
from airflow_provider.operators.standby_certification import CertifyStandbysOperator
from airflow_provider.operators.standby_snapshot import SnapshotStandbysOperator

__all__ = ["standbys_dag"]


def standbys_dag(parts: Parts) -> DAG:
    """``<application>_standbys``."""
    form = {
        "action": Param(
            "certify",
            enum=["certify", "snapshot"],
            title="Certify or snapshot",
            description="Compare each standby's store with its active's, or copy it to the job's place for snapshots.",
            section="Standbys",
        ),
        "instances": instances_choice(parts.stream, "Those whose standbys are asked. All means those that run."),
        "tasks": Param(
            [],
            type=OPTIONAL_LIST,
            items={"type": "string", "pattern": r"^\d+_\d+$"},
            title="Tasks",
            description="Such as 0_3. None means all.",
            section="Standbys",
        ),
    }
    chosen = {"instances": parts.chosen_or_all(), "tasks": "{{ (params.tasks or []) | join(',') }}"}

    @task.branch(task_id="choose")
    def choose() -> str:
        action: str = get_current_context()["params"]["action"]
        return action

    with parts.dag("standbys", "Certifies or copies the standbys", __doc__, form) as dag:
        choose() >> [
            CertifyStandbysOperator(task_id="certify", **chosen, **parts.application),
            SnapshotStandbysOperator(task_id="snapshot", **chosen, **parts.application),
        ]
    return dag
