"""The DAGs that a person presses: deploy, upgrade, scale, one for all that loses nothing, and the reset."""

from __future__ import annotations

from typing import Final

from airflow.sdk import DAG, Context, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.factory.parts import WARM_TIMEOUT, Parts, chosen_instances, instances_field, lines_field, timeouts
from airflow_provider.operators.application_reset import RemoveStateOperator, ResetApplicationOperator
from airflow_provider.operators.instance_commands import (
    CertifyStandbysOperator,
    PauseProcessingOperator,
    SnapshotStandbysOperator,
    StopInstanceOperator,
)
from airflow_provider.operators.topics import CreateChangelogTopicsOperator
from airflow_provider.sensors.figures import StandbyLagSensor


def deploy_dag(parts: Parts) -> DAG:
    """Creates the topics, starts every instance, assigns the tasks, and ends when each has its warm standbys.

    Running it again changes nothing that is as it should be. It is also how an instance is added: name it in the file,
    and run this; it gets its share of the tasks as soon as its copies of them are warm.
    """
    stream = parts.stream
    on_change = Param(
        "fail",
        enum=["fail", "attach", "restart"],
        title="When an instance runs otherwise",
        description="A changed job file or setting: fail says what differs, attach leaves it, restart restarts all at "
        "once. Run the upgrade DAG to restart one after the other.",
        section="Instances",
    )
    with parts.dag(
        "deploy",
        "Press it for the first start, and to start what does not run: an instance that was added, or all after a stop",
        deploy_dag.__doc__,
        {"on_change": on_change, **timeouts()},
    ) as dag:
        topics = CreateChangelogTopicsOperator(
            task_id="create_topics", replication_factor=stream.replication_factor, **parts.topics(), **parts.application
        )
        deployed = [
            parts.deploy(instance, f"deploy_{instance.name}", on_change="{{ params.on_change }}")
            for instance in stream.instances
        ]
        topics >> deployed >> parts.assign("assign_tasks", "deployed") >> parts.warm() >> parts.balance()
    return dag


def upgrade_dag(parts: Parts) -> DAG:
    """Rolls a changed job file or setting over the instances, one by one, without a task standing still for long.

    Each instance hands its active tasks over to warm standbys first, so that only standbys are restarted; it stops,
    starts as the file describes it now, and is waited for until it has caught up. It ends at the first that is not
    well, with the others as they were; a task that is held on one of these is no reason to end, as the new version may
    be what corrects it. One that was stopped is left so. With a dry run nothing is done, and each instance's task says
    what differs.
    """
    dry_run = Param(
        False,
        type="boolean",
        title="Dry run",
        description="Only say what differs from the file, for each instance.",
        section="Upgrade",
    )
    on_change = "{{ 'report' if params.dry_run else 'upgrade' }}"
    with parts.dag(
        "upgrade",
        "Press it after a change of the job file or of a setting: restarts one instance after the other",
        upgrade_dag.__doc__,
        {"dry_run": dry_run, **timeouts()},
    ) as dag:
        before: StandbyLagSensor | None = None
        names = parts.stream.instance_names
        for number, instance in enumerate(parts.stream.instances):
            restart = parts.deploy(
                instance, f"upgrade_{instance.name}", on_change=on_change, trigger_rule="none_failed"
            )
            assign = parts.assign(
                f"assign_standbys_{instance.name}",
                f"{instance.name} upgraded",
                trigger_rule="none_failed",
                pre_execute=_skip_dry_run,
            )
            warm = parts.warm(f"wait_until_warm_{instance.name}", restarted_later=names[number + 1 :])
            restart >> assign >> warm
            if before is not None:
                before >> restart
            before = warm
        warm >> parts.balance()
    return dag


def _skip_dry_run(context: Context) -> None:
    if context["params"]["dry_run"]:
        raise AirflowSkipException("A dry run changes nothing.")


def scale_dag(parts: Parts) -> DAG:
    """Runs the application on the instances that the form names: starts those that do not run, stops the others.

    What is added is warm and has its share before anything is stopped; what is stopped hands its tasks over to warm
    standbys. A new instance is named in the file first.
    """
    stream = parts.stream
    form = {"instances": instances_field(stream, "Those that are to run afterwards."), **timeouts()}

    @task.branch(task_id="choose_starts")
    def choose_starts(known: list[str]) -> list[str]:
        return [f"deploy_{name}" for name in known if name in chosen_instances()]

    # A branch of its own: what lies behind a chosen task is not skipped by the branch that chose it.
    @task.branch(task_id="choose_stops")
    def choose_stops(known: list[str]) -> list[str]:
        return [*(f"stop_{name}" for name in known if name not in chosen_instances()), "assign_rest"]

    with parts.dag(
        "scale", "Press it to run on more, fewer or other instances, without a pause", scale_dag.__doc__, form
    ) as dag:
        started = [
            parts.deploy(instance, f"deploy_{instance.name}", on_change="attach") for instance in stream.instances
        ]
        stopped = [
            StopInstanceOperator(task_id=f"stop_{name}", instance=name, timeout_s=WARM_TIMEOUT, **parts.application)
            for name in stream.instance_names
        ]
        grown = parts.assign("assign_more", "scaled", trigger_rule="none_failed")
        rest = parts.assign("assign_rest", "scaled", trigger_rule="none_failed")
        chosen = choose_stops(stream.instance_names)
        choose_starts(stream.instance_names) >> started >> grown >> parts.warm("wait_until_grown") >> chosen
        chosen >> [*stopped, rest]
        stopped >> rest >> parts.warm() >> parts.balance()
    return dag


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
