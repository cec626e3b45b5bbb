"""The DAGs by which a person intervenes: one for all that loses nothing, and the reset."""

from __future__ import annotations

from typing import Final

from airflow.sdk import DAG, Param, get_current_context, task

from airflow_provider.factory.parts import Parts, chosen_instances, instances_field, lines_field
from airflow_provider.operators.application_reset import RemoveStateOperator, ResetApplicationOperator
from airflow_provider.operators.instance_commands import (
    CertifyStandbysOperator,
    PauseProcessingOperator,
    SnapshotStandbysOperator,
    StopInstanceOperator,
)

_ACTIONS: Final = {
    "check_topics": "Check topics: looks only, and says what to do",
    "repair_topics": "Repair topics: creates what is missing, sets settings",
    "pause": "Pause: process nothing until you resume; all stays warm",
    "resume": "Resume: process again",
    "stop": "Stop instances: each commits, closes its stores and ends",
    "certify_standbys": "Certify standbys: compare their stores with their actives'",
    "snapshot_standbys": "Snapshot standbys: copy their stores to the job's place",
}
"""What can be done, and how the form names it; the first one, which is chosen already, touches nothing."""

_RUNS_MANY = 8
"""At once: nobody who has to pause an application waits until its standbys are compared."""


def operate_dag(parts: Parts) -> DAG:
    """Does one thing to the running application, as the form says. None of them loses anything.

    - *Check topics* is red, with what to do, where a topic is not as the application needs it. *Repair topics* does
      first what loses nothing: it creates what is missing and sets settings. It never creates the changelog of an
      application that ran before, because then the stores on the hosts are all that is left of its state.
    - *Pause* has instances finish their micro-batch and process nothing more. They keep their tasks and stay warm. It
      lasts until *Resume*, or as long as their processes do: one that is started afterwards, a replacement too,
      processes.
    - *Stop instances* ends them cleanly. All of them keep their tasks, so that the deploy DAG starts with warm stores;
      some hand theirs over to those that run on.
    - *Certify standbys* has them compared with their actives now, whether that is due or not, and *Snapshot standbys*
      their stores copied elsewhere. The actives are not touched. A standby that holds something else than its active
      is restored from its changelog, and the run is red. A job whose ``snapshots()`` names no place refuses.
    """
    stream = parts.stream
    form = {
        "action": Param(
            next(iter(_ACTIONS)), enum=list(_ACTIONS), values_display=_ACTIONS, title="What to do", section="What to do"
        ),
        "instances": instances_field(
            stream, "To pause, resume, stop, or of whose standbys. All of them means those that live. Topics: not read."
        ),
        "tasks": lines_field(
            "Tasks",
            "For standbys only: such as 0_3. None means all.",
            pattern=r"^\d+_\d+$",
            section="Instances",
        ),
    }
    some = f"{{{{ params.instances | length < {len(stream.instances)} }}}}"
    live = f"{{{{ params.instances | tojson if params.instances | length < {len(stream.instances)} else '' }}}}"
    standbys = {"instances": live, "tasks": "{{ (params.tasks or []) | join(',') }}", **parts.application}

    @task.branch(task_id="choose")
    def choose() -> list[str]:
        action: str = get_current_context()["params"]["action"]
        if action == "stop":
            return [f"stop_{name}" for name in chosen_instances()]
        return {"repair_topics": ["check_topics"], "resume": ["pause"]}.get(action, [action])

    with parts.dag(
        "operate",
        "Press it to pause, resume or stop, to check or repair topics, to certify or snapshot standbys",
        operate_dag.__doc__,
        form,
        max_active_runs=_RUNS_MANY,
    ) as dag:
        choose() >> [
            parts.check_topics(repair="{{ params.action == 'repair_topics' }}"),
            PauseProcessingOperator(
                task_id="pause", instances=live, resume="{{ params.action == 'resume' }}", **parts.application
            ),
            *(
                StopInstanceOperator(task_id=f"stop_{name}", instance=name, hand_over=some, **parts.application)
                for name in stream.instance_names
            ),
            CertifyStandbysOperator(task_id="certify_standbys", **standbys),
            SnapshotStandbysOperator(task_id="snapshot_standbys", **standbys),
        ]
    return dag


def reset_dag(parts: Parts) -> DAG:
    """Deletes all state of the application: its next deployment begins with nothing, and reads its sources again.

    First it lists what goes: changelogs, control topics, and the stores on each host. It goes on only where the id of
    the application was typed into the form, and refuses while an instance lives: stop them all first. Sources and
    outputs stay; what the job wrote into its sinks before it will write again.
    """
    stream = parts.stream
    form = {
        "confirm": Param(
            None,
            type=["null", "string"],
            title="Application id",
            description=f"Type {stream.application_id} to delete its state. Empty only lists what would go.",
            section="Reset",
        ),
        "delete_history": Param(
            False,
            type="boolean",
            title="Delete the history too",
            description="What is remembered of drills and failovers.",
            section="Reset",
        ),
    }
    confirm = "{{ params.confirm or '' }}"
    reset = {"stores": list(stream.stores), "delete_history": "{{ params.delete_history }}", **parts.application}

    @task.branch(task_id="confirm")
    def confirmed(known: list[str]) -> list[str]:
        typed = get_current_context()["params"]["confirm"]
        return [f"remove_state_{name}" for name in known] if typed else []

    with parts.dag(
        "reset", "Deletes all state. Press it only to begin again with nothing", reset_dag.__doc__, form
    ) as dag:
        listed = ResetApplicationOperator(task_id="list_what_goes", **reset)
        removed = [
            RemoveStateOperator(
                task_id=f"remove_state_{instance.name}",
                instance=instance.name,
                state_dir=parts.state_dir(instance),
                confirm=confirm,
                placement=instance.placement,
                **parts.application,
                **parts.queue(instance),
            )
            for instance in stream.instances
        ]
        deleted = ResetApplicationOperator(task_id="delete_topics", confirm=confirm, **reset)
        listed >> confirmed(stream.instance_names) >> removed >> deleted
    return dag
