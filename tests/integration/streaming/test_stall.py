"""An instance whose JVM stands still sends heartbeats and processes nothing: its status says so, once promoted too."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psutil
import pytest

from airflow_provider.control.failover.detection import detect
from airflow_provider.control.records.incident import Incident, IncidentKind
from airflow_provider.control.records.status import SourceStatus
from airflow_provider.control.topics.liveness import Timeouts
from tests.integration.streaming.accounts import Accounts

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

TIMEOUTS = Timeouts(instance_s=60.0, stall_s=10.0)


@pytest.fixture(scope="module")
def accounts(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    """An instance runs."""
    id_ = f"accounts-{uuid.uuid4().hex[:8]}"
    with closing(Accounts(bootstrap_servers, id_, tmp_path_factory.mktemp(id_), num_tasks=2, seed=47)) as made:
        made.launch("i1")
        made.wait(lambda: made.runs("i1"), "i1 to run", 240.0)
        yield made


def test_jvm_that_stands_still_is_found_by_what_is_not_committed(accounts: Accounts) -> None:
    accounts.assign("i1", "i1")
    accounts.wait(accounts.settled, "both tasks to run", 120.0)
    accounts.orders.write(50, range(2))
    accounts.wait(lambda: lags(accounts) == [0, 0], "no record to wait", 120.0)
    assert found(accounts) == ()

    with standing_still(accounts, "i1"):
        accounts.orders.write(50, [1])
        incident = first_found(accounts)
    assert (incident.kind, incident.instance) == (IncidentKind.TASK_STALLED, "i1")
    assert [task.partition for task in incident.tasks] == [1]
    assert "records of its source wait" in incident.evidence

    accounts.wait(lambda: lags(accounts) == [0, 0] and found(accounts) == (), "it to go on", 120.0)


def test_standby_whose_jvm_stands_still_is_found_once_it_is_promoted(accounts: Accounts) -> None:
    accounts.launch("i2", "local[1]")
    accounts.wait(lambda: accounts.runs("i2"), "i2 to run", 240.0)
    accounts.assign("i1 i2", "i1")
    accounts.wait(accounts.settled, "the tasks to run", 120.0)
    accounts.orders.write(50, [0])
    accounts.wait(accounts.settled, "the standby to be warm", 120.0)

    with standing_still(accounts, "i2"):
        accounts.assign("i2", "i1")  # its heartbeats come, and say that it is warm
        accounts.orders.write(50, [0])
        incident = first_found(accounts)
    assert (incident.kind, incident.instance) == (IncidentKind.TASK_STALLED, "i2")
    assert "is owning and has committed nothing" in incident.evidence

    accounts.wait(lambda: accounts.settled() and found(accounts) == (), "it to go on", 120.0)


@contextmanager
def standing_still(accounts: Accounts, name: str) -> Iterator[None]:
    """An instance whose JVM is stopped meanwhile, and was to the end."""
    (jvm,) = [process for process in accounts.processes(name) if process.name() == "java"]
    jvm.send_signal(signal.SIGSTOP)
    try:
        yield
        assert psutil.Process(jvm.pid).status() == psutil.STATUS_STOPPED
    finally:
        jvm.send_signal(signal.SIGCONT)


def first_found(accounts: Accounts) -> Incident:
    accounts.wait(lambda: bool(found(accounts)), "the stall to be found", 120.0)
    (incident,) = found(accounts)
    return incident


def found(accounts: Accounts) -> tuple[Incident, ...]:
    view = accounts.view
    return detect(view.assignment, view.statuses, {}, TIMEOUTS)


def lags(accounts: Accounts) -> list[int | None]:
    """As far as they are known of a source that holds something."""
    sources: list[SourceStatus] = [task.source for task in accounts.status("i1").tasks]
    return [source.lag_records if source.end else None for source in sources]
