"""The DAGs by which a person says what runs: deploy, upgrade, scale."""

from __future__ import annotations

from airflow.sdk import DAG, Param, task

from airflow_provider.factory.parts import WARM_TIMEOUT, Parts, chosen_instances, instances_field, timeouts
from airflow_provider.operators.instance_commands import StopInstanceOperator
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
    well, with the others as they were. One that was stopped is left so. With a dry run nothing is done, and each
    instance's task says what differs.
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
        for instance in parts.stream.instances:
            restart = parts.deploy(
                instance, f"upgrade_{instance.name}", on_change=on_change, trigger_rule="none_failed"
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
