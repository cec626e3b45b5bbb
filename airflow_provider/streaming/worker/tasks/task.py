"""One task in a Python worker: its store, and its producer when it is the active one."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import CommitRecord, LastCommit
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogPartition
from airflow_provider.changelog.rebuild import measure
from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState, TaskStatus
from airflow_provider.errors import ConfigurationError, OvertakenError, TopicMismatchError
from airflow_provider.failpoint import FailPoints
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.operations.batch import Changes
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.kafka_clients import KafkaClients
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from airflow_provider.streaming.worker.tasks.replica_opening import check_undo, continued_signature, resume_offset
from airflow_provider.streaming.worker.tasks.task_committer import BatchResult, TaskCommitter
from airflow_provider.streaming.worker.tasks.task_memory import ClosedOwner, Ownership, PartitionCheck, open_task_status

log = logging.getLogger(__name__)


class TaskLife:
    """Owns a task's state: one of `TaskState`, whose docstring has the picture. Every change goes by `transition`."""

    def __init__(self, task_id: TaskId, role: Role) -> None:
        self._task_id = task_id
        self.state = TaskState.initial(role)
        self.error: Exception | None = None
        """Why it is FAILED or waits CLOSED; None in every other state."""

    def transition(self, to: TaskState, error: Exception | None = None) -> None:
        """Go on to another state.

        Raises:
            RuntimeError: it is no successor; the state stays.
        """
        if to not in self.state.successors:
            allowed = ", ".join(sorted(state.name for state in self.state.successors))
            raise RuntimeError(
                f"Task {self._task_id} is {self.state.name} and cannot become {to.name}, only {allowed}: this is an "
                "error in the provider. Report it with the instance's log; until then restart the instance."
            )
        self.state, self.error = to, error


class Task:
    """What a worker holds of a task.

    Its states are those of `TaskState`. What it is for the task is in `plan`; how far it is, in the store.

    A promotion, from top to bottom:

    1. `promote`: the task is the active one from here on, and processes nothing yet.
    2. `fence`: no earlier owner can write any more, and what the last one left open is aborted.
    3. The end of the changelog is asked for. No other can add to it now, so it is the last
       (`ChangelogFollower.follow`, which then applies what the store lacks: `apply`).
    4. `complete_restoration`: the store holds all of it. It goes on from the last commit, unless that is a later
       owner's, or of a job that means something else by the state.
    5. `write`: its first commit.

    An error before the end of step 5, or a commit that took so long that its end may have been sent twice
    (`TransactionalProducer`), leads back to step 2 by `drop_producer`; a newer owner leads out of it by `on_fenced`.

    Args:
        kafka: makes the task's producer; nothing is sent before it fences.
        renew_digest: whether the digest in the last commit record is not gone on from.
        ownership: what the task did in the plan's generation before its store was closed; None for nothing.
    """

    def __init__(
        self,
        *,
        settings: InstanceSettings,
        job: StageSpec,
        plan: TaskPlan,
        replica: Replica,
        kafka: KafkaClients,
        failpoints: FailPoints,
        renew_digest: bool = False,
        ownership: Ownership | None = None,
    ) -> None:
        self.job = job
        self.operation: Operation = job.operation
        """The job's, on what the store holds."""
        self.settings = settings
        self.id: Final = plan.task
        self.partition: Final = plan.task.partition
        self.changelog_partition: Final[ChangelogPartition] = (replica.changelog, self.partition)
        self.plan = plan
        self.replica = replica
        self.partition_check: PartitionCheck | None = None
        """Whether groups belong into the task's partition; None where that is taken for granted, and before it runs."""
        self._life = TaskLife(plan.task, plan.role)
        self.committer = TaskCommitter(
            settings=settings,
            job=job,
            task_id=plan.task,
            replica=replica,
            kafka=kafka,
            failpoints=failpoints,
        )
        """Its producer, and what is said of each commit."""
        self._last_commit = LastCommit(replica.store, job.application_id, plan.task, replica.changelog)
        self.ownership: Final = ownership or Ownership()
        """The times and counts of what it does as the active one."""
        self._renew_digest = renew_digest

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> TaskState:
        """Where it is in its life."""
        return self._life.state

    @property
    def error(self) -> Exception | None:
        """Why it is FAILED, or waits CLOSED; None in every other state."""
        return self._life.error

    @property
    def commit_record(self) -> CommitRecord | None:
        """The last commit that the store is applied to; None before the first.

        Raises:
            TopicMismatchError: it is another application's.
        """
        return self._last_commit.read()

    @property
    def digest(self) -> str | None:
        """Of its store after the last commit; None before the first, and while it is not known."""
        record = self.commit_record
        return None if record is None else record.digests.get(self.replica.name)

    @property
    def source_offset(self) -> int | None:
        """Offset of the next input record to process; None before the first commit: from the earliest there is."""
        record = self.commit_record
        return None if record is None else record.source_offset(self.job.input.topic)

    # -- its life ------------------------------------------------------------------------------------------------

    def promote(self, plan: TaskPlan, renew_digest: bool | None = None) -> None:
        """Step 1: be the active one, or begin again as that, to be fenced and restored before it processes anything.

        Args:
            renew_digest: whether the digest in the commit records was found wrong; None for as known before.
        """
        self.plan = plan
        if renew_digest is not None:
            self._renew_digest = renew_digest
        self.committer.close()  # a producer fences once
        self._life.transition(TaskState.OWNING)
        self.ownership.begin()
        self.replica.begin_restore()

    def fence(self) -> None:
        """Step 2: fence every earlier owner and abort what it left open.

        After this no other than this task can add to its changelog, so the end that is asked for next is the last.

        Raises:
            BrokerUnreachableError: the coordinator did not answer in time.
        """
        self.committer.fence()
        self.ownership.take()
        self.replica.resume()
        self._life.transition(TaskState.RESTORING)

    @property
    def restored(self) -> bool:
        """Whether it is fenced and its store at the last end of the changelog: step 3 is done."""
        return self.state is TaskState.RESTORING and self.replica.reached_end and self.replica.lag_records == 0

    def complete_restoration(self) -> None:
        """Step 4: go on from the last commit, unless this job would misread it or another owner made it since.

        Since is also in this very generation: where the assignment topic was lost, its numbers come again.
        """
        record = self.commit_record
        own = (self.plan.generation, self.settings.instance)
        if record is None or record.generation < self.plan.generation or (record.generation, record.instance) == own:
            try:
                signature = continued_signature(self.job, record)
            except (ConfigurationError, TopicMismatchError) as error:
                self.fail(error)
                return
            self._life.transition(TaskState.RUNNING)
            self.operation = self.job.operation if signature is None else self.job.operation.going_on(signature)
            self.partition_check = self._new_partition_check()  # the store may hold more than when it last owned it
            # What is to be undone is proven by the digest that was committed.
            renew = self._renew_digest and self.replica.uncommitted_from is None
            self.committer.begin(record, renew, signature, self.operation.segments)
            self.ownership.resume(self.source_offset)
            self._renew_digest = False
            return
        self.committer.close()
        self._life.transition(
            TaskState.CLOSED,
            OvertakenError(
                f"Task {self.id} was given to {self.settings.instance!r} in generation {self.plan.generation}, but "
                f"{record.instance!r} has committed in generation {record.generation}: nothing is written until a "
                "newer assignment names this instance."
            ),
        )

    def undo(self, before: Sequence[Change], group: ConsumerGroup) -> None:
        """Write again what the changes behind the last commit replaced, under the next commit record.

        Args:
            before: of each of their keys, the value that the last commit stands for.

        Raises:
            TopicMismatchError: by the digest of the last commit these are not the values.
            StatefulStreamsError: as `write`.
        """
        record, first, name = self.commit_record, self.replica.uncommitted_from or 0, self.replica.name
        _, digest = measure(self.replica.store, name)
        torn = digest, self.replica.get_many([key for key, _ in before])
        undone = check_undo(self.changelog_partition, first, name, record, torn, before)
        assert record is not None  # without one nothing is proven
        self.write(
            BatchResult(
                changes=Changes(list(undone), []),
                source_offset=self.source_offset or 0,
                records=0,
                time=StreamTime.after(record),
                expired_before_ms=record.expired_before_ms.get(name),
                timers=record.timers,
            ),
            group,
        )
        log.warning(
            "%s[%d] held changes of %d key(s), from offset %d on, that no commit record followed: half of a torn "
            "transaction. They were undone, and its records are processed again. What it had put out cannot be undone: "
            "the sink may hold some of those outputs twice.",
            self.replica.changelog,
            self.partition,
            len(undone),
            first,
        )

    def demote(self, plan: TaskPlan) -> None:
        """Be a standby: write nothing, follow the changelog from where the store stands."""
        self.plan = plan
        self.committer.close()
        self._life.transition(TaskState.FOLLOWING)
        self.ownership.end()
        self.replica.resume()

    def drop_producer(self) -> None:
        """Give the producer up: what became of its last transaction is not known, or what may become of its next.

        An active task is fenced and restored again before it processes anything.
        """
        self.committer.close()
        if self.state in (TaskState.RESTORING, TaskState.RUNNING):
            self._life.transition(TaskState.OWNING)

    def on_fenced(self, error: Exception) -> None:
        """Another instance owns the task: wait for the newer assignment that says so."""
        self.committer.close()
        self._life.transition(TaskState.CLOSED, error)
        self.ownership.lose()

    @property
    def closed_owner(self) -> ClosedOwner:
        """What is to be known of it once its store is closed."""
        return ClosedOwner(self.plan, self.ownership, self._own_commit_record())

    @property
    def fenced_for_s(self) -> float:
        """How long it has waited for the assignment that explains why it was fenced; 0 where it does not wait."""
        return self.ownership.lost_for_s if self.state is TaskState.CLOSED else 0.0

    def fail(self, error: Exception) -> None:
        """Stop with an error; the state stays as of the last commit."""
        self.committer.close()
        self._life.transition(TaskState.FAILED, error)

    def close(self) -> None:
        """Give the store's lock back."""
        self.committer.close()
        self._life.transition(TaskState.CLOSED)
        self.replica.store.close()

    def _new_partition_check(self) -> PartitionCheck | None:
        number = self.job.input.num_partitions
        return None if number is None else PartitionCheck(self.partition, number, self._known_groups)

    def _known_groups(self) -> Iterator[bytes]:
        for key, _ in self.replica.items():
            yield from self.operation.groups([key])

    # -- its store -----------------------------------------------------------------------------------------------

    def write(self, result: BatchResult, group: ConsumerGroup) -> None:
        """Steps 4 and 5 of the protocol (``docs/protocol.md``): one Kafka transaction, then one RocksDB write batch.

        Where the transaction's end may come once more, the task is OWNING afterwards, and everything is written.

        Raises:
            RuntimeError: it is not RUNNING.
            StatefulStreamsError: what `TaskProducer.commit` and `Store.write` raise.
        """
        if self.state is not TaskState.RUNNING:
            raise RuntimeError(
                f"Task {self.id} is {self.state.name} and must not write: only a RUNNING task may, after "
                "fence() and complete_restoration()."
            )
        began = time.monotonic()
        self.committer.commit(result, self.commit_record, self.plan.generation, group)
        self.ownership.count_commit(result.records, time.monotonic() - began, result.lateness)
        if not self.committer.reusable:
            self.drop_producer()

    def apply(self, batch: ChangelogBatch) -> None:
        """Apply consecutive records of the changelog; a changelog that is another application's fails the task.

        Raises:
            StatefulStreamsError: as `Replica.apply`.
        """
        self.replica.apply(batch)
        try:
            self._last_commit.read()
        except TopicMismatchError as error:
            self.fail(error)

    def resume(self, bounds: tuple[int, int], *, read_back: bool = True) -> int:
        """The changelog is read from the store's position on.

        Raises:
            StoreOutdatedError: the store must not be resumed.
        """
        self.replica.resume()
        offset = resume_offset(self.replica, bounds, self.job.store.delete_retention_ms, read_back=read_back)
        self.replica.expect_end(bounds[1], last=self.state is TaskState.RESTORING)
        return offset

    def holds_all_before(self, end: int) -> bool:
        """Whether the store lacks nothing of a changelog that ends there."""
        # Behind the last commit of a running task lies that commit's marker.
        return end <= self.replica.offset + (self.state is TaskState.RUNNING)

    # -- its report ----------------------------------------------------------------------------------------------

    def status(self) -> TaskStatus:
        """For the heartbeat."""
        return open_task_status(
            plan=self.plan,
            state=self.state,
            error=self.error or self._hindrance(),
            replica=self.replica,
            ownership=self.ownership,
            record=self._own_commit_record(),
            job=self.job,
        )

    def _hindrance(self) -> Exception | None:
        """What a standby's promotion would meet; it goes on following, because its store is as it should be."""
        if self.state is TaskState.FOLLOWING:
            try:
                continued_signature(self.job, self.commit_record)
            except (ConfigurationError, TopicMismatchError) as error:
                return error
        return None

    def _own_commit_record(self) -> CommitRecord | None:
        with contextlib.suppress(TopicMismatchError):  # reported where it is applied; it must not hold up other tasks
            return self.commit_record
        return None
