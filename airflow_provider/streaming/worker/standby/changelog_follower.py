"""The one loop that restores and follows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.reader import ChangelogPartition
from airflow_provider.changelog.restore_settings import RestoreSettings, Throttle
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.errors import BrokerUnreachableError, StatefulStreamsError, TopicBlockedError
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer
from airflow_provider.streaming.worker.tasks.replica_opening import values_before
from airflow_provider.streaming.worker.tasks.task import Task

_POLL_S = 0.02
_TOUCH_TIMEOUT_S = 1.0
_OPEN_TRANSACTION_S = 10.0
"""For how long an owner waits in silence for the end of a transaction that is not its own."""
_SILENCE_S = 5.0
"""After so long without a record an owner asks whether the end that it reads to is still there."""


class ChangelogFollower:
    """Applies the changelogs of a slot's tasks: of standbys without end, of restoring actives up to their end.

    Args:
        reader: of all changelogs of the slot.
        open_reader: makes another, for what is read beside that.
        on_applied: called with the followed tasks each time that something may have been applied.
        on_caught_up: called each time that all of them stand at their ends.
    """

    def __init__(
        self,
        *,
        reader: RestoreConsumer,
        open_reader: Callable[[], RestoreConsumer],
        tasks: Mapping[TaskId, Task],
        isolating: Callable[[TaskId], AbstractContextManager[None]],
        restore: RestoreSettings,
        on_applied: Callable[[Sequence[Task]], None],
        on_caught_up: Callable[[], None],
    ) -> None:
        self._reader, self._tasks, self._isolating, self._restore = reader, tasks, isolating, restore
        self._open_reader = open_reader
        self._on_applied, self._on_caught_up = on_applied, on_caught_up
        self._throttle = Throttle(restore.max_bytes_per_s)
        self._record_bytes: float | None = None
        self._blocked_since: dict[TaskId, float] = {}
        self._heard_at: dict[TaskId, float] = {}

    def follow(self, until: float) -> None:
        """Apply what the changelogs hold; returns once all is applied.

        Args:
            until: when to return at the latest, seconds of the monotonic clock; one look is taken all the same.
        """
        for task in list(self._tasks.values()):
            with self._isolating(task.id):
                self._begin(task)
                self._touch(task)
        while self._followed():
            self._complete_restored()
            for partition, batch in self._read(until).items():
                self._apply(partition, batch)
            self._complete_restored()
            self._on_applied(self._followed())
            behind = any(not task.replica.reached_end for task in self._followed())
            if not behind:
                self._on_caught_up()
            if time.monotonic() >= until or not behind:
                return

    def _followed(self) -> list[Task]:
        return [t for t in self._tasks.values() if t.state in (TaskState.FOLLOWING, TaskState.RESTORING)]

    def _begin(self, task: Task) -> None:
        """Begin to read where the store stands, if the task is not read yet, or the end that it reads to is gone."""
        if task.changelog_partition in self._reader.assigned:
            if not self._end_is_gone(task):
                return
            self._reader.remove(task.changelog_partition)
        if task.state is TaskState.FOLLOWING:
            bounds = self._reader.bounds(task.changelog_partition, task.replica.offset)
            self._reader.add(task.changelog_partition, task.resume(bounds))
        elif task.state is TaskState.RESTORING:
            self._begin_as_owner(task)

    def _end_is_gone(self, task: Task) -> bool:
        """Whether a new leader lacks what an owner reads to, so that it never comes; asked where nothing comes."""
        last_end, now = task.replica.last_end, time.monotonic()
        if task.state is not TaskState.RESTORING or last_end is None or now - self._heard_at[task.id] < _SILENCE_S:
            return False
        self._heard_at[task.id] = now
        with contextlib.suppress(BrokerUnreachableError):
            # A leader says none before it has all that was committed (KIP-207), unlike the end that comes with records.
            ends = self._reader.ends(task.changelog_partition, timeout_s=_TOUCH_TIMEOUT_S)
            return ends.end_for(task.replica.offset) < last_end
        return False

    def _begin_as_owner(self, task: Task) -> None:
        """Read up to the end, which is the last: nobody else can add to the changelog any more."""
        self._heard_at[task.id] = time.monotonic()
        ends = self._reader.ends(task.changelog_partition)
        if not ends.readable and not task.holds_all_before(ends.written):
            self._wait_for_end(task, ends.stable, ends.written)
            return
        self._blocked_since.pop(task.id, None)
        end = ends.end_for(task.replica.offset)
        offset = task.resume((ends.low, end), read_back=ends.readable)
        if ends.readable and offset < end:
            self._reader.add(task.changelog_partition, offset)
        else:
            # There is nothing to read: a standby was warm, or what cannot be read is the store's own last commit, whose
            # marker the brokers lost. No end is reported behind that, and the next commit ends it.
            task.apply(ChangelogBatch(next_offset=offset, at_end=True))

    def _wait_for_end(self, task: Task, first: int, end: int) -> None:
        """A transaction that has no end hides a part of the changelog from an owner.

        Its own and every earlier owner's have ended when it is fenced. What lies behind one that is open may be commits
        of this task: an owner that did not see them would process their records again.
        """
        if time.monotonic() - self._blocked_since.setdefault(task.id, time.monotonic()) > _OPEN_TRANSACTION_S:
            topic, partition = task.changelog_partition
            raise TopicBlockedError(
                f"{topic}[{partition}] holds a transaction that has no end: offsets {first} to {end - 1} cannot be "
                f"read, and task {task.id} processes nothing before they can. Another program writes into the "
                "changelog, or the brokers lost the end of a transaction while they had no leader for the partition. "
                "If the status shows another instance as the task's active one, leave it: its next commit ends it. "
                f"Else find it with kafka-transactions.sh find-hanging --topic {topic} --partition {partition}, end it "
                f"with kafka-transactions.sh abort --topic {topic} --partition {partition} --start-offset {first}. "
                "The task goes on by itself."
            )

    def _read(self, until: float) -> Mapping[ChangelogPartition, ChangelogBatch]:
        """As many records as the memory and the rate allow, for `_POLL_S` at the most beside a pause."""
        now = time.monotonic()
        if (pause_s := self._throttle.wait_s(now)) > 0:
            time.sleep(max(0.0, min(pause_s, until - now)))
            if pause_s > until - now:
                return {}
        batches = self._reader.read(self._restore.poll_records(self._record_bytes), _POLL_S)
        records = sum(batch.records for batch in batches.values())
        if records:
            size = sum(batch.record_bytes for batch in batches.values())
            self._record_bytes = size / records
            self._throttle.took(size, time.monotonic())
        return batches

    def _apply(self, partition: ChangelogPartition, batch: ChangelogBatch) -> None:
        task = next(task for task in self._tasks.values() if task.changelog_partition == partition)
        if batch.records:
            self._heard_at[task.id] = time.monotonic()
        with self._isolating(task.id):
            task.apply(batch)
            if task.state is TaskState.FAILED:
                self._reader.remove(partition)

    def _complete_restored(self) -> None:
        for task in list(self._tasks.values()):
            if task.restored:
                with self._isolating(task.id):
                    task.complete_restoration()
                    self._reader.remove(task.changelog_partition)
                    self._undo_torn_transaction(task)

    def _undo_torn_transaction(self, task: Task) -> None:
        """Bring a restored store, and its changelog, back to the last commit before a row is processed."""
        if task.state is not TaskState.RUNNING or (first := task.replica.uncommitted_from) is None:
            return
        partition = task.changelog_partition
        with closing(self._open_reader()) as reader:
            bounds = reader.bounds(partition)
            task.undo(values_before(reader, partition, bounds, first, self._restore), self._reader.consumer)

    def _touch(self, task: Task) -> None:
        """Keep a store that is followed from growing old: what is applied now is the changelog as of now.

        Where the changelog holds more, that is known once what it holds now is applied.
        """
        if not task.replica.touch_due:
            return
        # Of one that has failed only its own next try tells: this would count as one, and put that off.
        failed = task.state is TaskState.FAILED
        with contextlib.suppress(StatefulStreamsError if failed else BrokerUnreachableError):
            _, end = self._reader.bounds(task.changelog_partition, timeout_s=_TOUCH_TIMEOUT_S)
            if task.holds_all_before(end):
                task.replica.touch()
            else:
                task.replica.await_end(end)
