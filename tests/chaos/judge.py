"""Whether anything was lost, doubled, swapped or written by two: judged from the topics and the stores alone.

Shares no code with what it judges: it has decoders of its own for the formats of ``docs/formats.md``, and it computes
what has to come out by its own arithmetic from the input topic.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from airflow_provider.common.task_id import TaskId

COMMIT_KEY = b"\xff\xfestateful-streams/commit"
RESERVED = b"\xff\xfestateful-streams/"

_SHOWN = 5

Given = Mapping[tuple[TaskId, int], Collection[str]]
"""By task and generation who got the task in it."""


@dataclass(frozen=True)
class Record:
    """One record of a topic, as a reader under ``read_committed`` gets it."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    time_ms: int = 0


@dataclass(frozen=True)
class Copy:
    """What lies in one store after its instance has stopped; ``unreadable`` says why nothing could be read."""

    instance: str
    task: int
    role: str
    content: Mapping[bytes, bytes] = field(default_factory=dict)
    unreadable: str | None = None


@dataclass(frozen=True)
class Evidence:
    """Everything that is judged. Records are in the order of their offsets within a partition.

    `assignments` are those of every life of their topic, one after the other; `lost_at` says where another life begins.
    """

    input_topic: str
    inputs: Sequence[Record]
    outputs: Sequence[Record]
    changelog: Sequence[Record]
    assignments: Sequence[Record] = ()
    copies: Sequence[Copy] = ()
    letters: Sequence[Record] = ()
    lost_at: Sequence[int] = ()


@dataclass
class Truth:
    """What has to come out: per partition the state by key and the number of records; per key every output.

    `bad` are the records that are to be left out, by partition and offset.
    """

    state: dict[int, dict[bytes, dict[str, int]]] = field(default_factory=lambda: defaultdict(dict))
    outputs: dict[bytes, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    records: Counter[int] = field(default_factory=Counter)
    next_offsets: dict[int, int] = field(default_factory=dict)
    bad: dict[tuple[int, int], Record] = field(default_factory=dict)

    @classmethod
    def of(cls, inputs: Iterable[Record]) -> Truth:
        truth = cls()
        for record in inputs:
            truth.records[record.partition] += 1
            truth.next_offsets[record.partition] = record.offset + 1
            row = _row(record)
            if row is None or row.get("fault") is not None:
                truth.bad[record.partition, record.offset] = record
                continue
            accounts = truth.state[record.partition]
            before = accounts.get(record.key, {"count": 0, "sum": 0, "chain": 0})
            after = {
                "count": before["count"] + 1,
                "sum": before["sum"] + row["amount"],
                "chain": zlib.crc32(b"%d:%d" % (row["seq"], row["amount"]), before["chain"]),
            }
            truth.outputs[record.key].append({"account": record.key.decode(), "seq": row["seq"], **after})
            if row["amount"] == 0:
                accounts.pop(record.key, None)
            else:
                accounts[record.key] = after
        return truth


def _row(record: Record) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads(record.value or b"")
    except ValueError:
        return None
    return row


@dataclass
class Verdict:
    """What was compared, and every difference under the name of its sort."""

    compared: dict[str, int] = field(default_factory=dict)
    differences: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def right(self) -> bool:
        return not any(self.differences.values())

    def lines(self) -> list[str]:
        shown = ["compared " + ", ".join(f"{number:,} {what}" for what, number in self.compared.items())]
        for what, found in self.differences.items():
            shown += [f"{what}: {line}" for line in found[:_SHOWN]]
            if len(found) > _SHOWN:
                shown.append(f"{what}: and {len(found) - _SHOWN:,} more")
        return shown


def judge(evidence: Evidence) -> Verdict:
    """Compare what came out with what had to come out."""
    truth, verdict = Truth.of(evidence.inputs), Verdict()
    verdict.compared["records"] = sum(truth.records.values())
    _outputs(truth, evidence.outputs, verdict)
    _letters(truth, evidence.letters, verdict)
    stored = newest(evidence.changelog)
    _state(truth, stored, verdict)
    _commits(truth, evidence, verdict)
    _copies(evidence.copies, stored, verdict)
    return verdict


def newest(changelog: Iterable[Record]) -> dict[int, dict[bytes, bytes]]:
    """By partition the last value of every key of the user."""
    stored: dict[int, dict[bytes, bytes]] = defaultdict(dict)
    for record in changelog:
        if record.key.startswith(RESERVED):
            continue
        if record.value is None:
            stored[record.partition].pop(record.key, None)
        else:
            stored[record.partition][record.key] = record.value
    return stored


def _outputs(truth: Truth, outputs: Iterable[Record], verdict: Verdict) -> None:
    found: dict[bytes, list[dict[str, Any]]] = defaultdict(list)
    places: dict[bytes, set[int]] = defaultdict(set)
    number = 0
    for number, record in enumerate(outputs, 1):  # noqa: B007 - counted
        found[record.key].append(json.loads(record.value or b"null"))
        places[record.key].add(record.partition)
    verdict.compared["outputs"] = number
    for key in sorted({*truth.outputs, *found}):
        wanted, got = truth.outputs.get(key, []), found.get(key, [])
        if len(places[key]) > 1:
            verdict.differences["output in two partitions"].append(f"{key!r} in {sorted(places[key])}")
        if wanted != got:
            _compare_outputs(key.decode("utf-8", "replace"), wanted, got, verdict)


def _compare_outputs(
    key: str, wanted: Sequence[dict[str, Any]], got: Sequence[dict[str, Any]], verdict: Verdict
) -> None:
    needed, there = (Counter(json.dumps(o, sort_keys=True) for o in outputs) for outputs in (wanted, got))
    missing, more = needed - there, there - needed
    for output in missing:
        verdict.differences["output missing"].append(f"{key}: {output}")
    for output in more:
        what = "output doubled" if output in needed else "output wrong"
        verdict.differences[what].append(f"{key}: {output}")
    if not missing and not more:
        at = next(i for i, (a, b) in enumerate(zip(wanted, got, strict=True)) if a != b)
        verdict.differences["order swapped"].append(f"{key}: output {at} is {got[at]}, needed {wanted[at]}")


def _letters(truth: Truth, letters: Iterable[Record], verdict: Verdict) -> None:
    """Each record that is to be left out lies among the dead letters once, as it was; and no other does."""
    found: dict[tuple[int, int], list[Record]] = defaultdict(list)
    number = 0
    for number, letter in enumerate(letters, 1):  # noqa: B007 - counted
        partition, offset = (int(letter.headers[f"__streams.errors.{name}"]) for name in ("partition", "offset"))
        found[partition, offset].append(letter)
    verdict.compared["dead letters"] = number
    for place in sorted({*truth.bad, *found}):
        record, got = truth.bad.get(place), found.get(place, [])
        if record is None:
            verdict.differences["dead letter of a good record"].append(f"{place}: {_cut(got[0].headers)}")
        elif not got:
            verdict.differences["dead letter missing"].append(f"{place}: {_cut(record)}")
        elif len(got) > 1:
            verdict.differences["dead letter doubled"].append(f"{place}: {len(got)} times, {_cut(record)}")
        elif (got[0].key, got[0].value) != (record.key, record.value):
            verdict.differences["dead letter changed"].append(f"{place}: {_cut(got[0])}, needed {_cut(record)}")


def _cut(value: object) -> str:
    return str(value)[:300]


def _state(truth: Truth, stored: Mapping[int, Mapping[bytes, bytes]], verdict: Verdict) -> None:
    verdict.compared["keys"] = sum(len(accounts) for accounts in truth.state.values())
    for partition in sorted({*truth.state, *stored}):
        wanted, got = truth.state.get(partition, {}), stored.get(partition, {})
        for key in sorted({*wanted, *got}):
            value = got.get(key)
            decoded = None if value is None else _state_value(value)
            if decoded != wanted.get(key):
                verdict.differences["state wrong"].append(
                    f"task {partition}, {key!r}: {decoded}, needed {wanted.get(key)}"
                )


def _state_value(stored: bytes) -> Any:
    """As docs/formats.md says it; the judge shares no code with what wrote it."""
    return msgspec.msgpack.decode(stored[1:]) if stored[:1] == b"\xc1" else json.loads(stored)


def reached(commit: dict[str, Any], source: str) -> int:
    """The offset of the next record of its source."""
    return int(commit["sources"][source]["offset"])


def commit_chain(
    records: Iterable[Record], stage: int, source: str, given: Given, verdict: Verdict
) -> dict[int, dict[str, Any]]:
    """Compare each commit of a stage's tasks with the one before and with who was assigned; the last one by partition.

    Args:
        records: of the topic that has the commit records.
        stage: its number.
        source: the topic that it reads.
        given: of `assigned`; empty where that is not known.
        verdict: gets the differences.
    """
    last: dict[int, dict[str, Any]] = {}
    owners: dict[tuple[int, int], str] = {}
    number = 0
    for record in records:
        if record.key != COMMIT_KEY:
            continue
        number += 1
        partition = record.partition
        task = TaskId(stage, partition)
        where = f"task {task if stage else partition} at {record.offset}"
        commit = json.loads(record.value or b"null")
        generation, instance = commit["generation"], commit["instance"]
        if commit["task"] != str(task):
            verdict.differences["commit of another task"].append(f"{where}: {commit}")
        owner = owners.setdefault((partition, generation), instance)
        if owner != instance:
            verdict.differences["two owners"].append(f"{where}: {instance} in generation {generation} of {owner}")
        if given and instance not in given.get((task, generation), ()):
            verdict.differences["commit by who was not assigned"].append(
                f"{where}: {instance} in generation {generation}, assigned {given.get((task, generation))}"
            )
        before = last.get(partition)
        if before is not None:
            if commit["sequence"] <= before["sequence"]:
                verdict.differences["sequence went back"].append(f"{where}: {commit} after {before}")
            if generation < before["generation"]:
                verdict.differences["generation went back"].append(
                    f"{where}: {generation} of {instance} after {before['generation']} of {before['instance']}"
                )
            read = reached(commit, source) - reached(before, source)
            counted = commit["processed"] - before["processed"]
            if read < 0:
                verdict.differences["source offset went back"].append(f"{where}: {commit} after {before}")
            # One that only tells the time, or has read no more than others' words of it, counts none.
            if counted < 0 or (counted and not read):
                verdict.differences["count is not of its records"].append(f"{where}: {commit} after {before}")
        last[partition] = commit
    verdict.compared["commits"] = verdict.compared.get("commits", 0) + number
    return last


def _commits(truth: Truth, evidence: Evidence, verdict: Verdict) -> None:
    given = assigned(evidence.assignments, evidence.lost_at, verdict)
    bad = Counter(partition for partition, _ in truth.bad)
    last = commit_chain(evidence.changelog, 0, evidence.input_topic, given, verdict)
    for task in sorted({*truth.next_offsets, *last}):
        final = last.get(task)
        upto = reached(final, evidence.input_topic) if final else 0
        if upto != truth.next_offsets.get(task, 0):
            verdict.differences["not processed to the end"].append(
                f"task {task}: up to {upto}, needed {truth.next_offsets.get(task, 0)}"
            )
        if (final["failed"] if final else 0) != bad[task]:
            verdict.differences["failures miscounted"].append(
                f"task {task}: {final['failed'] if final else 0} left out, needed {bad[task]}"
            )
        if (final["processed"] if final else 0) != truth.records[task]:
            verdict.differences["miscounted"].append(
                f"task {task}: {final['processed'] if final else 0} processed, needed {truth.records[task]}"
            )


def assigned(assignments: Iterable[Record], lost_at: Collection[int], verdict: Verdict) -> Given:
    """By task and generation who got the task in it, over all that was ever published.

    Within one life of the topic it is one. After a loss early generations come again; that none of them commits is what
    the generations and owners of the commits are compared for.
    """
    given: dict[tuple[TaskId, int], set[str]] = defaultdict(set)
    life: dict[tuple[TaskId, int], str] = {}
    newest_generation = highest = 0
    for number, record in enumerate(assignments):
        if number in lost_at:
            life, newest_generation = {}, 0
        if record.key != b"assignment" or record.value is None:
            continue
        assignment = json.loads(record.value)
        if assignment["generation"] <= newest_generation:
            verdict.differences["assignment went back"].append(f"{assignment['generation']} after {newest_generation}")
        newest_generation = assignment["generation"]
        highest = max(highest, newest_generation)
        for text, who in assignment["tasks"].items():
            task = TaskId.parse(text)
            if who["active"] is not None:
                before = life.setdefault((task, who["active_since"]), who["active"])
                given[task, who["active_since"]].add(who["active"])
                if before != who["active"]:
                    verdict.differences["generation given twice"].append(
                        f"task {task}: {who['active_since']} to {before} and to {who['active']}"
                    )
    verdict.compared["generations"] = highest
    return given


def _copies(copies: Iterable[Copy], stored: Mapping[int, Mapping[bytes, bytes]], verdict: Verdict) -> None:
    number = 0
    for copy in copies:
        number += 1
        where = f"{copy.role} of task {copy.task} on {copy.instance}"
        if copy.unreadable is not None:
            verdict.differences[f"{copy.role} unreadable"].append(f"{where}: {copy.unreadable}")
            continue
        wanted = stored.get(copy.task, {})
        for key in sorted({*wanted, *copy.content}):
            if wanted.get(key) != copy.content.get(key):
                verdict.differences[f"{copy.role} differs"].append(
                    f"{where}, {key!r}: {copy.content.get(key)!r}, changelog {wanted.get(key)!r}"
                )
    verdict.compared["stores"] = number
