"""Whether an incident that was found is to be answered, or has an answer that stands."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider.control.failover.decide import Action, decide
from airflow_provider.control.failover.pace import pace_of
from airflow_provider.control.records.incident import Incident
from airflow_provider.control.topics.view import ControlView

__all__ = ["is_due"]


def is_due(
    incident: Incident, view: ControlView, candidates: Collection[str], num_standby_replicas: int = 1, *, now_ms: int
) -> bool:
    """Whether a run should decide about an incident.

    It is answered once. Only a task that is held because there was no other instance or because failovers followed each
    other too fast, or that waits for its own one, is decided about again, as soon as there is an instance that would
    get it. After another failover of a task that stood still it waits for its turn.

    Args:
        incident: what was found.
        view: what the control topics hold.
        candidates: the instances that live and may take a task over.
        num_standby_replicas: wanted standbys per task.
        now_ms: epoch ms.
    """
    if pace_of(incident, view.incidents.values(), now_ms).puts_off:
        return False
    known = view.incidents.get(incident.id)
    if known is None:
        return True
    waits = known.no_candidate or any(one.action is Action.KEEP or one.overloaded for one in known.plan)
    if not waits or view.assignment is None:
        return False
    plan = decide(
        incident,
        view.assignment,
        view.statuses,
        candidates,
        num_standby_replicas,
        answered=view.incidents,
        heard_at_ms=view.heard_at_ms,
        now_ms=now_ms,
    )
    return plan.assignment is not None
