"""The product broken on purpose, one way after the other: each has to be found.

A mutation replaces text in a function, so it says itself what it breaks. Where the text is not there any more, the
mutation has to be written anew: `applied` says so.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import multiprocessing
import textwrap
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FunctionType
from typing import Any, Final

from tests.simulation import schedule
from tests.simulation.faults import Fault
from tests.simulation.kept import KEPT, Kept
from tests.simulation.runner import run_many, shrink
from tests.simulation.schedule import Outcome
from tests.simulation.size import LONG_EVERY

_NUMBER: Final = "'.%d' % __import__('tests.simulation.mutations', fromlist=['number']).number()"
_WORKER: Final = "airflow_provider.streaming.worker"
_MOST: Final = 3000
_LONG: Final = range(LONG_EVERY, LONG_EVERY * _MOST, LONG_EVERY)
_OF_STAGES: Final = range(5, 16 * _MOST, 16)


_NO_LOOK: Final = (
    "airflow_provider.changelog.replica:Replica.position_after_commit",
    "if begin < at or (",
    "if begin < 0 and (",
)
"""Left out with what it would hide: an owner that looks before each commit finds what another has written."""

_NO_READ_BACK: Final = (
    "airflow_provider.changelog.completeness:LastCommitRead.read_back",
    "at = position.commit_at if position.own_commit_at is None else position.own_commit_at",
    "at = position.own_commit_at",
)
"""Left out with what it would hide: a store that reads its last commit back finds most of what was cut."""


@dataclass(frozen=True)
class Mutation:
    """A rule that is not kept.

    Args:
        name: of the rule, as in `docs/model.md` where that has it.
        rule: what is not kept.
        changes: module and function, and what is replaced in it by what.
        faults: the kinds of faults that it is looked for with.
        seeds: and the schedules.
    """

    name: str
    rule: str
    changes: tuple[tuple[str, str, str], ...]
    faults: tuple[str, ...] = ()
    seeds: range = range(1, _MOST + 1)


MUTATIONS: Final = (
    Mutation(
        "Fencing",
        "an owner fences every earlier owner",
        (
            (
                f"{_WORKER}.tasks.kafka_clients:ClusterClients.open_writer",
                "transactional_id(job.application_id, task_id)",
                f"transactional_id(job.application_id, task_id) + {_NUMBER}",
            ),
            _NO_LOOK,
        ),
        faults=(
            "pause_at",
            "zombie_worker_at",
            "pause",
            "cut_in",
        ),
    ),
    Mutation(
        "LastEnd",
        "the end of the changelog is asked for after the fencing",
        (
            (
                f"{_WORKER}.standby.changelog_follower:ChangelogFollower._begin_as_owner",
                "end = ends.end_for(task.replica.offset)",
                "end = task.replica.end or 0",
            ),
            _NO_LOOK,
        ),
        faults=(
            "fail_over_by_hand",
            "two_failovers",
            "kill",
            "pause",
        ),
    ),
    Mutation(
        "WaitForHidden",
        "an owner waits for a transaction that hides a part of its changelog",
        (
            (
                f"{_WORKER}.standby.changelog_follower:ChangelogFollower._begin_as_owner",
                "if not ends.readable and",
                "if False and",
            ),
        ),
        faults=(
            "lose_marker",
            "kill",
            "fail_over_by_hand",
        ),
    ),
    Mutation(
        "GenerationCheck",
        "an owner that finds a later generation's commit processes nothing",
        (
            (
                f"{_WORKER}.tasks.task:Task.complete_restoration",
                "record.generation < self.plan.generation",
                "record.generation > 0",
            ),
        ),
        faults=("deaf_owner_at", "kill"),
    ),
    Mutation(
        "OneOwnerAGeneration",
        "an owner that finds another's commit of its own generation, which came again, processes nothing",
        (
            (
                f"{_WORKER}.tasks.task:Task.complete_restoration",
                "or (record.generation, record.instance) == own",
                "or record.generation == own[0]",
            ),
        ),
        faults=("begin_again", "kill", "fail_over_by_hand"),
    ),
    Mutation(
        "Renewed",
        "an owner that waits for a newer assignment than the newest gets one",
        (
            (
                "airflow_provider.control.failover.detection:_overtaken",
                "task.state is TaskState.CLOSED",
                "False",
            ),
        ),
        faults=("begin_again", "kill", "fail_over_by_hand"),
    ),
    Mutation(
        "DropRows",
        "rows below the recorded offset are dropped",
        ((f"{_WORKER}.step.active_step:active_step", "if recorded is not None:", "if recorded == -1:"),),
        faults=(
            "kill_worker_at",
            "pause",
            "unanswered",
            "kill_at",
        ),
    ),
    Mutation(
        "ResumeAtCommit",
        "a store is read from its position on",
        (
            (
                f"{_WORKER}.tasks.replica_opening:resume_offset",
                "if read_back else found.offset",
                "if read_back and not found.offset else found.offset + 1",
            ),
        ),
        faults=(
            "kill",
            "kill_worker",
            "fail_over_by_hand",
        ),
    ),
    Mutation(
        "RecordLast",
        "the commit record is the last record of its transaction",
        (
            (
                "airflow_provider.changelog.writer:TransactionalWriter.commit",
                "for changelog, pairs in changes.items():",
                "self._put_commit_record(changes, record, positions)\n        for changelog, pairs in changes.items():",
            ),
            (
                "airflow_provider.changelog.writer:TransactionalWriter.commit",
                "partition\n        self._put_commit_record(changes, record, positions)\n",
                "partition\n",
            ),
            _NO_LOOK,
        ),
        faults=("late",),
    ),
    Mutation(
        "StoreAfterCommit",
        "the store is written after the transaction has ended",
        (
            (
                f"{_WORKER}.tasks.task_committer:TaskCommitter.commit",
                "self._writer.commit(",
                "first, early = self._replica.store.position or Position(), self._replica.offset + len(state) + 2\n"
                "    ahead = self._replica.position_after_commit(early, len(state) + 1, lambda *_: False)\n"
                "    self._replica.store.write({self._replica.name: state}, first.moved(changelog, ahead, raw), {})\n"
                "    self._writer.commit(",
            ),
        ),
        faults=(
            "kill_at",
            "unanswered",
        ),
    ),
    Mutation(
        "NewProducer",
        "no transaction begins on a producer whose last one took long to end",
        (
            (f"{_WORKER}.tasks.task:Task.write", "if not self.committer.reusable:", "if self.committer is None:"),
            (
                "airflow_provider.kafka.transactional_producer:TransactionalProducer.begin",
                "if not self._ended_once:",
                "if self._ended_once is None:",
            ),
        ),
        faults=("overtaken:produce",),
    ),
    Mutation(
        "OwnAgain",
        "after a commit whose outcome is not known, the task is owned again",
        (
            (
                f"{_WORKER}.task_registry:TaskRegistry._react",
                "task.drop_producer()",
                "task.committer",
            ),
        ),
        faults=("cut_worker_at:commit.offsets",),
    ),
    Mutation(
        "ReadCommitted",
        "a standby reads what is committed",
        (
            (
                "airflow_provider.changelog.reader:ChangelogReader.__init__",
                "config | _FETCH |",
                "config | _FETCH | {'isolation.level': 'read_uncommitted'} |",
            ),
        ),
        faults=(
            "kill_at",
            "kill_worker_at",
            "unanswered",
        ),
    ),
    Mutation(
        "ReadBack",
        "a store's own last commit is looked up in the changelog before the store is used again",
        (
            (
                "airflow_provider.changelog.replica:Replica.read_back",
                "return self._last_commit.read_back(self.position, offset, low)",
                "return offset",
            ),
        ),
        faults=("lose_commit",),
    ),
    Mutation(
        "FencedFencesAgain",
        "an owner that was fenced without a newer assignment fences again",
        (
            (
                f"{_WORKER}.slot:PlanExecution.apply_plan",
                "if task.fenced_for_s > _FENCE_AGAIN_S:",
                "if task.fenced_for_s > 1e9:",
            ),
        ),
        faults=("deaf_owner_at",),
    ),
    Mutation(
        "PublisherFencing",
        "a publisher fences every earlier publisher",
        (
            (
                "airflow_provider.control.topics.publisher:AssignmentPublisher.__init__",
                "publisher_transactional_id(application_id),",
                f"publisher_transactional_id(application_id) + {_NUMBER},",
            ),
        ),
        faults=("pause_publisher:add", "two_failovers", "fail_over_by_hand"),
    ),
    Mutation(
        "PublisherReadsFenced",
        "a publisher reads what it decides from after the fencing",
        (
            (
                "airflow_provider.control.topics.publisher:AssignmentPublisher.__init__",
                "try:\n        self._producer.fence()",
                "with ControlReader(connection, application_id) as early:\n"
                "        seen = early.read_to_end(timeout_s)\n"
                "    try:\n        self._producer.fence()",
            ),
            (
                "airflow_provider.control.topics.publisher:AssignmentPublisher.__init__",
                "self.view: ControlView = reader.read_to_end(timeout_s)",
                "self.view: ControlView = seen",
            ),
        ),
        faults=("pause_publisher:init", "two_failovers", "fail_over_by_hand"),
    ),
    Mutation(
        "Forget",
        "a watcher forgets what an assignment topic held that was created again",
        (
            (
                "airflow_provider.control.topics.cursor:ControlCursor._move",
                "if again and self._forgets and",
                "if again and False and",
            ),
        ),
        faults=("create_again:assignment",),
    ),
    Mutation(
        "TopicIds",
        "a control topic that was created again is told by its id, where it holds more than was read",
        (
            (
                "airflow_provider.control.topics.cursor:ControlCursor.identify",
                "if topic in self._positions and",
                "if topic in () and",
            ),
        ),
        faults=(
            "create_again",
            "pause",
            "cut_in",
            "pause_watcher",
            "assign_again",
        ),
    ),
    Mutation(
        "CarriedOut",
        "what is published follows the generations that were carried out",
        (
            (
                "airflow_provider.control.failover.decide:decide",
                "highest_generation(statuses.values())",
                "0",
            ),
        ),
        faults=("unclean_leader:assignment", "fail_over_by_hand", "kill", "pause"),
        seeds=_LONG,
    ),
    Mutation(
        "TakenUp",
        "what a watcher has answered is fired again until a run has taken it up",
        (("airflow_provider.triggers:IncidentTrigger._due", "if not one.taken_up]", "if False]"),),
        faults=("kill_watcher:answered", "kill"),
    ),
    Mutation(
        "WarmCopiesStay",
        "a copy beyond the wanted number goes once the others are warm",
        (("airflow_provider.control.placement.assignor:_standbys", "[:waited_for]", "[:0]"),),
        faults=("add_instance",),
    ),
    Mutation(
        "NoGap",
        "a query that skipped a task's rows brings none of its later ones",
        (
            (
                "airflow_provider.streaming.driver.slots.slot_decisions:tasks_that_go_on",
                "status.state is TaskState.RUNNING and ",
                "",
            ),
        ),
        faults=("break_store",),
    ),
    Mutation(
        "NoGapBehindWhatWasCut",
        "rows do not follow a store that stands before those that were processed",
        ((f"{_WORKER}.step.batch_processor:goes_on_from", "(stood or 0) <= (stands or 0)", "True"),),
        faults=("cut_changelog", "remove_folder", "kill_worker"),
    ),
    Mutation(
        "NoticedWithoutARow",
        "a query whose task's store was set back ends, also where no further row comes",
        (
            (
                "airflow_provider.streaming.driver.slots.slot_decisions:query_must_end",
                "not goes_on_from(brought[status.task].source_offset, status.source_offset)",
                "False",
            ),
        ),
        faults=("cut_changelog", "remove_folder", "kill_worker"),
    ),
    Mutation(
        "TouchIsNoTry",
        "to look at a task that has failed is no further failure",
        (
            (
                f"{_WORKER}.standby.changelog_follower:ChangelogFollower._touch",
                "StatefulStreamsError if failed else BrokerUnreachableError",
                "BrokerUnreachableError",
            ),
        ),
        faults=("revoke:read changelog", "set_clock"),
    ),
    Mutation(
        "CutIsOutdated",
        "a store that has read what a new leader lacks is not gone on with, however far the changelog has grown",
        (
            (
                "airflow_provider.changelog.reader:ChangelogReader._judge_position",
                "if is_cut(error):",
                "if False:",
            ),
            _NO_READ_BACK,
        ),
        faults=("cut_changelog", "cut_in", "pause", "fail_over_by_hand"),
    ),
    Mutation(
        "BehindTrouble",
        "records that come behind passing trouble of a partition are read again",
        (
            (
                "airflow_provider.streaming.worker.step.source_reader:SourceReader.read",
                "for at in columns.left_out for",
                "for at in () for",
            ),
        ),
        faults=("fetch_error:source",),
    ),
    Mutation(
        "BehindTroubleOfAChangelog",
        "changes that come behind passing trouble of a changelog are read again",
        (
            (
                "airflow_provider.changelog.reader:ChangelogReader.read",
                "for partition in columns.left_out:",
                "for partition in ():",
            ),
        ),
        faults=("fetch_error:changelog",),
    ),
    Mutation(
        "EndIsGone",
        "an owner that restores asks again for its end, which a new leader may lack",
        (
            (
                f"{_WORKER}.standby.changelog_follower:ChangelogFollower._begin",
                "if not self._end_is_gone(task):",
                "if True:",
            ),
        ),
        faults=("cut_changelog", "disk_full"),
    ),
    Mutation(
        "OwnPatience",
        "a cause that fails a task for the first time is tried again as soon, however long another one lasted",
        (
            (
                f"{_WORKER}.tasks.task_memory:FailedTasks.note",
                "known.kind is not kind",
                "False",
            ),
        ),
        faults=("disk_full", "revoke_at"),
        seeds=_LONG,
    ),
    Mutation(
        "AppliedIsReadBack",
        "a store that goes on with its changelog reads the last commit back that it has applied",
        (_NO_READ_BACK,),
        faults=("cut_changelog", "fail_over_by_hand"),
    ),
    Mutation(
        "LookBeforeCommit",
        "nothing is committed behind a changelog that lacks what its owner has written",
        (_NO_LOOK,),
        faults=("cut_changelog",),
    ),
    Mutation(
        "OwnInItsPlace",
        "another record in the place of a store's own last commit is not taken for it",
        (
            (
                "airflow_provider.changelog.completeness:LastCommitRead.take",
                "if position is not None and batch.first_commit != position.commit:",
                "if False:",
            ),
        ),
        faults=("cut_changelog", "cut_in", "pause", "fail_over_by_hand"),
    ),
    Mutation(
        "Slept",
        "a store that has slept for longer than deletions are kept is not resumed",
        (
            (
                "airflow_provider.changelog.completeness:slept_too_long",
                "if idle_ms > delete_retention_ms - jump_ms:",
                "if idle_ms > delete_retention_ms + 1e12:",
            ),
        ),
        faults=("away",),
    ),
    Mutation(
        "Tombstones",
        "what a key's deletion leaves is a deletion in the store too",
        (
            (
                "airflow_provider.changelog.replica:Replica._apply",
                "changes = zip(batch.keys, batch.values, strict=True)",
                "changes = [pair for pair in zip(batch.keys, batch.values) if pair[1] is not None]",
            ),
        ),
        faults=("kill",),
    ),
    Mutation(
        "LeastTime",
        "behind an internal topic time is the least of what the tasks have told that write there",
        (
            (
                "airflow_provider.streaming.operations.upstream_time:watermark",
                "min((at for at in told if at is not None), default=NO_WATERMARK)",
                "max((at for at in told if at is not None), default=NO_WATERMARK)",
            ),
        ),
        faults=("pause", "kill"),
        seeds=_OF_STAGES,
    ),
    Mutation(
        "TimeStays",
        "an owner goes on from the time that the last commit says",
        (
            (
                "airflow_provider.streaming.operations.stream_time:StreamTime.after",
                "return cls(last.stream_time_ms, last.watermark_ms, last.side_watermarks_ms, last.marks, last.aside)",
                "return cls()",
            ),
        ),
        faults=("kill_at", "kill"),
        seeds=_OF_STAGES,
    ),
    Mutation(
        "ToTheEnd",
        "what is read of a store ends at its end, and not at a block that cannot be read",
        (
            (
                "airflow_provider.state.store:Store._pairs",
                "check_end(family.iter(), last)",
                "family.iter()",
            ),
        ),
        faults=("flip_bit",),
    ),
    Mutation(
        "Terms",
        "a later commit stands for an earlier one only where the term of its owner went on to it",
        (
            (
                "airflow_provider.changelog.commit_record:holds_all_of",
                "if before.terms and after.terms and",
                "if before.terms is None and",
            ),
        ),
        faults=("cut_changelog", "kill"),
    ),
    Mutation(
        "FellBack",
        "a source whose end fell back behind what was processed is told",
        (
            (
                "airflow_provider.streaming.worker.tasks.lost_input:lost_input",
                "elif offset > (end := latest.get(task.partition, offset)):",
                "elif (end := latest.get(task.partition, offset)) < 0:",
            ),
        ),
        faults=("cut_source", "kill"),
    ),
    Mutation(
        "Overlap",
        "a query whose source's end fell back does not begin before the position of its task",
        (
            (
                "airflow_provider.streaming.driver.slots.slot_decisions:with_overlap",
                "< offset <= latest.get(task.partition, -1)",
                "< offset",
            ),
        ),
        faults=("cut_source", "fail_over_by_hand"),
    ),
    Mutation(
        "InFrontOfACut",
        "a query that began one record early does not go on where its source fell back before it read that one",
        (
            (
                "airflow_provider.streaming.driver.slots.slot_queries:SlotQueries._reads_in_front_of_a_cut",
                "not query.tasks.isdisjoint(tasks) and",
                "False and",
            ),
        ),
        faults=("cut_source", "break_store"),
    ),
)

_numbers = itertools.count(1)


def number() -> int:
    """A number that nobody had."""
    return next(_numbers)


def function_of(place: str) -> FunctionType:
    """The function at ``module:name`` or ``module:class.name``."""
    module, _, path = place.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = vars(found)[name] if inspect.isclass(found) else getattr(found, name)
    found = getattr(found, "__func__", found)  # of a class's own method
    assert isinstance(found, FunctionType), place
    return found


def applied(mutation: Mutation) -> dict[FunctionType, str]:
    """The text of each function that a mutation changes.

    Raises:
        LookupError: a text that it replaces is not there, once.
    """
    texts: dict[FunctionType, str] = {}
    for place, before, after in mutation.changes:
        function = function_of(place)
        text = texts.get(function) or textwrap.dedent(inspect.getsource(function))
        if text.count(before) != 1:
            raise LookupError(f"{mutation.name}: {place} has {before!r} {text.count(before)} times: write it anew.")
        texts[function] = text.replace(before, after).replace("@classmethod\n", "")
    return texts


def apply(mutation: Mutation) -> None:
    """Break the product in this process, for good: the functions get the code of their changed text."""
    for function, text in applied(mutation).items():
        scope: dict[str, Any] = {}
        exec(
            compile("from __future__ import annotations\n" + text, f"<{mutation.name}>", "exec"),
            function.__globals__,
            scope,
        )
        function.__code__ = scope[function.__name__].__code__


@dataclass(frozen=True)
class Found:
    """What showed that a rule was not kept.

    Args:
        cpu_s: how long the search took, in seconds of CPU.
        runs: how many schedules it took.
        outcome: the first in which a promise was broken.
        fewest: of its faults those without which it is not.
    """

    cpu_s: float
    runs: int
    outcome: Outcome
    fewest: list[Fault]


def find(mutation: Mutation, processes: int) -> Found | None:
    """Look for what a mutation breaks, in processes of its own; None where nothing is found."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_search, args=(there, mutation, processes))
    process.start()
    there.close()
    try:
        found: Found | None = here.recv()
    except EOFError:
        found = None
    process.join()
    return found


def _search(link: Connection, mutation: Mutation, processes: int) -> None:
    apply(mutation)
    cpu_s, found = 0.0, None
    tried = run_many(mutation.seeds, processes, only=mutation.faults, stop_at_first=True)
    for runs, (outcome, took_s) in enumerate(tried, 1):
        cpu_s += took_s
        if outcome.violation is not None:
            found = Found(cpu_s, runs, outcome, shrink(outcome.seed, outcome.faults, outcome.name))
            break
    link.send(found)


def replay(kept: Kept) -> tuple[str | None, str | None]:
    """Run a schedule that is kept; which promise it breaks with its mutation, and which without."""
    return _replayed(kept, mutated=True), _replayed(kept, mutated=False)


def _replayed(kept: Kept, *, mutated: bool) -> str | None:
    """In a process of its own: what is broken stays so, and RocksDB's threads do not come along to another."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_replay, args=(there, kept, mutated))
    process.start()
    there.close()
    broken: str | None = here.recv()
    process.join()
    return broken


def _replay(link: Connection, kept: Kept, mutated: bool) -> None:
    if mutated:
        apply(next(mutation for mutation in MUTATIONS if mutation.name == kept.mutation))
    outcome = schedule.run(kept.seed, kept.faults, size=kept.size)
    link.send(outcome.name if mutated else outcome.violation)


def replay_all() -> int:
    """Run all that is kept; status 1 where one finds nothing any more, or a promise is broken without a mutation."""
    wrong = 0
    for kept in KEPT:
        broken, violation = replay(kept)
        said = [] if broken == kept.promise else [f"it breaks {broken!r} now, and not {kept.promise!r}"]
        said += [f"without it {violation}"] if violation else []
        wrong += bool(said)
        print(f"{kept.mutation} (seed {kept.seed}): {'; '.join(said) or kept.promise}", flush=True)
    return 1 if wrong else 0


def find_all(only: str, processes: int) -> int:
    """Look for each mutation, or for one; print a line each; status 1 where one was not found."""
    missed = 0
    print("mutation              found after   schedules   broken promise")
    for mutation in MUTATIONS:
        if only not in ("", "1", mutation.name):
            continue
        found = find(mutation, processes)
        if found is None:
            missed += 1
            print(f"{mutation.name:<20}  NOT FOUND in {len(mutation.seeds)} schedules: {mutation.rule}", flush=True)
            continue
        what = f"{found.outcome.name} (seed {found.outcome.seed})"
        print(f"{mutation.name:<20}  {found.cpu_s:>9.1f} s {found.runs:>11}   {what}", flush=True)
        for fault in found.fewest:
            print(f"{'':<22}{fault!r}")
    return 1 if missed else 0
