"""The history of an application, by the command, from a real broker."""

from __future__ import annotations

import json

import pytest

from airflow_provider.cli.main import main
from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.topic import write_history
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord
from tests.integration.launch.application import Application


def test_what_happened_since_a_date_is_a_table_or_json(
    bootstrap_servers: str, application_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    drills = [
        HistoryRecord(
            application_id=application_id,
            kind=HistoryKind.DRILL,
            id=id_,
            cause="crash",
            at_ms=at_ms,
            by="test",
            outcome=HistoryOutcome.PASSED,
            instances=("a",),
        )
        for id_, at_ms in (("old", 1_000), ("new", now_ms()))
    ]
    write_history(application.connection, application_id, *drills)
    at = (application_id, "--bootstrap-servers", bootstrap_servers)

    assert main(["history", *at]) == 0
    assert capsys.readouterr().out.count("crash") == 2
    assert main(["history", *at, "--since", "1d", "--kind", "drill", "--json"]) == 0
    assert [record["id"] for record in json.loads(capsys.readouterr().out)] == ["new"]
    assert main(["history", *at, "--kind", "upgrade"]) == 0
    assert capsys.readouterr().out == "no history\n"
