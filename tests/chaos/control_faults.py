"""Faults of the control plane: of its publisher, its topics, and its instances' number."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from typing import Final

import psutil
from confluent_kafka.admin import AdminClient

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.placement.moves import hand_over
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import highest_generation
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.errors import BrokerUnreachableError, FencedError, TopicMissingError
from airflow_provider.kafka.topic_admin import TopicAdmin
from tests.chaos.cluster import Cluster
from tests.chaos.evidence import read
from tests.chaos.fault import Fault, came_true, is_named
from tests.chaos.supervisor import TIMEOUTS

_STARTED_S: Final = 60.0
_ENDED_S: Final = 60.0


class HeldUpstream(Fault):
    """A task that writes for another stage has no owner for 2 to 30 s, while the stage's other tasks go on."""

    name = "held-upstream"
    weight = 2.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        held, pause_s = chance.choice(cluster.workload.upstream), chance.choice([2.0, 10.0, 30.0])

        def without_owner(newest: Assignment) -> dict[TaskId, TaskAssignment]:
            task = newest.tasks[held]
            standbys = tuple(name for name in (task.active, *task.standbys) if name)
            return {**newest.tasks, held: TaskAssignment(None, standbys)}

        with cluster.supervisor.quiet:
            if not cluster.publish(without_owner, f"{held} is held"):
                return ""
            time.sleep(pause_s)
        return f"{held} for {pause_s:g} s"


class StopPublisher(Fault):
    """A publisher stands still in its transaction, and an instance may die; then it goes on, or is killed."""

    name = "stop-publisher"
    weight = 3.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        stop_s, victim = chance.choice([1.0, 5.0, 10.0, 35.0]), chance.choice([*cluster.names, None, None])
        killed = chance.random() < 0.4
        command = [sys.executable, "-m", "tests.chaos.stopping_publisher", cluster.connection.bootstrap_servers]
        with subprocess.Popen(
            [*command, cluster.application, str(chance.random())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as publisher:
            try:
                inside = _stands_still(psutil.Process(publisher.pid))
                if victim is not None:
                    cluster.kill(victim)
                if inside:
                    time.sleep(stop_s)
                publisher.send_signal(signal.SIGKILL if killed else signal.SIGCONT)
                said, _ = publisher.communicate(timeout=_ENDED_S)
            finally:
                publisher.kill()
        outcome = "killed" if killed else said.strip().splitlines()[-1][:200] if said.strip() else "silent"
        if not killed and publisher.returncode != 0:
            cluster.problems.append(f"the publisher that stood still for {stop_s:g} s ended with: {said[-2000:]}")
        died = f", {victim} died" if victim else ""
        return f"for {stop_s:g} s{'' if inside else ', not inside'}: {outcome}{died}"


class LoseControlTopic(Fault):
    """A control topic is deleted and, at once or later, created again by a person, who assigns the tasks again."""

    name = "lose-control-topic"
    weight = 1.5

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        which, gap_s = chance.choice(["assignment", "status"]), chance.choice([0.0, 0.0, 3.0, 25.0])
        topic = f"{cluster.application}-{which}"
        # Nothing is published that the judge would not know of.
        with cluster.supervisor.quiet:
            if which == "assignment":
                cluster.lost_assignments.append(read(cluster.connection.bootstrap_servers, topic))
            admin = AdminClient(dict(cluster.connection.to_client_config()))
            admin.delete_topics([topic])[topic].result(30)
            while TopicAdmin(cluster.connection).describe(topic) is not None:
                time.sleep(0.1)
            time.sleep(gap_s)
            cluster.workload.ensure_control_topics(cluster.connection)
        if which == "assignment":
            came_true(cluster, lambda: _assigned_again(cluster), "the tasks to be assigned again")
        return f"{topic} for {gap_s:g} s"


class AddInstance(Fault):
    """An instance is added, gets its share, and is removed: it is stopped, ended by a signal, or killed."""

    name = "add-instance"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        spare, how, pause_s = cluster.spare, chance.choice(["stop", "terminate", "kill"]), chance.choice([0.0, 2.0])
        cluster.names.append(spare)
        cluster.supervisor.balancing = True
        try:
            cluster.supervisor.deploy(spare)

            def has_its_share() -> bool:
                assignment = cluster.view.assignment
                active = assignment is not None and assignment.active_on(spare)
                return is_named(cluster, spare) and cluster.health().whole and bool(active or _few_tasks(cluster))

            came_true(cluster, has_its_share, f"{spare} to have its share")
            time.sleep(pause_s)
        finally:
            cluster.supervisor.balancing = False
            with cluster.supervisor.quiet:
                cluster.names.remove(spare)
                if how == "stop":
                    _hand_over(cluster, spare)
                    cluster.stop_instance(spare)
            if how != "stop":
                signals = {"terminate": signal.SIGTERM, "kill": signal.SIGKILL}
                processes = cluster.launcher(spare) if how == "terminate" else cluster.processes(spare)
                cluster.signal(processes, signals[how])
        came_true(
            cluster,
            lambda: not cluster.processes(spare) and not is_named(cluster, spare),
            f"{spare} to be gone after {how}",
        )
        return f"{spare}, removed by {how}"


def _stands_still(process: psutil.Process) -> bool:
    """Wait until it does; False where it ended or did not get there."""
    deadline = time.monotonic() + _STARTED_S
    while time.monotonic() < deadline:
        match process.status():
            case psutil.STATUS_STOPPED:
                return True
            case psutil.STATUS_ZOMBIE:
                return False
        time.sleep(0.1)
    return False


def _assigned_again(cluster: Cluster) -> bool:
    """As `AssignTasksOperator` does."""
    try:
        with cluster.supervisor.quiet:
            publisher = AssignmentPublisher(cluster.connection, cluster.application)
            view = publisher.view
            running = [n for n in view.healthy(TIMEOUTS) if view.statuses[n].state is InstanceState.RUNNING]
            if view.assignment is None and running:
                previous = Assignment.empty(cluster.application, cluster.workload.tasks)
                wanted = assign(previous, running, statuses=view.statuses)
                above = highest_generation(view.statuses.values())
                publisher.publish(previous.next(wanted, "assigned again after a loss", above))
            return view.assignment is not None
    except (FencedError, BrokerUnreachableError, TopicMissingError):
        return False


def _hand_over(cluster: Cluster, instance: str) -> None:
    """As `StopInstanceOperator` does."""
    try:
        publisher = AssignmentPublisher(cluster.connection, cluster.application)
        following = hand_over(publisher.view, instance, TIMEOUTS)
        if following is not None:
            publisher.publish(following)
    except (FencedError, BrokerUnreachableError, TopicMissingError):
        return


def _few_tasks(cluster: Cluster) -> bool:
    return len(cluster.workload.tasks) < len(cluster.names)
