"""The judge is worth nothing unless it finds each of these."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.chaos.judge import COMMIT_KEY, Copy, Evidence, Record, Truth, judge

TOPIC = "ledger-input"
POSTINGS = [("a", 1, 10), ("b", 1, 5), ("a", 2, 20), ("a", 3, 0), ("a", 4, 7), ("b", 3, 6)]
"""Account, sequence number, amount. ``b`` lacks its second, which was aborted; ``a`` is closed once."""


def encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def posting(offset: int, account: str, seq: int, amount: int) -> Record:
    return Record(0, offset, account.encode(), encoded({"account": account, "seq": seq, "amount": amount}))


def commit(
    offset: int,
    generation: int,
    instance: str,
    source_offset: int,
    processed: int,
    sequence: int | None = None,
    failed: int = 0,
) -> Record:
    value = {
        "task": "0_0",
        "sequence": offset if sequence is None else sequence,
        "generation": generation,
        "instance": instance,
        "incarnation": 1,
        "sources": {TOPIC: {"offset": source_offset, "topic_id": None}},
        "processed": processed,
        "failed": failed,
    }
    return Record(0, offset, COMMIT_KEY, encoded(value))


def assignment(generation: int, active: str, since: int) -> Record:
    tasks = [{"active": active, "standbys": ["i3"], "active_since": since}]
    return Record(
        0,
        generation,
        b"assignment",
        encoded({"generation": generation, "tasks": {f"0_{number}": task for number, task in enumerate(tasks)}}),
    )


def good() -> Evidence:
    """Two commits, the second by a new owner."""
    inputs = [posting(offset, *values) for offset, values in enumerate(POSTINGS)]
    truth = Truth.of(inputs)
    outputs = [output for key in sorted(truth.outputs) for output in truth.outputs[key]]
    early, late = Truth.of(inputs[:3]).state[0], truth.state[0]
    changes = [Record(0, offset, key, encoded(value)) for offset, (key, value) in enumerate(sorted(early.items()))]
    changes += [commit(2, 1, "i1", 3, 3)]
    changes += [Record(0, offset, key, encoded(value)) for offset, (key, value) in enumerate(sorted(late.items()), 4)]
    changes += [commit(6, 2, "i2", 6, 6)]
    stored = {key: encoded(value) for key, value in late.items()}
    return Evidence(
        TOPIC,
        inputs,
        [Record(0, offset, o["account"].encode(), encoded(o)) for offset, o in enumerate(outputs)],
        changes,
        [assignment(1, "i1", 1), assignment(2, "i2", 2)],
        [Copy("i2", 0, "active", stored), Copy("i3", 0, "standby", stored)],
    )


def without(records: Sequence[Record], at: int) -> list[Record]:
    return [record for number, record in enumerate(records) if number != at]


def swapped(records: Sequence[Record], at: int) -> list[Record]:
    found = list(records)
    found[at], found[at + 1] = found[at + 1], found[at]
    return found


def replaced(records: Sequence[Record], at: int, by: Record) -> list[Record]:
    return [by if number == at else record for number, record in enumerate(records)]


def changed_state(good: Evidence) -> Evidence:
    wrong = dataclasses.replace(good.changelog[4], value=encoded({"count": 9, "sum": 9, "chain": 9}))
    return dataclasses.replace(good, changelog=replaced(good.changelog, 4, wrong), copies=[])


def kept_key(good: Evidence) -> Evidence:
    risen = Record(0, 5, b"z", b"{}")
    return dataclasses.replace(good, changelog=[*good.changelog, risen], copies=[])


def other_copy(content: dict[bytes, bytes]) -> Callable[[Evidence], Evidence]:
    def change(good: Evidence) -> Evidence:
        standby = Copy("i3", 0, "standby", {**good.copies[1].content, **content})
        return dataclasses.replace(good, copies=[good.copies[0], standby])

    return change


def other_commit(at: int, by: Record) -> Callable[[Evidence], Evidence]:
    return lambda good: dataclasses.replace(good, changelog=replaced(good.changelog, at, by), assignments=[])


def test_good_run_is_right() -> None:
    verdict = judge(good())
    assert verdict.right, verdict.lines()
    assert verdict.compared == {
        "records": 6, "outputs": 6, "dead letters": 0, "keys": 2, "generations": 2, "commits": 2, "stores": 2
    }  # fmt: skip


def test_commit_that_only_tells_the_time_is_right() -> None:
    right = good()
    assert judge(dataclasses.replace(right, changelog=[*right.changelog, commit(7, 2, "i2", 6, 6)])).right


def letter(of: Record, offset: int = 0) -> Record:
    headers = {"partition": str(of.partition).encode(), "offset": str(of.offset).encode()}
    return dataclasses.replace(
        of, offset=offset, headers={f"__streams.errors.{name}": value for name, value in headers.items()}
    )


def with_bad_records() -> Evidence:
    """A record that is no JSON and one whose function raises, behind the good ones, left out and kept."""
    right = good()
    bad = [Record(0, 6, b"a", b"{"), Record(0, 7, b"c", encoded({"account": "c", "seq": 1, "fault": "error"}))]
    return dataclasses.replace(
        right,
        inputs=[*right.inputs, *bad],
        letters=[letter(bad[1]), letter(bad[0], 1)],
        changelog=replaced(right.changelog, len(right.changelog) - 1, commit(6, 2, "i2", 8, 8, failed=2)),
    )


def after_a_loss() -> Evidence:
    """The assignment topic was lost: generation 1 came again, for another, and committed nothing."""
    right = good()
    again = [assignment(1, "i3", 1), assignment(3, "i2", 3)]
    return dataclasses.replace(right, assignments=[*right.assignments, *again], lost_at=[2])


@pytest.mark.parametrize("right", [with_bad_records(), after_a_loss()], ids=["bad-records", "lost-assignments"])
def test_what_is_to_be_so_is_right(right: Evidence) -> None:
    verdict = judge(right)
    assert verdict.right, verdict.lines()


@pytest.mark.parametrize(
    ("change", "sort"),
    [
        pytest.param(lambda e: dataclasses.replace(e, letters=e.letters[1:]), "dead letter missing", id="lost"),
        pytest.param(
            lambda e: dataclasses.replace(e, letters=[*e.letters, e.letters[0]]), "dead letter doubled", id="doubled"
        ),
        pytest.param(
            lambda e: dataclasses.replace(e, letters=[*e.letters, letter(e.inputs[0])]),
            "dead letter of a good record",
            id="of-a-good-record",
        ),
        pytest.param(
            lambda e: dataclasses.replace(
                e, letters=[e.letters[0], dataclasses.replace(e.letters[1], value=b"another")]
            ),
            "dead letter changed",
            id="changed",
        ),
        pytest.param(
            lambda e: dataclasses.replace(
                e, changelog=replaced(e.changelog, len(e.changelog) - 1, commit(6, 2, "i2", 8, 8, failed=1))
            ),
            "failures miscounted",
            id="miscounted",
        ),
    ],
)
def test_difference_in_what_is_left_out_is_found(change: Callable[[Evidence], Evidence], sort: str) -> None:
    verdict = judge(change(with_bad_records()))
    assert verdict.differences[sort], verdict.lines()


def test_generations_that_come_again_are_wrong_where_nothing_was_lost() -> None:
    assert judge(dataclasses.replace(after_a_loss(), lost_at=[])).differences["assignment went back"]


def test_closed_account_begins_anew() -> None:
    truth = Truth.of(posting(offset, *values) for offset, values in enumerate(POSTINGS))
    assert [output["count"] for output in truth.outputs[b"a"]] == [1, 2, 3, 1]
    assert truth.state[0][b"a"]["sum"] == 7


@pytest.mark.parametrize(
    ("change", "sort"),
    [
        pytest.param(
            lambda g: dataclasses.replace(g, outputs=without(g.outputs, 1)), "output missing", id="lost-output"
        ),
        pytest.param(
            lambda g: dataclasses.replace(g, outputs=[*g.outputs, g.outputs[-1]]), "output doubled", id="doubled"
        ),
        pytest.param(
            lambda g: dataclasses.replace(g, outputs=swapped(g.outputs, 0)), "order swapped", id="swapped-order"
        ),
        pytest.param(
            lambda g: dataclasses.replace(
                g, outputs=[*g.outputs, dataclasses.replace(g.outputs[-1], value=encoded({"seq": 99}))]
            ),
            "output wrong",
            id="output-of-no-record",
        ),
        pytest.param(
            lambda g: dataclasses.replace(
                g, outputs=replaced(g.outputs, 1, dataclasses.replace(g.outputs[1], partition=1))
            ),
            "output in two partitions",
            id="output-elsewhere",
        ),
        pytest.param(
            lambda g: dataclasses.replace(g, inputs=[*g.inputs, posting(6, "c", 1, 3)]), "state wrong", id="lost-record"
        ),
        pytest.param(
            lambda g: dataclasses.replace(g, inputs=[*g.inputs, posting(6, "c", 1, 3)]),
            "not processed to the end",
            id="record-never-processed",
        ),
        pytest.param(changed_state, "state wrong", id="wrong-state"),
        pytest.param(kept_key, "state wrong", id="deleted-key-came-back"),
        pytest.param(other_commit(5, commit(6, 1, "i2", 6, 6)), "two owners", id="two-owners-in-one-generation"),
        pytest.param(other_commit(2, commit(2, 3, "i1", 3, 3)), "generation went back", id="zombie-committed-late"),
        pytest.param(other_commit(5, commit(6, 2, "i2", 2, 6)), "source offset went back", id="offset-went-back"),
        pytest.param(other_commit(5, commit(6, 2, "i2", 3, 6)), "count is not of its records", id="no-record-counted"),
        pytest.param(other_commit(5, commit(6, 2, "i2", 6, 6, 2)), "sequence went back", id="sequence-came-again"),
        pytest.param(other_commit(5, commit(6, 2, "i2", 6, 7)), "miscounted", id="counted-twice"),
        pytest.param(
            lambda g: dataclasses.replace(g, assignments=[assignment(1, "i1", 1), assignment(2, "i3", 2)]),
            "commit by who was not assigned",
            id="not-assigned",
        ),
        pytest.param(
            lambda g: dataclasses.replace(g, assignments=[*g.assignments, assignment(2, "i2", 2)]),
            "assignment went back",
            id="generation-published-twice",
        ),
        pytest.param(other_copy({b"a": b"{}"}), "standby differs", id="standby-holds-another-value"),
        pytest.param(other_copy({b"z": b"{}"}), "standby differs", id="standby-holds-a-key-too-many"),
        pytest.param(
            lambda g: dataclasses.replace(g, copies=[Copy("i3", 0, "standby", unreadable="Corruption")]),
            "standby unreadable",
            id="standby-cannot-be-read",
        ),
    ],
)
def test_difference_is_found(change: Callable[[Evidence], Evidence], sort: str) -> None:
    verdict = judge(change(good()))
    assert not verdict.right
    assert verdict.differences[sort], verdict.lines()
