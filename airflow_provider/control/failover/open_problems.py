"""What is wrong and left to people: nothing watches, no failover answers, a repair or a task waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_provider.common.causes import causes
from airflow_provider.common.table import utc
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.incident import SILENT_AFTER_S, IncidentRecord, Unanswered, Watcher
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.control.topics.view import ControlView


def watch_problem(application_id: str, last: Watcher | None, *, heard: bool) -> str | None:
    """What is wrong with the watching, in one line; None where an application is watched.

    Args:
        heard: whether one came while somebody listened for `SILENT_AFTER_S`.
    """
    if heard:
        return None
    if last is None:
        return (
            f"nothing watches {application_id}, and nothing ever did: unpause its failover DAG and run a triggerer, "
            "else no failure is answered."
        )
    return (
        f"nothing watches {application_id}: its watcher was last heard of at {utc(last.sent_at_ms)} (process "
        f"{last.pid} on {last.host}), and not within {SILENT_AFTER_S:g} s now. Look whether a triggerer runs and the "
        "failover DAG is unpaused."
    )


def watched_by(last: Watcher | None, *, watched: bool) -> str:
    """By whom an application is watched, and since when, in a few words."""
    if last is None:
        return "watched by none"
    who = f"process {last.pid} on {last.host}"
    if watched:
        return f"watched by {who} since {utc(last.began_at_ms)}"
    return f"watched by none, last by {who} until {utc(last.sent_at_ms)}"


def unanswered_problem(application_id: str, found: Unanswered, at_ms: int, *, by_watcher: bool = False) -> str:
    """What is wrong, and what to look at, in one line.

    Args:
        by_watcher: whether the watcher has answered it itself, so that no more than the repair waits for a run.
    """
    ago_s = (at_ms - found.reported_at_ms) / 1000
    what = f"{found.what} was reported {ago_s:.0f} s ago, and no failover has taken it up yet"
    if by_watcher:
        what = f"{found.what} was answered by the watcher {ago_s:.0f} s ago, and nothing repairs yet what that leaves"
    return (
        f"{what}: where no run of the DAG {application_id}_failover is under way, is that paused or stale, or does its "
        'file not parse? See "No failover run" in the runbook.'
    )


def unanswered_problems(view: ControlView) -> tuple[str, ...]:
    """A line for each incident that the watcher named last and that has no answer.

    Args:
        view: what the control topics hold; only a watcher that lives says what is so now.
    """
    return _of_watcher(view, by_watcher=False)


def unrepaired_problems(view: ControlView) -> tuple[str, ...]:
    """The same of each that the watcher has answered itself, and that no run has taken up since."""
    return _of_watcher(view, by_watcher=True)


def _of_watcher(view: ControlView, *, by_watcher: bool) -> tuple[str, ...]:
    watcher, lines = view.watcher, list[str]()
    if watcher is None:
        return ()
    for one in watcher.unanswered:
        answer = view.incidents.get(one.incident)
        if answer is not None and answer.no_candidate:  # reported again, since there is one
            answer = None
        done = answer is not None and (answer.taken_up or answer.holds)  # what moved nothing needs no repair
        if by_watcher is (answer is not None) and not done:
            at_ms = watcher.sent_at_ms
            lines.append(unanswered_problem(view.application_id, one, at_ms, by_watcher=by_watcher))
    return tuple(lines)


def open_incidents(view: ControlView) -> tuple[str, ...]:
    """The incidents that were answered and are not repaired, of each instance what is alike said once."""
    return causes_by_instance(view, view.unresolved_incidents, _open_incident)


def causes_by_instance(
    view: ControlView, records: Iterable[IncidentRecord], line: Callable[[IncidentRecord, Iterable[str]], str]
) -> tuple[str, ...]:
    """A line for each cause of incidents, those of one instance together (`causes`).

    Args:
        line: what is said of an incident and of its decisions, of which what is alike is one already.
    """
    names, lines = view.instance_names, dict[str, list[str]]()
    for record in records:
        lines.setdefault(record.incident.instance, []).append(line(record, causes(record.decisions, names)))
    return tuple(cause for of_instance in lines.values() for cause in causes(of_instance, names))


def _open_incident(record: IncidentRecord, decisions: Iterable[str]) -> str:
    decided = "; ".join(decisions) or record.incident.evidence
    since = f"since {utc(record.decided_at_ms)} ({decided})"
    what = f"{record.incident.kind.value} of {record.incident.instance or 'tasks'} is answered"
    if record.holds:
        return f"{what} and held {since}: correct what is said there; it is over by itself once its tasks work again."
    return (
        f"{what} and not repaired {since}: its repair is under way, or has failed: where no run of the repair DAG is "
        "under way, start one."
    )


@dataclass(frozen=True, kw_only=True)
class HeldTask:
    """A task that stands still until a person has done something."""

    task: TaskId
    instance: str
    error: str


def held_tasks(view: ControlView) -> tuple[HeldTask, ...]:
    """Those whose active copy says that it failed, on an instance that lives, in their order."""
    found = []
    for task_id, given in view.assignment.tasks.items() if view.assignment else ():
        status = view.statuses.get(given.active) if given.active else None
        copy = status.task(task_id) if status is not None and status.state.alive else None
        if copy is not None and (copy.role, copy.state) == (Role.ACTIVE, TaskState.FAILED):
            found.append(HeldTask(task=task_id, instance=given.active or "", error=copy.error or "it does not say why"))
    return tuple(found)
