"""What a reset of an application deletes: a pure function of what is there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.names import (
    assignment_topic,
    changelog_topic,
    history_topic,
    lookups_topic,
    metrics_topic,
    status_topic,
)


@dataclass(frozen=True)
class StateFolder:
    """Where an instance has its stores.

    Args:
        host: of its last process; empty while it is not known.
    """

    host: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class ResetPlan:
    """What goes.

    Args:
        topics: in the order in which they are deleted: the assignment last, so that a reset that was interrupted is
            still known as one of this application.
        state: by instance, the folder that a host has of it.
        records: by kind, how many records of the control topics go with them.
    """

    topics: tuple[str, ...]
    state: Mapping[str, StateFolder]
    records: Mapping[str, int]

    def __str__(self) -> str:
        folders = [f"stores of {name}: {at.folder} on {at.host or 'its host'}" for name, at in self.state.items()]
        records = ", ".join(f"{count} {kind}" for kind, count in self.records.items() if count)
        lines = [
            *(f"topic {topic}" for topic in self.topics),
            *folders,
            *([f"control records: {records}"] if records else []),
        ]
        return "\n".join(f"  - {line}" for line in lines) or "  nothing: no topic of it exists"


def plan_reset(
    view: ControlView, existing: Collection[str], stores: Sequence[str], *, delete_history: bool = False
) -> ResetPlan:
    """What a reset deletes."""
    app = view.application_id
    commits = sorted(name for name in existing if re.fullmatch(rf"{re.escape(app)}-\d+-commits", name))
    history = [history_topic(app)] if delete_history else []
    last = [lookups_topic(app), metrics_topic(app), status_topic(app), *history, assignment_topic(app)]
    # Of what was described only what has the names of its own topics: others are nobody's to delete here.
    own = re.compile(rf"{re.escape(app)}-.+-(changelog|repartition|commits)")
    named = () if view.job is None else (*view.job.own, *view.job.gone)
    described = [name for name in named if own.fullmatch(name)]
    names = dict.fromkeys((*(changelog_topic(app, store) for store in stores), *described, *commits, *last))
    state = {
        name: StateFolder(status.stores_host, status.disk.folder or _folder(view, name))
        for name, status in sorted(view.statuses.items())
    }
    records = {
        "generations": view.assignment.generation if view.assignment else 0,
        "instances": len(view.statuses),
        "deployments": len(view.deployments),
        "incidents": len(view.incidents),
        "drills' faults": len(view.faults),
    }
    return ResetPlan(topics=tuple(name for name in names if name in existing), state=state, records=records)


def _folder(view: ControlView, instance: str) -> str:
    deployment = view.deployments.get(instance)
    return deployment.state_dir if deployment is not None else ""
