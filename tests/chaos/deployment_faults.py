"""Faults of what is deployed: ended from outside, not able to start, another job than before."""

from __future__ import annotations

import random
import signal
import time

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceState, TaskStatus
from tests.chaos.cluster import Cluster
from tests.chaos.fault import Fault, came_true, promoted, task_of
from tests.chaos.health import health
from tests.chaos.ledger_job import CHANGES


class Terminate(Fault):
    """SIGTERM to the launcher of an instance, as from a person, or to all of it, as from a host that is drained."""

    name = "terminate"
    weight = 2.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, whole = chance.choice(cluster.names), chance.random() < 0.5
        launcher = cluster.launcher(victim)
        if not launcher:
            return ""
        cluster.signal([*launcher, *(cluster.processes(victim) if whole else ())], signal.SIGTERM)
        return f"{'all' if whole else 'the launcher'} of {victim}"


class FailingReplacement(Fault):
    """SIGKILL to two instances, of which one cannot be started again until its job is corrected."""

    name = "failing-replacement"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        task = task_of(cluster, chance)
        victims = [name for name in (task.active, *task.standbys) if name in cluster.names][:2] if task else []
        pause_s, variant, keep = chance.choice([0.0, 0.0, 2.0]), chance.choice(["broken", "misspelt"]), chance.random()
        if len(victims) < 2:
            return ""
        failing = victims[int(keep * 2)]
        known = cluster.view.statuses[failing].incarnation
        cluster.variants[failing] = variant
        try:
            for victim in victims:
                cluster.kill(victim)
                time.sleep(pause_s)

            def has_failed() -> bool:
                status = cluster.view.statuses.get(failing)
                return status is not None and status.incarnation > known and status.state is InstanceState.ENDED

            if came_true(cluster, has_failed, f"{failing} to end because its job is {variant}"):
                # As the repair, which gives up.
                cluster.supervisor.held.add(failing)
                others = [name for name in cluster.names if name != failing]
                marks = cluster.marks()

                def goes_on() -> bool:
                    now = health(cluster.view, cluster.supervisor.silent_for_s(), others)
                    return now.whole and now.beyond(marks)

                came_true(cluster, goes_on, f"{' and '.join(others)} to go on without {failing}")
        finally:
            del cluster.variants[failing]
            cluster.supervisor.held.discard(failing)
        return f"{' and '.join(victims)}, {pause_s:g} s apart; {failing} {variant}"


class ChangedJob(Fault):
    """An instance is deployed with a job that means something else by the state, and again as it was.

    It may be asked to go on with all tasks of which it has a copy, and has to refuse each.
    """

    name = "changed-job"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, change, promote = chance.choice(cluster.names), chance.choice(CHANGES), chance.random() < 0.6
        known = cluster.view.statuses.get(victim)
        if known is None or not cluster.processes(victim):
            return ""
        cluster.variants[victim] = change
        try:
            cluster.kill(victim)

            def copies() -> list[TaskStatus]:
                now = cluster.view.statuses.get(victim)
                newer = now is not None and now.incarnation > known.incarnation
                return list(now.tasks) if newer and now is not None and now.state is InstanceState.RUNNING else []

            def refused() -> bool:
                found = copies()
                return bool(found) and all(copy.error_kind == "ConfigurationError" for copy in found)

            def left_out() -> bool:
                """Nothing was given to it, now that the others have all copies that are wanted."""
                return not copies() and cluster.health().whole and victim not in _placed(cluster)

            what = f"{victim} to refuse the state under another {change}"
            answered = came_true(cluster, lambda: refused() or left_out(), what)
            if answered and promote and refused():
                tasks = {copy.task for copy in copies()}

                def to_victim(newest: Assignment) -> dict[TaskId, TaskAssignment]:
                    return {t: promoted(who, victim) if t in tasks else who for t, who in newest.tasks.items()}

                cluster.publish(to_victim, f"{victim} is to go on under another {change}")
                time.sleep(chance.random() * 10)
                came_true(cluster, refused, f"{what} as the active one")
        finally:
            del cluster.variants[victim]
            cluster.kill(victim)
        return f"{victim} with another {change}{', promoted' if promote else ''}"


def _placed(cluster: Cluster) -> tuple[str, ...]:
    """The instances that the newest generation names."""
    return cluster.view.assignment.instances if cluster.view.assignment else ()
