from __future__ import annotations

import pytest

from airflow_provider.changelog.commit_record import SourcePosition
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.failpoint import FailPoints
from airflow_provider.streaming.worker.cut_clients import CutClients
from airflow_provider.testing.in_memory_clients import InMemoryClients, InMemoryGroup
from airflow_provider.testing.in_memory_log import InMemoryLog
from tests.builders import commit_of
from tests.unit.streaming.worker.bench import CHANGELOG, commit_elsewhere, job_spec, records_of

TASK = TaskId(0, 0)
RECORD = commit_of(task=TASK, sequence=2, sources={"orders": SourcePosition(5)})


def test_nothing_is_read_or_written_while_the_connection_is_cut_and_all_of_it_after(log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    before = records_of(log, 0)
    clients = CutClients(InMemoryClients(log))
    reader, writer = clients.open_reader(job_spec()), clients.open_writer(job_spec(), TASK, FailPoints())
    reader.add((CHANGELOG, 0), 0)

    clients.cut = True
    assert reader.read(100, 0.0) == {}
    for request in (
        lambda: reader.bounds((CHANGELOG, 0)),
        lambda: reader.ends((CHANGELOG, 0)),
        writer.fence,
        lambda: writer.commit({CHANGELOG: [(b"k", b"2")]}, {}, RECORD, InMemoryGroup()),
    ):
        with pytest.raises(BrokerUnreachableError, match="A drill has cut the connection"):
            request()
    assert records_of(log, 0) == before

    clients.cut = False
    assert reader.read(100, 0.0)[CHANGELOG, 0].records == 2
    writer.fence()
    writer.commit({CHANGELOG: [(b"k", b"2")]}, {}, RECORD, InMemoryGroup())
    assert len(records_of(log, 0)) == len(before) + 2
