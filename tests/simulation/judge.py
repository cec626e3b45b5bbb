"""What has to hold after each step, and what has to come in the end, by Jepsen's names for Kafka where they fit."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tests.simulation.airflow import TIMEOUTS
from tests.simulation.broker import Log, Partition, Record, Transaction
from tests.simulation.disk import Database
from tests.simulation.job import APPLICATION, SINK, STORE, Oracle
from tests.simulation.kernel import EPOCH_S
from tests.simulation.product import (
    COMMIT_KEY,
    POSITION_KEY,
    Assignment,
    ControlView,
    InstanceState,
    InstanceStatus,
    TaskId,
    TaskState,
    assignment_topic,
    detect,
    is_due,
    publisher_transactional_id,
    transactional_id,
)
from tests.simulation.spark import PROGRAMMING
from tests.simulation.windows import Windows


class Violation(Exception):
    """A promise was broken.

    Args:
        name: of the promise.
    """

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


_ANSWERED_S: Final = 30.0
_FENCED_S: Final = 20.0
"""Within this an owner owns again that was fenced by one that no assignment names."""
_SURE_S: Final = 8
"""For so long a copy has to have been warm to be missed."""


class _Source(msgspec.Struct):
    offset: int


class _Commit(msgspec.Struct):
    sequence: int
    generation: int
    instance: str
    incarnation: int
    sources: dict[str, _Source]


class _At(msgspec.Struct):
    offset: int
    own_commit_at: int | None = None
    uncommitted_from: int | None = None


class _Position(msgspec.Struct):
    changelogs: dict[str, _At]
    commit: bytes | None = None


def commit_of(data: bytes) -> _Commit:
    return msgspec.json.decode(data, type=_Commit)


class Judge:
    """Follows what the brokers decide and what the stores hold.

    Args:
        world: what is judged.
        oracle: what has to come of the input.
    """

    def __init__(self, world: Any, oracle: Oracle | Windows) -> None:
        self._world, self._oracle = world, oracle
        self._tasks = {transactional_id(APPLICATION, id): n for n, id in enumerate(world.job.tasks)}
        self._names = {str(id): n for n, id in enumerate(world.job.tasks)}
        self._of_changelog = {at: n for n, at in enumerate(world.changelogs)}
        self._publisher = publisher_transactional_id(APPLICATION)
        self._committed: dict[bytes, int] = {}
        self._lost: set[bytes] = set()
        """Commits that the brokers acknowledged, and aborted since."""
        self._owners: dict[tuple[int, int], str] = {}
        self._newest: dict[int, _Commit] = {}
        self._hidden: dict[int, _Commit] = {}
        """By task, a commit of which the brokers lost the marker, until the next end of a transaction decides."""
        self._assignment: Assignment | None = None
        self._named: dict[tuple[TaskId, int], set[str]] = {}
        """By task and generation, who was named its owner, in each life of the assignment topic."""
        self._seen: dict[tuple[Partition, bytes], int] = {}
        self._marked: dict[Partition, int] = {}
        self._due: dict[str, float] = {}
        self._fenced: dict[TaskId, float] = {}
        self.compacted_at: dict[Partition, int] = {}
        """Its end when it was compacted last."""
        self.cut_changelogs: set[Partition] = set()
        """Those of which a new leader lacked a part."""
        self._ahead: dict[int, bytes] = {}
        """By task, the last commit that its changelog has lost, until there is another."""
        self._repeats = False
        """Whether outputs were lost, or are made again, because a log lost what it had acknowledged."""
        self.tainted: set[int] = set()
        """Tasks of which the brokers lost a marker: of their outputs nothing is promised."""

    def taint(self, changelog: Partition) -> None:
        """The brokers lose a marker there."""
        self.tainted.add(self._of_changelog[changelog])

    # -- transactions --------------------------------------------------------------------------------------------

    def ended(self, transaction: Transaction, commit: bool) -> None:
        """The coordinator has decided."""
        self._world.kernel.note("txn", transaction.id, transaction.epoch, "commit" if commit else "abort")
        if not commit:
            return
        # Behind a dot a mutation may have put something.
        id = transaction.id.partition(".")[0]
        number = self._tasks.get(id)
        if number is not None:
            self._task_committed(number, transaction)
        elif id == self._publisher:
            self._published(transaction)

    def _records(self, transaction: Transaction, at: Partition) -> list[Record]:
        log: Log = self._world.broker.log(at, led=False)
        first = log.open.get(transaction.pid)
        if first is None:
            return []
        return [r for r in log.records[log.at(first) :] if r.transaction == transaction.number and r.marker is None]

    def _task_committed(self, number: int, transaction: Transaction) -> None:
        at, task_id = self._world.changelogs[number], self._world.job.tasks[number]
        changelog = self._records(transaction, at)
        name, (topic, partition) = f"task {task_id}", self._world.sources[number]
        if self._world.net.late and not any(self._records(transaction, each) for each in transaction.partitions):
            return  # a late request opened it, and a repeated end ended it: nothing is committed
        if not changelog or changelog[-1].key != COMMIT_KEY:
            raise Violation("torn transaction", f"{name} committed changes without a commit record behind them")
        data = changelog[-1].value or b""
        record = commit_of(data)
        source = record.sources[topic].offset
        offsets = transaction.groups.get(APPLICATION, {})
        # Those of a late request stay until the next commit's (docs/protocol.md): nothing reads them back.
        replaced = "offsets" in self._world.net.late and {(topic, partition): source} in transaction.offered
        if offsets != {(topic, partition): source} and not replaced:
            raise Violation("inconsistent offsets", f"{name} commits {source}, and for its group {offsets}")
        before = self._newest.get(number)
        if before is not None and record.generation < before.generation:
            raise Violation(
                "generations grow", f"{name}: {record.generation} of {record.instance} behind {before.generation}"
            )
        # What is hidden is aborted first, or its own producer goes on behind it.
        last = self._hidden.get(number, before)
        if last is not None and (record.sequence != last.sequence + 1 or source < last.sources[topic].offset):
            raise Violation(
                "lost write",
                f"{name}: sequence {record.sequence} at {source} follows {last.sequence}, {last.sources[topic].offset}",
            )
        owner = self._owners.setdefault((number, record.generation), record.instance)
        if owner != record.instance:
            raise Violation("one owner a generation", f"{name}: {owner} and {record.instance} in {record.generation}")
        named = self._named.get((task_id, record.generation), {record.instance})
        if record.instance not in named:
            raise Violation("one owner a generation", f"{name} is that of {sorted(named)}, {record.instance} committed")
        if isinstance(self._oracle, Oracle) and number not in self.tainted:
            begin = 0 if before is None else before.sources[topic].offset
            sinks = [sink for sink in sorted(transaction.partitions) if sink[0] == SINK]
            written = [record for sink in sinks for record in self._records(transaction, sink)]
            self._check_batch(self._oracle, number, begin, source, changelog[:-1], written)
        if at == self._world.broker.lose_marker:
            self._hidden[number] = record
            # What nobody can read tells nobody whose the generation was, when the assignments are lost as well.
            del self._owners[number, record.generation]
        else:
            self._newest[number] = record
            self._hidden.pop(number, None)
        self._committed[data] = number
        self._ahead.pop(number, None)
        self._world.kernel.passed("commit")

    def cut(self, at: Partition) -> None:
        """A new leader lacks what was acknowledged: a task goes on from the last commit that is left."""
        number, log = self._of_changelog.get(at), self._world.broker.log(at, led=False)
        self._repeats |= number is not None or at[0] == SINK or at in self._world.sources
        if at in self._world.sources and isinstance(self._oracle, Oracle):
            self._oracle.cut(at[1], log.end)
        if number is None:
            return
        left = [r.value for r in log.records if r.key == COMMIT_KEY and r.state == "committed" and r.value]
        last = next((data for data, of in reversed(self._committed.items()) if of == number), None)
        if last is not None and last not in left:
            self._ahead[number] = last
        self._hidden.pop(number, None)
        self._newest.pop(number, None)
        if left:
            self._newest[number] = commit_of(left[-1])
        # Whose a generation was is known by its commits alone, when the assignments are lost as well.
        known = self._newest[number].generation if left else 0
        self._owners = {of: owner for of, owner in self._owners.items() if of[0] != number or of[1] <= known}
        self.compacted_at[at] = min(self.compacted_at.get(at, 0), log.end)
        self.cut_changelogs.add(at)
        self._world.kernel.passed(f"cut {at[0]}")

    @staticmethod
    def _check_batch(
        oracle: Oracle, number: int, begin: int, end: int, changes: list[Record], written: list[Record]
    ) -> None:
        """The changes and outputs of a commit are those of its input, each once."""
        name = f"task 0_{number} from {begin} to {end}"
        wrong = oracle.processed(number, begin, end, [(r.key or b"", r.value or b"") for r in written])
        if wrong is not None:
            raise Violation("lost write", f"{name} {wrong}")
        keys = [r.key or b"" for r in written] if oracle.lost(number) else oracle.keys[number][begin:end]
        after = oracle.state(number, end)
        for change in changes:
            if change.value != after.get(change.key or b""):
                raise Violation("duplicate", f"{name}: {change.key!r} becomes {change.value!r}")
        expected = sorted(keys)
        found = sorted(record.key or b"" for record in written)
        if found != expected:
            what = "duplicate" if len(found) > len(expected) else "torn transaction"
            raise Violation(what, f"{name} puts out {found}, expected {expected}")

    def marked(self, at: Partition, pid: int, commit: bool) -> None:
        """Readers see what ended, or do not: outputs are looked at as a reader of the sink sees them."""
        number = self._of_changelog.get(at)
        if number is not None and commit and number in self._hidden:
            self._newest[number] = self._hidden.pop(number)
        if number is not None and not commit and self._hidden.pop(number, None) is not None:
            records = self._world.broker.log(at, led=False).records
            self._lost |= {r.value for r in records if r.key == COMMIT_KEY and r.pid == pid and r.state == "aborted"}
        if at[0] != SINK or not commit:
            return
        log: Log = self._world.broker.log(at, led=False)
        for record in log.records[log.at(self._marked.get(at, 0)) :]:
            if record.offset >= log.stable:
                break
            self._marked[at] = record.offset + 1
            if record.marker is None and record.state == "committed":
                self._output(at, record)

    def _output(self, at: Partition, record: Record) -> None:
        key = record.key or b""
        if isinstance(self._oracle, Windows):
            if (
                not (self.tainted or self._repeats)
                and (wrong := self._oracle.came_out(record.value or b"")) is not None
            ):
                raise Violation("wrong window", f"{at} offset {record.offset}: {wrong}")
            self._world.kernel.passed("window came out")
            return
        if int(key[1:2]) in self.tainted or self._repeats:
            return
        expected, seen = self._oracle.outputs[key], self._seen.get((at, key), 0)
        if seen >= len(expected) or record.value != expected[seen]:
            value = record.value or b""
            what = "duplicate" if value in expected[:seen] else "lost write" if value in expected else "aborted read"
            wanted = expected[seen] if seen < len(expected) else None
            raise Violation(what, f"{at} offset {record.offset}: {key!r} {value!r}, expected {wanted!r}")
        self._seen[at, key] = seen + 1

    # -- assignments ---------------------------------------------------------------------------------------------

    def forget_assignments(self) -> None:
        """The topic was created again, or lost its newest records."""
        self._assignment = None

    def _published(self, transaction: Transaction) -> None:
        kernel = self._world.kernel
        for record in self._records(transaction, (assignment_topic(APPLICATION), 0)):
            if record.key != b"assignment" or record.value is None:
                continue
            following = self._world.assignment_from(record.value)
            kernel.note("generation", following.generation, following.reason)
            kernel.passed("generation published")
            last = 0 if self._assignment is None else self._assignment.generation
            if following.generation <= last:
                raise Violation("generations grow", f"{following.generation} behind {last}")
            if self._assignment is not None:
                self._check_step(self._assignment, following)
            self._assignment = following
            for task_id, task in following.tasks.items():
                if task.active is not None:
                    self._named.setdefault((task_id, task.active_since), set()).add(task.active)

    def _check_step(self, before: Assignment, after: Assignment) -> None:
        """No step of a decision takes a warm copy away that is needed, but from an instance that all is moved off."""
        stay = after.instances
        for task_id, task in before.tasks.items():
            # What stands still there is no copy, whatever it says of itself.
            active = None if after.reason.startswith(f"failover of {task.active}:") else task.active
            copies = [name for name in (active, *task.standbys) if name and name in stay]
            warm = [name for name in copies if self._world.is_warm(name, task_id, _SURE_S)]
            follows = after.tasks.get(task_id)
            if follows is None:
                continue
            left = [n for n in (follows.active, *follows.standbys) if n and self._world.is_warm(n, task_id)]
            if len(left) < min(len(warm), 1 + self._world.standbys):
                raise Violation(
                    "warm copies stay", f"task {task_id}: warm on {warm}, generation {after.generation} leaves {left}"
                )

    # -- stores --------------------------------------------------------------------------------------------------

    def written(self, path: str, database: Database) -> None:
        """A store holds exactly a prefix of the commits."""
        position = _position_of(database)
        if position is None:
            return
        number = self._names[path.split("/")[-2]]
        changelog = self._world.changelogs[number]
        at = position.changelogs.get(changelog[0])
        if at is None or at.uncommitted_from is not None:
            return
        if position.commit is None:
            if any(data for family, data in database.families.items() if family != "default"):
                raise Violation("store is a prefix", f"{path} holds data and no commit")
            return
        if position.commit not in self._committed:
            raise Violation("store is a prefix", f"{path} holds a commit that was never made")
        if position.commit in self._lost and at.own_commit_at is None:
            raise Violation("lost write", f"{path} goes on from a commit that was aborted since")
        if at.offset < self.compacted_at.get(changelog, 0) or isinstance(self._oracle, Windows):
            return
        if number in self.tainted and self._oracle.lost(number):
            return  # what was processed is known by its outputs, at which nobody looked
        source = commit_of(position.commit).sources[self._world.sources[number][0]].offset
        found, expected = database.families.get(f"store-{STORE}", {}), self._oracle.state(number, source)
        if found != expected:
            raise Violation(
                "store is a prefix", f"{path} at {at.offset}, source {source}: {_difference(found, expected)}"
            )

    def _is_held(self, commit: bytes, of: TaskId, view: ControlView) -> bool:
        """Whether a task's store stands there: its owner's that is open, not one that was moved aside."""
        task = None if view.assignment is None else view.assignment.tasks.get(of)
        if task is None or task.active is None:
            return False
        databases = self._world.disk.of_host(self._world.hosts[task.active].root)
        positions = [_position_of(one) for one in databases if one.holder is not None and not one.holder.dead]
        return any(position is not None and position.commit == commit for position in positions)

    # -- what is answered ----------------------------------------------------------------------------------------

    def look(self, view: ControlView, now: float) -> None:
        """Nothing is green that stands still: what is wrong by the control topics is answered, and taken up, soon.

        Args:
            view: of the control topics as they are.
        """
        found = detect(view.assignment, view.statuses, view.silent_for_s, TIMEOUTS, view.heard_at_ms)
        running = [name for name in view.healthy(TIMEOUTS) if view.statuses[name].state is InstanceState.RUNNING]
        now_ms = int((EPOCH_S + now) * 1000)
        due = {one.id for one in found if is_due(one, view, running, self._world.standbys, now_ms=now_ms)}
        due |= {record.incident.id for record in view.unresolved_incidents if not record.taken_up}
        self._due = {id: self._due.get(id, now) for id in sorted(due)}
        for id, since in self._due.items():
            if now - since > _ANSWERED_S:
                raise Violation("unanswered incident", f"{id} has been there for {now - since:.0f} s")

        fenced = [] if view.assignment is None else [id for id in view.assignment.tasks if _is_fenced(view, id)]
        self._fenced = {id: self._fenced.get(id, now) for id in fenced}
        for task_id, since in self._fenced.items():
            if now - since > _FENCED_S:
                raise Violation("fenced owner", f"task {task_id} waits since {now - since:.0f} s and no other owns it")

    def reported(self, status: InstanceStatus) -> None:
        """What a task reports is never an error that the product does not mean to raise."""
        for task in status.tasks:
            kind = getattr(builtins, task.error_kind or "", None)
            if isinstance(kind, type) and issubclass(kind, PROGRAMMING):
                raise Violation(str(task.error_kind), f"task {task.task} of {status.instance} reports {task.error}")

    # -- in the end ----------------------------------------------------------------------------------------------

    def unfinished(self, view: ControlView) -> str | None:
        """What is still to come; None when everything is there.

        Args:
            view: of the control topics as they are.
        """
        broker = self._world.broker
        for number, ((topic, partition), changelog) in enumerate(
            zip(self._world.sources, self._world.changelogs, strict=True)
        ):
            source = broker.log((topic, partition), led=False)
            newest, ahead = self._hidden.get(number) or self._newest.get(number), self._ahead.get(number)
            if ahead is not None and self._is_held(ahead, self._world.job.tasks[number], view):
                newest = commit_of(ahead)  # by its owner, whom only its next commit tells
            readable = (r.offset for r in reversed(source.records) if r.marker is None and r.state == "committed")
            total, done = next(readable, -1) + 1, 0 if newest is None else newest.sources[topic].offset
            if done < total:
                return f"task {self._world.job.tasks[number]} has processed {done} of {total} records"
            if isinstance(self._oracle, Oracle) and done > source.end and not self._world.goes_on_after_loss:
                return f"task {self._world.job.tasks[number]} stands at {done}, its source ends at {source.end}"
            if broker.log(changelog, led=False).open and number not in self.tainted:
                return f"{changelog} has a transaction without an end"
        if isinstance(self._oracle, Windows):
            return None if self.tainted or self._repeats else self._oracle.missing()
        if not (self.tainted or self._repeats):
            for key, expected in self._oracle.outputs.items():
                seen = sum(count for (_, of), count in self._seen.items() if of == key)
                if seen != len(expected):
                    return f"{seen} of {len(expected)} outputs of {key!r} can be read"
        return None


def _position_of(database: Database) -> _Position | None:
    raw = database.families["default"].get(POSITION_KEY)
    return None if raw is None else msgspec.msgpack.decode(raw, type=_Position)


def _is_fenced(view: ControlView, task_id: TaskId) -> bool:
    """Whether the owner that the newest assignment names was fenced, and no other's commit says why."""
    assert view.assignment is not None
    assigned = view.assignment.tasks[task_id]
    status = view.statuses.get(assigned.active or "")
    task = None if status is None else status.task(task_id)
    if task is None or task.state is not TaskState.CLOSED or task.generation != assigned.active_since:
        return False
    return task.error_kind == "FencedError"


def _difference(found: Mapping[bytes, bytes], expected: Mapping[bytes, bytes]) -> str:
    keys = sorted(k for k in {**found, **expected} if found.get(k) != expected.get(k))
    return ", ".join(f"{k!r} is {found.get(k)!r}, expected {expected.get(k)!r}" for k in keys)
