"""Says what the control topics tell while the demo runs."""

from __future__ import annotations

from airflow_provider.control.report import FailoverReport, report
from airflow_provider.control.status import InstanceState
from airflow_provider.control.view import ControlView
from airflow_provider.demo.publisher import Publisher
from airflow_provider.demo.screen import Screen, bar

__all__ = ["Narrator", "processed"]


class Narrator:
    """Says each step of a failover once, when it is first heard of, and how far the data is.

    Args:
        screen: where to.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._told: FailoverReport | None = None

    def progress(self, view: ControlView, publisher: Publisher) -> None:
        """How much is published and processed, and who works."""
        states = []
        for name, status in sorted(view.statuses.items()):
            tasks = len(view.assignment.active_on(name)) if view.assignment else 0
            states.append(f"{name} {status.state.value}, {tasks} active")
        self._screen.show(
            f"{bar(publisher.published, publisher.total)} published {publisher.published:,}, "
            f"processed {processed(view):,}   {'   '.join(states)}"
        )

    def failover(self, view: ControlView, instance: str, incarnation: int, killed_ms: int) -> FailoverReport | None:
        """What is known of the failover of one process of an instance; None before it was answered.

        Args:
            view: of the control topics.
            instance: that was killed.
            incarnation: the process of it.
            killed_ms: when, epoch ms.
        """
        found = next(
            (
                report(record, view)
                for record in view.incidents.values()
                if (record.incident.instance, record.incident.incarnation) == (instance, incarnation)
            ),
            None,
        )
        known, self._told = self._told, found
        if found is not None:
            self._tell(known, found, killed_ms)
        return found

    def _tell(self, known: FailoverReport | None, found: FailoverReport, killed_ms: int) -> None:
        def after(at_ms: int | None) -> str:
            return "?" if at_ms is None else f"{(at_ms - killed_ms) / 1000:.1f} s after the kill"

        say = self._screen.say
        if known is None:
            say(f"  detected {after(found.detected_at_ms)}: {found.evidence}")
            say(f"  decided {after(found.decided_at_ms)} by the failover DAG, generation {found.generation}")
            for line in found.decisions:
                say(f"    {line}")
        if found.owned_at_ms and not (known and known.owned_at_ms):
            say(f"  promoted {after(found.owned_at_ms)}")
        if found.first_commit_at_ms and not (known and known.first_commit_at_ms):
            say(f"  all its tasks commit again {after(found.first_commit_at_ms)}")
        if found.resolved_at_ms and not (known and known.resolved_at_ms):
            say(f"  every task has a warm standby again {after(found.resolved_at_ms)}")


def processed(view: ControlView) -> int:
    """Input records that the active instances have committed, as their last heartbeats tell."""
    total = 0
    for number, task in enumerate(view.assignment.tasks if view.assignment else ()):
        status = view.statuses.get(task.active or "")
        told = status.task(number) if status and status.state is not InstanceState.ENDED else None
        total += (told.source_offset or 0) if told else 0
    return total
