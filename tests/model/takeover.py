"""The takeover protocol as a state machine: what `docs/protocol.md` says in words, and `Takeover.tla` in TLA+.

What a partition does depends on itself and on what all share, and on no other partition: the checker makes use of that.
Each rule of the protocol has a name in `RULES` and can be switched off; what that breaks is in `tests.model.mutations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from tests.model.state import LOST, Common, Copy, Record, Store, Task, aborted, applied, mirrored, restored, shown, size

__all__ = ["ACTIONS", "FAULTS", "RULES", "Bounds", "Label", "Takeover"]

RULES: Final = {
    "Fencing": "an owner's first call fences every earlier owner and aborts what it left open",
    "LastEnd": "the end of the changelog is asked for after the fencing",
    "WaitForHidden": "an owner waits for a transaction that hides a part of its changelog",
    "AbortForHolder": "an operator ends such a transaction only for the owner that fenced last",
    "GenerationCheck": "an owner that finds a later generation's commit processes nothing",
    "ResumeAtCommit": "rows are read from the offset of the last commit record on",
    "DropRows": "rows below the recorded offset are dropped",
    "OneTransaction": "outputs are in the transaction of their changes",
    "RecordLast": "the commit record is the last record of its transaction",
    "StoreAfterCommit": "the store is written after the transaction has ended",
    "OneWrite": "values and position are one write of the store",
    "OwnAgain": "after a commit whose outcome is not known, the task is owned again",
    "NewProducer": "no transaction begins on a producer whose last one took long to end",
    "AbortProvesNothing": "nor does one after a quick abort of a commit that failed",
    "ReadCommitted": "a standby reads what is committed",
    "ReadBack": "a store's own last commit is looked up in the changelog before the store is used again",
    "FencedFencesAgain": "an owner that was fenced without a newer assignment fences again",
    "PublisherFencing": "a publisher's first call fences every earlier publisher",
    "PublisherReadsFenced": "a publisher reads what it decides from after the fencing",
}

ACTIONS: Final = {
    "PublisherFences": "a publisher fences",
    "PublisherReads": "a publisher reads the newest assignment",
    "Publish": "a publisher publishes the next generation",
    "Crash": "{instance} crashes",
    "Restart": "{instance} starts again",
    "Adopt": "{instance} reads an assignment",
    "Fence": "{instance} calls init_transactions",
    "AskEnd": "{instance} asks for the end of the changelog",
    "OperatorAborts": "an operator aborts the transaction that hides the changelog's end",
    "ReadBack": "{instance} looks up its last commit",
    "Apply": "{instance} applies a record of the changelog",
    "Restored": "{instance} has restored its store",
    "Write": "{instance} writes a record of a transaction",
    "Refused": "{instance} is told that it was fenced",
    "Fail": "{instance} gives its producer up after an error",
    "Commit": "{instance} commits",
    "CommitSlow": "{instance} commits; the request was sent twice, and the first is still on its way",
    "CommitUnknown": "{instance} commits, and the answer is lost",
    "CommitUnmarked": "{instance} commits; the brokers say so, and lose the marker",
    "AbortSlow": "{instance} aborts a commit that failed, whose request is still on its way",
    "LateEnd": "the late request arrives",
    "WriteStore": "{instance} writes its store",
    "FenceAgain": "{instance} has waited in vain, and owns again",
    "StoreShrinks": "the last write of the store of {instance} is lost, which is down",
}
"""Every step that there is, by its name in the specification."""

FAULTS: Final = frozenset(
    {"Crash", "StoreShrinks", "Fail", "CommitSlow", "CommitUnknown", "CommitUnmarked", "AbortSlow", "LateEnd"}
)
"""What may befall the protocol at any time, and what it must not need in order to get on."""


@dataclass(frozen=True)
class Bounds:
    """How large the model is.

    Args:
        partitions: number of tasks.
        inputs: records of each partition's source.
        generations: assignments that are published.
        crashes: of instances, in all.
        late_ends: requests that are on their way for long, in all.
        lost_markers: commits that the brokers acknowledge without marking them, in all.
    """

    partitions: int = 1
    inputs: int = 2
    generations: int = 3
    crashes: int = 1
    late_ends: int = 1
    lost_markers: int = 1


class Label(NamedTuple):
    """A step: its name in `ACTIONS`, and the instance that takes it; None where none does."""

    action: str
    instance: int | None = None


Steps = Iterator[tuple[Label, Common, Task]]
CommonSteps = Iterator[tuple[Label, Common, Callable[[Task], tuple[Task, ...]]]]

_INSTANCES: Final = (0, 1)
_BUSY: Final = frozenset({"writing", "stored", "committed", "slow", "half"})
_IDLE: Final = ("idle", 0)


@dataclass(frozen=True)
class Takeover:
    """The protocol.

    Args:
        bounds: how large it is.
        off: rules that are not kept.
    """

    bounds: Bounds = Bounds()
    off: frozenset[str] = frozenset()

    def _rule(self, name: str) -> bool:
        return name not in self.off

    @property
    def initial(self) -> tuple[Common, tuple[Task, ...]]:
        """Nothing is assigned, and nothing processed."""
        bounds = self.bounds
        common = Common((), (_IDLE, _IDLE), (True, True), bounds.crashes, bounds.late_ends, bounds.lost_markers)
        return common, (Task(),) * bounds.partitions

    def mirrored(self, common: Common) -> Common:
        """What is shared, with the instances exchanged."""
        return common._replace(up=common.up[::-1])

    def mirrored_part(self, part: Task) -> Task:
        """A task with the instances exchanged."""
        return Task(
            tuple((1 - owner, since) for owner, since in part.owners),
            mirrored(part.log),
            mirrored(part.hidden),
            part.outputs,
            None if part.holder is None else 1 - part.holder,
            part.late,
            tuple(copy._replace(batch=mirrored(copy.batch)) for copy in reversed(part.copies)),
        )

    # -- publishers and processes --------------------------------------------------------------------------------

    def common_steps(self, common: Common) -> CommonSteps:
        """Steps that concern all tasks, and what each makes of a task; of several, one."""
        if len(common.generations) < self.bounds.generations:
            for number in range(len(common.publishers)):
                yield from self._publisher_steps(common, number)
        for i in _INSTANCES:
            up = tuple(not now if j == i else now for j, now in enumerate(common.up))
            if not common.up[i]:
                yield Label("Restart", i), common._replace(up=up), lambda task: (task,)
            elif common.crashes:
                crashed = common._replace(up=up, crashes=common.crashes - 1)
                yield Label("Crash", i), crashed, partial(_crashed, i)

    def _publisher_steps(self, common: Common, number: int) -> CommonSteps:
        """Fence, read, decide, publish. One that is fenced can publish nothing: it is idle again."""
        (phase, seen), other = common.publishers[number], common.publishers[1 - number]
        fenced_first = self._rule("PublisherReadsFenced")

        def to(phase: str, seen: int, other: tuple[str, int] = other) -> Common:
            return common._replace(publishers=tuple(sorted(((phase, seen), other))))

        if phase == "ready":
            generation = common.generations[seen - 1] + 1 if seen else 1
            published = to(*_IDLE)._replace(generations=(*common.generations, generation))
            if len(published.generations) == self.bounds.generations:
                published = published._replace(publishers=(_IDLE, _IDLE))  # none publishes any more
            yield Label("Publish"), published, lambda task: tuple(_assigned(task, seen, generation))
        elif phase == ("idle" if fenced_first else "read"):
            refused = self._rule("PublisherFencing") and other[0] in ("fenced", "ready")
            following = to("fenced" if fenced_first else "ready", seen, _IDLE if refused else other)
            yield Label("PublisherFences"), following, lambda task: (task,)
        else:
            following = to("ready" if fenced_first else "read", len(common.generations))
            yield Label("PublisherReads"), following, lambda task: (task,)

    # -- one task ------------------------------------------------------------------------------------------------

    def steps(self, common: Common, part: Task) -> Steps:
        """Steps that concern one task."""
        task = part
        for i in _INSTANCES:
            copy = task.copies[i]
            if not common.up[i]:
                if copy.store.position:
                    yield Label("StoreShrinks", i), common, _with(task, i, Copy(_shrunk(task, copy.store)))
                continue
            if copy.mode not in _BUSY and copy.plan < len(task.owners):
                yield Label("Adopt", i), common, _with(task, i, self._adopted(task, i))
            match copy.mode:
                case "owning":
                    for fenced in self._fenced(task, i):
                        yield Label("Fence", i), common, fenced
                case "fenced":
                    yield from self._ask_end(common, task, i)
                case "standby" | "restoring":
                    yield from self._follow(common, task, i)
                case "running" | "writing" | "stored":
                    yield from self._transact(common, task, i)
                case "committed" | "slow" | "half":
                    yield Label("WriteStore", i), common, _with(task, i, self._stored(task, copy))
                case "closed" if self._rule("FencedFencesAgain"):
                    yield Label("FenceAgain", i), common, _with(task, i, self._owning(task, copy))
        if task.late:
            yield Label("LateEnd"), common, _late_end(task)

    def _adopted(self, task: Task, i: int) -> Copy:
        """The same as before where it stays active since the same generation; else it begins again."""
        copy, plan = task.copies[i], len(task.owners)
        now, before = task.owners[plan - 1], task.owners[copy.plan - 1] if copy.plan else None
        if now[0] != i:
            following = copy._replace(plan=plan)
            return following if copy.mode == "standby" else Copy(copy.store, "standby", plan)
        return copy._replace(plan=plan) if now == before else self._owning(task, Copy(copy.store, plan=plan))

    def _owning(self, task: Task, copy: Copy) -> Copy:
        """Active, with no producer. Without `LastEnd` the end is asked for here."""
        return Copy(copy.store, "owning", copy.plan, 0 if self._rule("LastEnd") else len(task.log))

    def _fenced(self, task: Task, i: int) -> Iterator[Task]:
        """What was left open is aborted: with it may go an earlier commit that the brokers did not mark."""
        fenced = _with(task, i, task.copies[i]._replace(mode="fenced"))._replace(holder=i)
        if not self._rule("Fencing"):
            yield fenced
            return
        yield fenced._replace(late=False)
        if task.hidden:
            yield aborted(fenced._replace(late=False))

    def _ask_end(self, common: Common, task: Task, i: int) -> Steps:
        """Where the end is hidden by what the store holds as its own last commit, the next commit ends that too."""
        copy = task.copies[i]
        if not task.hidden or not self._rule("WaitForHidden"):
            end = len(task.log) if self._rule("LastEnd") else copy.at
            yield Label("AskEnd", i), common, _with(task, i, copy._replace(mode="restoring", at=end))
        elif copy.store.position == len(task.log) + size(task.hidden):
            yield Label("AskEnd", i), common, _with(task, i, copy._replace(mode="running", at=0))
        else:
            yield Label("FenceAgain", i), common, _with(task, i, self._owning(task, copy))
            if task.holder == i or not self._rule("AbortForHolder"):
                yield Label("OperatorAborts"), common, aborted(task)

    def _follow(self, common: Common, task: Task, i: int) -> Steps:
        """A standby without end, an owner up to the end: a record, and the position after it, in one write."""
        copy = task.copies[i]
        store, restoring = copy.store, copy.mode == "restoring"
        end = copy.at if restoring else len(task.log)
        readable = task.log if restoring else self._readable(task)
        if store.own:
            if store.position <= end:
                yield Label("ReadBack", i), common, _with(task, i, self._read_back(task, copy, end))
        elif store.position < (end if restoring else len(readable)):
            after = applied(store, readable[store.position])
            yield Label("Apply", i), common, _with(task, i, copy._replace(store=after))
        elif restoring:
            outdated = self._rule("GenerationCheck") and store.generation > task.owners[copy.plan - 1][1]
            ready = copy._replace(mode="outdated" if outdated else "running", at=0)
            yield Label("Restored", i), common, _with(task, i, ready)

    def _readable(self, task: Task) -> tuple[Record, ...]:
        """What a standby reads: without `ReadCommitted` also what the owner has written and not ended."""
        if self._rule("ReadCommitted") or task.holder is None:
            return task.log
        writer = task.copies[task.holder]
        opened = writer.batch[writer.cut : writer.step] if writer.mode == "writing" else ()
        return (*task.log, *(record for record in (*task.hidden, *opened) if record.kind != "output"))

    def _read_back(self, task: Task, copy: Copy, end: int) -> Copy:
        """Its last commit is there, or a later one that holds all of it; else the store is restored afresh."""
        store = copy.store
        later = (record for record in task.log[store.position : end] if record.kind == "commit")
        if task.log[store.position - 1] != LOST or any(record.next >= store.next for record in later):
            return copy._replace(store=store._replace(own=False))
        afresh = copy._replace(store=Store())
        return afresh if copy.mode == "standby" else self._owning(task, afresh)

    # -- a transaction -------------------------------------------------------------------------------------------

    def _transact(self, common: Common, task: Task, i: int) -> Steps:
        copy = task.copies[i]
        if copy.mode != "running":
            yield Label("Fail", i), common, _with(task, i, self._owning(task, copy))
        if self._rule("Fencing") and task.holder != i:
            # Where no input is left in the model, another comes some time.
            yield Label("Refused", i), common, _with(task, i, Copy(copy.store, "closed", copy.plan))
        elif copy.mode == "running":
            following = copy.store.next if self._rule("ResumeAtCommit") else copy.store.next + 1
            rows = range(following if self._rule("DropRows") else 0, min(following + 1, self.bounds.inputs))
            for row in rows:
                begun = copy._replace(mode="writing", batch=self._batch(task, i, row))
                yield Label("Write", i), common, self._written(task, i, begun)
        elif copy.step < len(copy.batch):
            yield Label("Write", i), common, self._written(task, i, copy)
        elif copy.mode == "writing" and not self._rule("StoreAfterCommit"):
            stored = self._stored(task, copy._replace(at=len(task.log) + size(copy.batch))).store
            yield Label("WriteStore", i), common, _with(task, i, copy._replace(mode="stored", store=stored))
        else:
            yield from self._end(common, task, i)

    def _batch(self, task: Task, i: int, row: int) -> tuple[Record, ...]:
        """Step 4: changes, outputs, commit record."""
        copy = task.copies[i]
        change = Record("change", value=(*copy.store.value, row))
        output = Record("output", value=(row,))
        commit = Record("commit", next=row + 1, generation=task.owners[copy.plan - 1][1], instance=i)
        return (change, output, commit) if self._rule("RecordLast") else (commit, change, output)

    def _written(self, task: Task, i: int, copy: Copy) -> Task:
        """One more record; without `OneTransaction` an output can be seen at once."""
        record, written = copy.batch[copy.step], _with(task, i, copy._replace(step=copy.step + 1))
        if record.kind == "output" and not self._rule("OneTransaction"):
            return written._replace(outputs=(*task.outputs, *record.value))
        return written

    def _end(self, common: Common, task: Task, i: int) -> Steps:
        """Each way in which a transaction may end, one that is stored already in the plain way alone."""
        copy = task.copies[i]
        records = copy.batch[copy.cut :]
        if not self._rule("OneTransaction"):
            records = tuple(record for record in records if record.kind != "output")
        ended, running = shown(task, i, records), Copy(copy.store, "running", copy.plan)
        if copy.mode == "stored":
            yield Label("Commit", i), common, _with(ended, i, running)
            return
        committed = copy._replace(mode="committed", at=len(ended.log), step=0, cut=0)
        again = self._owning(ended, copy)
        yield Label("Commit", i), common, _with(ended, i, committed)
        yield Label("CommitUnknown", i), common, _with(ended, i, again if self._rule("OwnAgain") else running)
        if common.late_ends:
            fewer, late = common._replace(late_ends=common.late_ends - 1), ended._replace(late=True)
            yield Label("CommitSlow", i), fewer, _with(late, i, committed._replace(mode="slow"))
            given_up = self._owning(task, copy) if self._rule("AbortProvesNothing") else running
            yield Label("AbortSlow", i), fewer, _with(task._replace(late=True), i, given_up)
        if common.lost_markers:
            fewer = common._replace(lost_markers=common.lost_markers - 1)
            hidden = task._replace(hidden=(*task.hidden, *records))
            yield Label("CommitUnmarked", i), fewer, _with(hidden, i, committed)

    def _stored(self, task: Task, copy: Copy) -> Copy:
        """Step 5: values and position in one write. A producer whose end was slow is given up then."""
        store = copy.store
        for record in copy.batch:
            store = applied(store, record)
        store = store._replace(position=copy.at, own=self._rule("ReadBack"))
        if copy.mode == "committed" and not self._rule("OneWrite"):
            return copy._replace(mode="half", store=store._replace(value=copy.store.value))
        running = Copy(store, "running", copy.plan)
        return self._owning(task, running) if copy.mode == "slow" and self._rule("NewProducer") else running


def _crashed(i: int, task: Task) -> tuple[Task, ...]:
    return (_with(task, i, Copy(task.copies[i].store)),)


def _with(task: Task, i: int, copy: Copy) -> Task:
    return task._replace(copies=(copy, task.copies[1]) if i == 0 else (task.copies[0], copy))


def _assigned(task: Task, seen: int, generation: int) -> Iterator[Task]:
    """Each task has an owner; one that keeps it has it since it got it."""
    known = task.owners[seen - 1] if seen else None
    for i in _INSTANCES:
        now = known if known is not None and known[0] == i else (i, generation)
        yield task._replace(owners=(*task.owners, now))


def _shrunk(task: Task, store: Store) -> Store:
    """As the store was at the commit before."""
    ends = (end for end in range(1, len(task.log) + 1) if end < store.position and task.log[end - 1].kind == "commit")
    return restored(task.log[: max(ends, default=0)])


def _late_end(task: Task) -> Task:
    """It ends whatever transaction of its producer is open."""
    arrived, i = task._replace(late=False), task.holder
    if i is None or (copy := task.copies[i]).mode != "writing":
        return arrived
    ended = shown(arrived, i, copy.batch[copy.cut : copy.step])
    return _with(ended, i, copy._replace(cut=copy.step))
