"""Outputs are counted between two cuts, as a real broker keeps transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider.control.drills.judgement import judge_outputs
from airflow_provider.control.records.history import OutputCheck, OutputCount
from airflow_provider.errors import StateError
from airflow_provider.kafka.topic_admin import TopicAdmin
from tests.integration.control.writing import Writing


@pytest.fixture
def writing(bootstrap_servers: str, application_id: str) -> Iterator[Writing]:
    with closing(Writing(bootstrap_servers, application_id)) as writing:
        yield writing


def counted(writing: Writing, committed: int, found: int) -> OutputCheck:
    return OutputCheck(counts=(OutputCount(topic=writing.sink, committed=committed, found=found),))


def test_outputs_are_as_many_as_the_commits_of_all_tasks_stand_for(writing: Writing) -> None:
    writing.commit(0, 5)
    before = writing.cut()
    assert (before.written, before.unmeasured) == ({writing.sink: 5}, None)
    assert writing.count(before) == counted(writing, 0, 0)

    for number in (0, 1, 1, 0):
        writing.commit(number, 7)
    writing.open_transaction(f"{writing.id}-0_1").abort_transaction(30)

    assert writing.count(before) == counted(writing, 28, 28)


def test_missing_and_doubled_outputs_are_found(writing: Writing) -> None:
    writing.commit(0, 5)
    before = writing.cut()
    writing.commit(1, 4, written=3)
    assert writing.count(before) == counted(writing, 4, 3)

    before = writing.cut()
    writing.commit(1, 4, written=6)
    assert writing.count(before) == counted(writing, 4, 6)


def test_cut_waits_until_no_transaction_is_open(writing: Writing) -> None:
    writing.commit(0, 5)
    left_open = writing.open_transaction("another")

    assert f"something was being written into {writing.sink} all the while" in str(writing.cut(0.2).unmeasured)

    threading.Timer(0.3, left_open.abort_transaction, (30,)).start()
    assert writing.cut().unmeasured is None


def test_cut_is_found_while_tasks_commit(writing: Writing) -> None:
    writing.commit(0, 1)
    writing.commit(1, 1)
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.02):
            writing.commit(0, 20)
            writing.commit(1, 30)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        before = writing.cut()
        checks = [writing.count(before) for _ in range(3)]
    finally:
        stop.set()
        worker.join()

    assert before.unmeasured is None
    for check in checks:
        (count,) = check.counts
        assert count.committed == count.found
    assert checks[-1].counts[0].found > 0


def test_commit_is_found_behind_what_was_aborted(writing: Writing) -> None:
    writing.commit(0, 5)
    dead = Producer(
        {"bootstrap.servers": writing.connection.bootstrap_servers, "transactional.id": f"{writing.id}-0_0"}
    )
    dead.init_transactions(30)
    dead.begin_transaction()
    for n in range(300):
        dead.produce(f"{writing.id}-state-changelog", b"{}", f"{n}", partition=0)
    dead.flush(30)
    dead.abort_transaction(30)

    assert writing.cut().written == {writing.sink: 5}


def test_what_cannot_be_counted_says_why(writing: Writing) -> None:
    assert writing.cut().unmeasured == "nothing was committed before the fault"
    assert writing.count(writing.cut()).unmeasured == "nothing was committed before the fault"
    assert writing.count(None).unmeasured == "they were not to be counted"

    writing.commit(0, 5)
    before = writing.cut()
    writing.commit(0, 5, counted=False)
    assert "counts no outputs" in str(writing.count(before).unmeasured)


def test_record_that_compaction_may_have_removed_is_not_missing(writing: Writing) -> None:
    writing.commit(0, 5)
    before = writing.cut()
    writing.commit(0, 5, written=4)
    TopicAdmin(writing.connection).alter_setting(writing.sink, "cleanup.policy", "compact")

    assert writing.count(before).unmeasured == f"{writing.sink} is compacted, and does not keep every record"


def delete_records(writing: Writing) -> None:
    """All that lies in the sink, as a person may."""
    admin = AdminClient({"bootstrap.servers": writing.connection.bootstrap_servers})
    everything = [TopicPartition(writing.sink, number, -1) for number in range(3)]
    for done in admin.delete_records(everything).values():
        done.result(30)


def test_records_that_a_person_deleted_are_lost_and_those_that_the_topic_does_not_keep_are_not_counted(
    writing: Writing,
) -> None:
    writing.commit(0, 5)
    before = writing.cut()
    writing.commit(0, 7)
    delete_records(writing)

    (count,) = writing.count(before).counts
    assert (count.committed, count.found) == (7, 0)
    assert count.lost >= 7  # a transaction's marker has an offset too
    with pytest.raises(StateError, match=r"lost \d+ offsets .*cleanup\.policy=delete, retention\.ms=-1"):
        judge_outputs(writing.count(before))

    TopicAdmin(writing.connection).alter_setting(writing.sink, "retention.ms", "60000")
    assert "has deleted records that are younger than the fault" in str(writing.count(before).unmeasured)
