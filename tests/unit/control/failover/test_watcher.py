from __future__ import annotations

from airflow_provider.control.failover.open_problems import watch_problem, watched_by
from airflow_provider.control.records.incident import Watcher

LAST = Watcher(application_id="app", host="triggerer-1", pid=7, began_at_ms=1, sent_at_ms=1_700_000_000_000)


def test_application_of_whose_watcher_something_came_is_watched() -> None:
    assert watch_problem("app", LAST, heard=True) is None


def test_silent_watcher_is_named_with_its_host_and_its_last_word() -> None:
    found = watch_problem("app", LAST, heard=False)

    assert found is not None
    assert "last heard of at 2023-11-14T22:13:20+00:00 (process 7 on triggerer-1)" in found
    assert "\n" not in found


def test_application_that_nothing_ever_watched_says_so() -> None:
    found = watch_problem("app", None, heard=False)

    assert found is not None
    assert "nothing ever did: unpause its failover DAG and run a triggerer" in found


def test_by_whom_and_since_when_is_said_in_a_few_words() -> None:
    assert watched_by(LAST, watched=True) == "watched by process 7 on triggerer-1 since 1970-01-01T00:00:00+00:00"
    assert watched_by(LAST, watched=False).startswith("watched by none, last by process 7 on triggerer-1 until 2023-")
    assert watched_by(None, watched=False) == "watched by none"
