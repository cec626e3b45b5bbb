"""Has the instances that the form names process nothing for a while, or go on.

They finish their micro-batch, keep their tasks and stay warm. It lasts as long as their processes do: one that is
started afterwards, as a replacement too, processes.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider.factory.form import instances_choice
from airflow_provider.factory.parts import Parts
from airflow_provider.operators.processing_pause import PauseProcessingOperator

__all__ = ["pause_dag"]


def pause_dag(parts: Parts) -> DAG:
    """``<application>_pause``."""
    action = Param("pause", enum=["pause", "resume"], title="Pause or resume", section="Instances")
    form = {
        "action": action,
        "instances": instances_choice(parts.stream, "Those that are asked. All of them means those that live."),
    }
    with parts.dag("pause", "Pauses and resumes the processing", __doc__, form) as dag:
        PauseProcessingOperator(
            task_id="pause_or_resume",
            instances=parts.chosen_or_all(),
            resume="{{ params.action == 'resume' }}",
            **parts.application,
        )
    return dag
