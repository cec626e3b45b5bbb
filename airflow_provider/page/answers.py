"""What the page shows of an application, as values that JSON knows: pure functions of one look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.open_problems import watched_by
from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.history.report import known_recovery
from airflow_provider.control.outlook.forecast import Outlook
from airflow_provider.control.outlook.metrics_forecasts import MetricsForecasts, metrics_forecasts
from airflow_provider.control.outlook.predicted_rto import rto_basis, worst_rto_ms
from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.overview.verdict import Step, Verdict, Word
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord, history_key
from airflow_provider.control.records.incident import COMMAND_LINE, WATCHER, Action
from airflow_provider.control.records.job_description import JobDescription, StageDescription, TopicKind
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.records.status import InstanceStatus, Role, TaskStatus, progress_line
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.page.applications import Application
from airflow_provider.page.runbook import runbook

UNKNOWN: Final = "unknown"
"""Beside the words of `Word`: where nothing could be read."""

_MOST_EVENTS: Final = 100
_WORTH_MS: Final = 1000


def unknown_card(
    application: Application, why: str, step: Step | None = None, since_ms: int | None = None
) -> dict[str, Any]:
    """Of an application of which nothing can be said, and since when."""
    return {
        "id": application.id,
        "word": UNKNOWN,
        "reasons": [_reason(why, UNKNOWN, step)],
        "more_reasons": 0,
        "since_ms": since_ms,
        "dags": dict(application.dags),
        "slo_rto_ms": _slo_rto_ms(application),
    }


def card(
    application: Application,
    state: ApplicationState,
    history: Sequence[HistoryRecord],
    since_ms: int | None = None,
) -> dict[str, Any]:
    """What is seen of an application at a glance.

    Args:
        since_ms: since when it is not safe; None where it is, or that is not known.
    """
    found: Verdict = state.verdict
    reported = [task for task, _ in state.copies]
    active = [task for task in reported if task.role is Role.ACTIVE]
    copies = [task for task in reported if task.role is Role.STANDBY]
    assignment = state.view.assignment
    given = {(id_, name) for id_, task in assignment.tasks.items() for name in task.standbys} if assignment else set()
    warm = sum(task.ready and (task.task, status.instance) in given for task, status in state.copies)
    most = min(application.num_standby_replicas, max(0, len(state.instance_names) - 1))
    wanted = sum(max(most, len(task.standbys)) for task in assignment.tasks.values()) if assignment else 0
    inner, still = _inner_stages(state.view.job), found.word is Word.STANDING_STILL
    drills = [one for one in history if one.kind is HistoryKind.DRILL and one.outcome is not HistoryOutcome.SKIPPED]
    return {
        "id": application.id,
        "word": found.word.value,
        "reasons": [_reason(one.text, one.means.value, one.step) for one in found.reasons[:1]],
        "more_reasons": max(0, len(found.reasons) - 1),
        "since_ms": since_ms,
        "tasks": len(assignment.tasks) if assignment else 0,
        "instances": len(state.view.statuses),
        **_waiting(active, len(assignment.tasks) if assignment else 0),
        "records_per_s": _rate(task for task in active if task.task.stage not in inner),
        "standby_lag_records": max((task.lag_records or 0 for task in copies), default=None),
        "standbys_warm": warm,
        "standbys": wanted,
        # What stands still already costs more than any figure that is for the other tasks.
        "predicted_rto_ms": None if still else worst_rto_ms(state.predicted.values()),
        "predicted_by_default": not any(one.measured for one in state.predicted.values()),
        "slo_rto_ms": _slo_rto_ms(application),
        "last_drill": _event(application, drills[-1]) if drills else None,
        "dags": dict(application.dags),
    }


def details(state: ApplicationState) -> dict[str, Any]:
    """What is shown of one application besides its card, its trend and its time line."""
    view = state.view
    return {
        "reasons": [_reason(one.text, one.means.value, one.step) for one in state.verdict.reasons],
        "generation": view.assignment.generation if view.assignment else None,
        "watching": watched_by(view.watcher, watched=state.watched),
        "hosts": [_host(state, name) for name in sorted(state.instance_names)],
        "stages": _stages(state),
        "edges": _edges(view.job),
        "tasks_by_stage": _tasks_by_stage(state),
        "open_incidents": list(state.open_causes),
        "held_time": list(state.held_time),
        "uneven_load": state.uneven_load,
        "unreadable": len(view.unreadable),
    }


def timeline(
    application: Application, view: ControlView | None, history: Sequence[HistoryRecord]
) -> list[dict[str, Any]]:
    """What an application went through, the newest first, with what is under way as it is now."""
    known, recovered = {history_key(record): record for record in history}, set[str]()
    of_view = [] if view is None else [(one, known_recovery(one, view)) for one in view.incidents.values()]
    for incident, recovery in of_view:
        now = failover_record(incident, recovery)
        if recovery.over(now.tasks):
            recovered.add(now.id)
        noted = known.get(history_key(now))
        if noted is None or noted.outcome is HistoryOutcome.OPEN:
            known[history_key(now)] = now
    newest = sorted(known.values(), key=lambda record: (record.at_ms, record.id), reverse=True)[:_MOST_EVENTS]
    return [_event(application, record) | {"recovered": record.id in recovered} for record in newest]


def trend(
    application: Application,
    job: JobDescription | None,
    records: Sequence[MetricsRecord],
    history: Sequence[HistoryRecord],
    now_ms: int,
) -> dict[str, Any]:
    """Figures of the past, a point a minute, and what they say of disks, changelogs and replays."""
    slo = application.slo
    every = metrics_forecasts(
        records,
        now_ms,
        min_free_bytes=slo.disk_free_bytes,
        max_rto_s=slo.replay_rto_s,
        basis=rto_basis(history, {}),
    )
    known = MetricsForecasts(
        disks={name: one for name, one in every.disks.items() if one.outlook is not Outlook.NOT_ENOUGH},
        growths={task: one for task, one in every.growths.items() if one.records_per_day is not None},
        replays={task: one for task, one in every.replays.items() if one.outlook is not Outlook.NOT_ENOUGH},
    )
    ahead = known.lines()
    unknown = len(every.lines()) - len(ahead)
    inner = _inner_stages(job)
    # By minute, and by task or instance: two may speak of it in one minute, and the last is right.
    rates: dict[tuple[int, str], float] = {}
    lags: dict[tuple[int, str], float] = {}
    disks: dict[tuple[int, str], float] = {}
    before: dict[tuple[str, int, str], tuple[int, int]] = {}
    for record in records:
        minute = record.at_ms // 60_000
        for task in record.tasks:
            if task.role is not Role.ACTIVE:
                continue
            key = (record.instance, record.incarnation, str(task.task))
            of = (minute, str(task.task))
            if task.source_lag_records is not None:
                lags[of] = task.source_lag_records
            if task.task.stage in inner:
                continue
            if key in before:
                at_ms, processed = before[key]
                rates[of] = max(0, task.processed_records - processed) * 1000 / max(1, record.at_ms - at_ms)
            else:
                rates.setdefault(of, 0.0)
            before[key] = (record.at_ms, task.processed_records)
        disks[minute, record.instance] = record.disk_used_bytes
    minutes: dict[int, dict[str, float]] = {}
    for name, known_of in (("records_per_s", rates), ("source_lag_records", lags), ("disk_used_bytes", disks)):
        for (minute, _), value in known_of.items():
            point = minutes.setdefault(minute, {})
            point[name] = point.get(name, 0.0) + value
    return {
        "points": [
            {"at_ms": minute * 60_000, **{name: round(value, 1) for name, value in point.items()}}
            for minute, point in sorted(minutes.items())
        ],
        "ahead": [*ahead, *([f"no forecast yet of {unknown} more: there are too few records"] if unknown else [])],
    }


def _reason(text: str, means: str, step: Step | None) -> dict[str, Any]:
    titled = runbook().get(step.value) if step is not None else None
    return {
        "text": text,
        "means": means,
        "step": step.value if step is not None and titled else None,
        "step_title": titled[0] if titled else None,
    }


def _slo_rto_ms(application: Application) -> int | None:
    return None if application.slo.rto_s is None else round(1000 * application.slo.rto_s)


def not_safe_since_ms(
    state: ApplicationState, before_ms: int | None = None, safe_at_ms: int | None = None
) -> int | None:
    """Since when an application is not safe, by what was noted; None where it is, or nothing was.

    Args:
        before_ms: what the look before said: what was noted may be noted anew.
        safe_at_ms: when it was seen safe last: what was answered before that is not what is wrong now.
    """
    if state.verdict.word is Word.SAFE:
        return None
    view = state.view
    open_now = [one for one in state.open_records if one.decided_at_ms > (safe_at_ms or 0)]
    found = [one.failed_at_ms or one.detected_at_ms or one.decided_at_ms for one in open_now]
    found += [one.reported_at_ms for one in view.watcher.unanswered] if view.watcher and state.watched else []
    assigned = view.assignment.instances if view.assignment else ()
    for name, status in view.statuses.items():
        if name in state.silent or (not status.state.alive and (status.error is not None or name in assigned)):
            found.append(view.heard_at_ms.get(name, status.sent_at_ms))
    if view.watcher is not None and not state.watched:
        found.append(view.watcher.sent_at_ms)
    for task, status in state.copies:
        still_s = task.failed_s or task.source.stalled_s
        if task.role is Role.ACTIVE and (task.failed_s is not None or still_s > Timeouts.stall_s):
            found.append(status.sent_at_ms - round(1000 * still_s))
    return min([*found, *([] if before_ms is None else [before_ms])], default=safe_at_ms)


def _waiting(active: Sequence[TaskStatus], tasks: int) -> dict[str, int | None]:
    """How many records wait for tasks, and of how many of them that is not known."""
    known = [task.source.lag_records for task in active if task.source.lag_records is not None]
    return {"source_lag_records": sum(known) if known else None, "source_lag_unknown": max(0, tasks - len(known))}


def _inner_stages(job: JobDescription | None) -> set[int]:
    """Those that read what others write, so that a record counts once, however many stages it goes through."""
    return {edge["to"] for edge in _edges(job) if edge["of"] is not None and edge["to"] is not None}


def _rate(active: Iterable[TaskStatus]) -> float:
    return round(sum(task.records_per_s for task in active), 1)


def _host(state: ApplicationState, name: str) -> dict[str, Any]:
    status, assignment = state.view.statuses.get(name), state.view.assignment
    return {
        "instance": name,
        "state": state.instance_word(name),
        "lives": state.lives(name),
        "active_for": len(assignment.active_on(name)) if assignment else 0,
        "standby_for": len(assignment.standby_on(name)) if assignment else 0,
        **({} if status is None else _reported(status)),
    }


def _reported(status: InstanceStatus) -> dict[str, Any]:
    return {
        "host": status.process.host,
        "stores_host": status.stores_host,
        "incarnation": status.incarnation,
        "paused": status.paused,
        "error": status.error,
        "heard_at_ms": status.sent_at_ms,
        "disk_folder": status.disk.folder,
        "disk_used_bytes": status.disk.used_bytes,
        "disk_free_bytes": status.disk.free_bytes,
        "log_file": status.process.log_file,
    }


def _stages(state: ApplicationState) -> list[dict[str, Any]]:
    """The job's stages as it was described; where it was not, the numbers of its tasks'."""
    described = {stage.number: stage for stage in state.view.job.stages} if state.view.job else {}
    assigned = state.view.assignment.tasks if state.view.assignment else {}
    numbers = sorted({*described, *(task.stage for task in assigned)})
    active = [task for task, _ in state.copies if task.role is Role.ACTIVE]
    tasks = Counter(task.stage for task in assigned)
    return [
        _stage(number, described.get(number), [task for task in active if task.task.stage == number], tasks[number])
        for number in numbers
    ]


def _stage(number: int, stage: StageDescription | None, active: Sequence[TaskStatus], tasks: int) -> dict[str, Any]:
    return {
        "number": number,
        "name": stage.name if stage else f"stage {number}",
        "source": stage.source if stage else None,
        "steps": list(stage.steps) if stage else [],
        "operation": stage.operation if stage else None,
        "store": stage.store if stage else None,
        "key": stage.key.split(",") if stage else [],
        "outputs": list(stage.outputs) if stage else [],
        "records_per_s": _rate(active),
        **_waiting(active, tasks),
        "watermark_ms": min((t.time.watermark_ms for t in active if t.time.watermark_ms is not None), default=None),
        "late_records": sum(task.late_records for task in active),
        "left_out_records": sum(task.failed_records for task in active),
    }


def _edges(job: JobDescription | None) -> list[dict[str, Any]]:
    """Which topic leads from where to where; a stage by its number, the world outside as None."""
    if job is None:
        return []
    writers = {topic: stage.number for stage in job.stages for topic in stage.outputs}
    edges = [{"topic": one.source, "of": writers.get(one.source), "to": one.number} for one in job.stages]
    read = {stage.source for stage in job.stages}
    edges += [{"topic": topic, "of": of, "to": None} for topic, of in writers.items() if topic not in read]
    kinds = {topic.name: topic.kind.value for topic in job.topics}
    return [{**edge, "kind": kinds.get(str(edge["topic"]), TopicKind.SOURCE.value)} for edge in edges]


def _tasks_by_stage(state: ApplicationState) -> list[dict[str, Any]]:
    """Every assigned task with its copies, the active one first; a copy that is missing is one without a state."""
    assignment = state.view.assignment
    if assignment is None:
        return []
    reported = {(task.task, status.instance): (task, status) for task, status in state.copies}
    holders: dict[TaskId, list[str]] = {}
    for of, name in sorted(reported):
        holders.setdefault(of, []).append(name)
    found: dict[int, list[dict[str, Any]]] = {}
    for task_id, given in sorted(assignment.tasks.items()):
        further = [name for name in holders.get(task_id, ()) if name not in given.holders]
        predicted = state.predicted.get(task_id)
        found.setdefault(task_id.stage, []).append(
            {
                "task": str(task_id),
                "predicted_rto_ms": predicted.total_ms if predicted else None,
                "prediction": str(predicted) if predicted else None,
                "measured_rto_ms": state.measured_ms.get(task_id),
                "copies": [
                    _copy(state, name, name == given.active, reported.get((task_id, name)))
                    for name in (*given.holders, *further)
                ],
            }
        )
    return [{"stage": stage, "tasks": tasks} for stage, tasks in sorted(found.items())]


def _copy(
    state: ApplicationState, instance: str, active: bool, reported: tuple[TaskStatus, InstanceStatus] | None
) -> dict[str, Any]:
    if reported is None:
        return {
            "instance": instance,
            "role": "active" if active else "standby",
            # One that lives and was just told of it has not said anything of it yet.
            "state": "not reported yet" if state.lives(instance) else "missing",
        }
    task, status = reported
    left, done = task.lag_records or 0, task.restore.records
    restoring = task.restore.phase is not None
    return {
        "instance": instance,
        "role": task.role.value,
        "state": state.task_word(task, status),
        "lag_records": task.lag_records,
        "lag_s": task.lag_s,
        "error": task.error,
        "certified_at_ms": task.certificate.at_ms,
        "divergences": task.certificate.divergences,
        "restore": progress_line(task),
        "restored_share": done / (done + left) if restoring and done + left else None,
        "restored_in_s": task.restore.remaining_s if restoring else None,
        **(_of_active(task) if task.role is Role.ACTIVE else {}),
    }


def _of_active(task: TaskStatus) -> dict[str, Any]:
    return {
        "records_per_s": task.records_per_s,
        "source_lag_records": task.source.lag_records,
        "watermark_ms": task.time.watermark_ms,
        "late_records": task.late_records,
        "left_out_records": task.failed_records,
    }


def _phases(record: HistoryRecord) -> list[tuple[str, int]]:
    """The parts that were measured; before them what is left of the whole, where it was not watched."""
    # One that started again by itself may have been there before that was decided.
    known = [(name, max(0, ms)) for name, ms in record.rto.phases if ms is not None]
    if any(one.action is Action.HOLD for one in record.decisions):  # a person was waited for
        known = [("held" if name == "owned" else name, ms) for name, ms in known]
    rest_ms = (record.rto.total_ms or 0) - sum(ms for _, ms in known)
    return [("not answered", rest_ms), *known] if rest_ms >= _WORTH_MS else known


def _event(application: Application, record: HistoryRecord) -> dict[str, Any]:
    dag = f"drill_{record.cause}" if record.kind is HistoryKind.DRILL else record.kind.value
    # What the command line did has no run, nor has what a watcher decided, until one takes it up.
    run_id = None if record.by.startswith((COMMAND_LINE, WATCHER)) else record.by
    return {
        "kind": record.kind.value,
        "id": record.id,
        "cause": record.cause,
        "outcome": record.outcome.value,
        "at_ms": record.at_ms,
        "ended_at_ms": record.ended_at_ms,
        "phases_ms": _phases(record),
        "rto_ms": record.rto.total_ms,
        "slo_rto_ms": None if record.slo_rto_s is None else round(1000 * record.slo_rto_s),
        "slo_met": record.slo_met,
        "predicted_rto_ms": record.predicted_rto_ms,
        "evidence": record.evidence,
        "reason": record.reason,
        "decisions": [str(decision) for decision in record.decisions],
        "instances": list(record.instances),
        "tasks": [str(task) for task in record.tasks],
        "restored_records": record.restored_records,
        "lost_records": record.rpo.lost_records,
        "doubled_records": record.rpo.doubled_records,
        "by": record.by,
        "dag_id": application.dags.get(dag),
        "run_id": run_id if dag in application.dags else None,
    }
