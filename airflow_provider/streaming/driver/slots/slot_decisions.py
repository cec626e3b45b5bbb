"""What a slot's driver decides: functions of its goal, its last report and the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.status import Role, TaskState, TaskStatus
from airflow_provider.streaming.driver.slots.slot_report import SlotReport
from airflow_provider.streaming.worker.step.batch_processor import goes_on_from
from airflow_provider.streaming.worker.tasks.plan import TaskPlan

_ROUND_BUDGET_S: Final = 0.25
_RESTORE_BUDGET_S: Final = 1.0
_FAR_RECORDS: Final = 500_000
_CALM_ROUND_S: Final = 2.0
"""A standby may be that far behind when records come after a silence; the first round that finds some ends the calm."""
_NOTHING_FOLLOWED_S: Final = 5.0
"""Where no changelog is followed, a round finds out that the worker is gone, and no more."""


class SlotState(Enum):
    """What the thread of a slot's driver is about.

    ::

                 ┌──> STEADY <──┐
                 │              v
        BACKING_OFF <──────> SETTLING        each of the three ──> STOPPING ──> STOPPED
    """

    STEADY = "steady"
    """Every task is where it is to be: a round now and then follows the standbys' changelogs."""
    SETTLING = "settling"
    """A task is on its way: rounds follow each other without a pause."""
    BACKING_OFF = "backing off"
    """Something failed: no call is made and no query is started before it is tried again."""
    STOPPING = "stopping"
    """Queries end after their micro-batch, then a last round closes every task."""
    STOPPED = "stopped"
    """Nothing is called any more."""

    @property
    def successors(self) -> frozenset[SlotState]:
        """What may come next, besides itself."""
        return _SUCCESSORS[self]

    def transition(self, to: SlotState) -> SlotState:
        """The next state."""
        if to is not self and to not in self.successors:
            raise RuntimeError(f"A slot that is {self.value} cannot become {to.value}.")
        return to


_WORKING = frozenset({SlotState.STEADY, SlotState.SETTLING, SlotState.BACKING_OFF, SlotState.STOPPING})
_SUCCESSORS = {
    SlotState.STEADY: _WORKING,
    SlotState.SETTLING: _WORKING,
    SlotState.BACKING_OFF: _WORKING,
    SlotState.STOPPING: frozenset({SlotState.STOPPED}),
    SlotState.STOPPED: frozenset[SlotState](),
}


@dataclass(frozen=True)
class SlotGoal:
    """What the instance wants of one of its slots; the newest is the truth.

    Args:
        tasks: what to be for each task; a task that is not named is closed.
        paused: whether micro-batches are held back. Standbys go on following their changelogs.
        number: grows where what the tasks are to be changes.
    """

    tasks: tuple[TaskPlan, ...] = ()
    paused: bool = False
    stopping: bool = False
    number: int = 0

    def followed_by(self, tasks: tuple[TaskPlan, ...], paused: bool, stopping: bool = False) -> SlotGoal:
        """The next one."""
        return SlotGoal(tasks, paused, stopping, self.number + (tasks != self.tasks))

    @property
    def active(self) -> frozenset[TaskId]:
        """The tasks that this slot is to process."""
        return frozenset(plan.task for plan in self.tasks if plan.role is Role.ACTIVE)


def choose_slots(
    plans: Sequence[TaskPlan], assignment: Assignment, before: Mapping[TaskId, int], slots: int
) -> dict[TaskId, int]:
    """The slot of each task that an instance holds.

    A task stays in its slot, where its store is open, as long as the instance holds it. A new one goes to the slot with
    the fewest active tasks, then the fewest copies; a standby to where it would make the fewest if its active one were
    lost. Only where one slot has two active tasks more than another, the one that became active last moves: a slot
    is a core, and an idle core costs more than opening a store again.

    Args:
        before: the slots of the tasks that it held until now.
    """
    chosen = {plan.task: before[plan.task] for plan in plans if plan.task in before}
    active = {plan.task: plan.generation for plan in plans if plan.role is Role.ACTIVE}
    actives = Counter(chosen[task] for task in active if task in chosen)
    copies = Counter(chosen.values())
    follows = Counter((slot, assignment.tasks[task].active) for task, slot in chosen.items() if task not in active)
    for plan in sorted(plans, key=lambda plan: (plan.role is not Role.ACTIVE, plan.task)):
        if plan.task in chosen:
            continue
        owner = None if plan.task in active else assignment.tasks[plan.task].active
        slot = min(range(slots), key=lambda s: (actives[s] + follows[(s, owner)], copies[s], s))
        chosen[plan.task] = slot
        copies[slot] += 1
        if plan.task in active:
            actives[slot] += 1
        else:
            follows[(slot, owner)] += 1
    while True:
        by_load = sorted(range(slots), key=lambda s: (actives[s], s))
        emptiest, fullest = by_load[0], by_load[-1]
        if actives[fullest] - actives[emptiest] < 2:
            return chosen
        latest = max((generation, task) for task, generation in active.items() if chosen[task] == fullest)
        chosen[latest[1]] = emptiest
        actives[fullest] -= 1
        actives[emptiest] += 1


def is_settling(statuses: Collection[TaskStatus]) -> bool:
    """Whether a task is on its way. One with an error is tried again with the next round, so it hurries none."""
    well = [status for status in statuses if status.error is None]
    if any(status.state in (TaskState.OWNING, TaskState.RESTORING) for status in well):
        return True
    # A standby's restore takes every other quarter second beside an active task, and all of it where there is none.
    runs = any(status.state is TaskState.RUNNING for status in statuses)
    return not runs and any(status.restore.phase is not None for status in well)


def next_state(goal: SlotGoal, report: SlotReport, now: float, retry_at: float) -> SlotState:
    """What a slot that is not stopped is about.

    Args:
        retry_at: before when nothing is tried again, on the same clock.
    """
    if goal.stopping:
        return SlotState.STOPPING
    if now < retry_at:
        return SlotState.BACKING_OFF
    return SlotState.SETTLING if is_settling(report.statuses.values()) else SlotState.STEADY


def wait_s(report: SlotReport, round_interval_s: float, now: float, retry_at: float) -> float:
    """How long the slot's thread may sleep, in seconds, unless the goal changes or a query ends."""
    pause = 0.0 if is_settling(report.statuses.values()) else round_interval_s / 2
    return max(pause, retry_at - now)


def pause_s(failures: int, first_s: float) -> float:
    """How long to wait after that many failures in a row, in seconds: twice as long each time, up to five times.

    Not longer, because the first try after a broker's outage is what the task's users wait for.
    """
    return float(min(first_s * 2 ** max(0, failures - 1), 5 * first_s))


def round_is_due(
    state: SlotState, report: SlotReport, woken: bool, round_interval_s: float, now: float, retry_at: float
) -> bool:
    """Whether the worker is to be called although no micro-batch calls it.

    Args:
        woken: whether the goal changed or a query ended, or lookups wait.
        round_interval_s: how long the worker may be left alone while something happens.
        retry_at: when the last pause ended, on the same clock; what it put off is tried at once.
    """
    match state:
        case SlotState.SETTLING:
            return True
        case SlotState.STEADY:
            put_off = report.called_at < retry_at
            return woken or put_off or now - report.called_at >= round_pause_s(report, round_interval_s)
        case _:
            return False


def round_pause_s(report: SlotReport, round_interval_s: float) -> float:
    """How long a worker may be left alone, in seconds: twice as long after each call that found nothing new."""
    follows = any(status.role is Role.STANDBY for status in report.statuses.values())
    doubled = round_interval_s * 2.0 ** min(report.calm, 16)
    return max(round_interval_s, min(doubled, _CALM_ROUND_S if follows else _NOTHING_FOLLOWED_S))


def round_budget_s(statuses: Collection[TaskStatus]) -> float:
    """How long a round may follow changelogs, in seconds.

    Longer where all of the slot has far to go: nothing else waits for it then, and each round costs its start.
    """
    far = [s.restore.phase is not None and (s.lag_records or 0) > _FAR_RECORDS for s in statuses]
    return _RESTORE_BUDGET_S if far and all(far) else _ROUND_BUDGET_S


@dataclass(frozen=True)
class Brought:
    """How far a query has brought a task's rows without a gap.

    Args:
        generation: of the task's plan when the query began; another one's rows may not follow these.
        source_offset: at which the task's store stood when they were processed; None for none.
    """

    generation: int
    source_offset: int | None


def query_must_end(
    tasks: Collection[TaskId], goal: SlotGoal, brought: Mapping[TaskId, Brought], report: SlotReport
) -> bool:
    """Whether a query has no task left, or one whose next row it may not bring.

    One that was given away alone ends no query: another would have to get ready for the tasks that stay. Where it comes
    back, its next row is not known to be the next that the query brings. Nor is it where a store was restored from a
    changelog that lost its newest commits: no further row may come that would show the gap.

    Args:
        brought: by task, how far the query has brought it.
        report: no older than that.
    """
    active = {plan.task: plan.generation for plan in goal.tasks if plan.task in goal.active}
    theirs = [task for task in tasks if task in active]
    if goal.stopping or not theirs or any(active[task] != brought[task].generation for task in theirs):
        return True
    running = [status for task in theirs if (status := report.statuses.get(task)) and status.state is TaskState.RUNNING]
    return any(not goes_on_from(brought[status.task].source_offset, status.source_offset) for status in running)


def tasks_to_query(
    goal: SlotGoal, report: SlotReport, queried: Collection[TaskId], alone: Collection[TaskId] = ()
) -> Sequence[Mapping[TaskId, int | None]]:
    """The tasks that run and that no query reads yet, together by stage, because a query reads the sources of one.

    Args:
        report: what its worker said last; a task that runs in an earlier generation is not ready.
        queried: the tasks that queries read, or that none is to read.
        alone: those that get a query of their own.

    Returns:
        For each query, by task the offset of the next input record; None for the earliest there is.
    """
    if goal.stopping:
        return []
    ready: dict[tuple[int, int], dict[TaskId, int | None]] = {}
    for plan in goal.tasks:
        status = report.statuses.get(plan.task)
        if plan.role is not Role.ACTIVE or plan.task in queried or status is None:
            continue
        if status.state is TaskState.RUNNING and status.generation == plan.generation:
            own = plan.task.partition if plan.task in alone else -1
            ready.setdefault((plan.task.stage, own), {})[plan.task] = status.source_offset
    return [ready[of] for of in sorted(ready)]


def with_overlap(
    offsets: Mapping[TaskId, int | None], earliest: Mapping[int, int], latest: Mapping[int, int]
) -> Mapping[TaskId, int | None]:
    """Where a query begins so that its first micro-batch comes at once, also where nothing new has come.

    One task's record that was processed is read again, and dropped by the active step. A query that has brought a
    micro-batch waits without Spark (`SourceQuery`), and its first real one finds Spark's code compiled.

    Args:
        offsets: by task, of the next input record; None for the earliest there is.
        earliest: by partition, the first offset that the log still has.
        latest: by partition, the offset after the last. A task of whose log the end has fallen back begins where it
            stands, so that its query is refused: before that nobody would see it.
    """
    for task, offset in offsets.items():
        if offset is not None and earliest.get(task.partition, offset) < offset <= latest.get(task.partition, -1):
            return {**offsets, task: offset - 1}
    return offsets


def tasks_that_go_on(tasks: Mapping[TaskId, Brought], goal: SlotGoal, report: SlotReport) -> Mapping[TaskId, Brought]:
    """Those of a query's tasks whose next rows it may bring too, and how far it has brought them by now.

    A task whose rows were not processed is none of them: its next rows would leave a gap. Nor is one whose store stands
    before what was processed.

    Args:
        tasks: of the query, before the call that brought a micro-batch.
    """
    go_on = {}
    for task in tasks.keys() & goal.active & report.statuses.keys():
        status, before = report.statuses[task], tasks[task]
        if status.state is TaskState.RUNNING and goes_on_from(before.source_offset, status.source_offset):
            go_on[task] = Brought(before.generation, status.source_offset)
    return go_on
