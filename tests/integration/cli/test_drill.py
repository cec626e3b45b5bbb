"""A whole drill by the command, over a real broker and the real launcher; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.cli.main import main
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.outlook.slo import passed_drill
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import changelog_spec
from tests.integration.launch.application import FAKE_INSTANCE, Application
from tests.spark_submit_stub import spark_submit_stub


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        yield run_dir


class Started:
    """Two instances that the command started, and the first assignment."""

    def __init__(self, application: Application, bootstrap_servers: str, folder: Path, run_dir: Path) -> None:
        self.application = application
        self.at = (application.id, "--bootstrap-servers", bootstrap_servers)
        self._folder, self._run_dir = folder, run_dir

    def start(self, *env: str) -> None:
        for name in ("a", "b"):
            options = ["--application", self.application.id, "--instance", name, *self.at[1:], "--detach"]
            folders = ["--state-dir", str(self._folder / name), "--run-dir", str(self._run_dir)]
            conf = ["--conf", "spark.jars=none.jar", *(word for entry in env for word in ("--env", entry))]
            assert main(["run", str(FAKE_INSTANCE), *options, *folders, *conf]) == 0
        assert main(["assign", *self.at]) == 0


@pytest.fixture
def started(bootstrap_servers: str, application_id: str, tmp_path: Path, spark_submit: Path) -> Started:
    application = Application.create(bootstrap_servers, application_id)
    TopicAdmin(application.connection).ensure([changelog_spec(application_id, "state", 2)])
    return Started(application, bootstrap_servers, tmp_path, spark_submit)


def test_fault_is_answered_by_the_command_and_the_drill_is_kept(
    started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    started.start()
    capsys.readouterr()

    assert main(["drill", *started.at, "--answer", "--instance", "a"]) == 0

    said = capsys.readouterr()
    assert said.out.startswith("drill (crash) of a: passed\n")
    assert "task 0_0: promote on b" in said.err
    view = started.application.view()
    assert [record.resolved_at_ms is not None for record in view.incidents.values()] == [True]
    assert main(["status", *started.at, "--check"]) == 0
    capsys.readouterr()
    assert main(["history", *started.at, "--kind", "drill", "--json"]) == 0
    (kept,) = json.loads(capsys.readouterr().out)
    assert (kept["outcome"], kept["instances"]) == ("passed", ["a"])
    assert kept["rto"]["total_ms"] > 0


def test_drill_that_cannot_begin_or_measures_nothing_is_skipped(
    started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    started.start("NO_INPUT=0_0,0_1")
    capsys.readouterr()

    assert main(["drill", *started.at, "--standbys", "2", "--ready-timeout", "1"]) == 4
    assert capsys.readouterr().out.startswith("skipped: it is not whole after")
    assert main(["drill", *started.at, "--blackout", "mon-sun"]) == 4
    assert capsys.readouterr().out.startswith("skipped: no drill begins ")
    assert main(["drill", *started.at, "--instance", "c"]) == 1
    assert "has no instance 'c', but a, b" in capsys.readouterr().err
    assert main(["drill", *started.at]) == 4
    assert "nothing watches" in capsys.readouterr().out
    assert main(["drill", *started.at, "--answer"]) == 4
    assert "Nothing was measured" in capsys.readouterr().out

    kept = read_history(started.application.connection, started.application.id, kind=HistoryKind.DRILL)
    assert [one.outcome for one in kept] == [HistoryOutcome.SKIPPED] * 4
    begun = ("it is not whole after", "no drill begins ", "nothing watches", "Nothing was measured")
    assert all(words in str(one.reason) for one, words in zip(kept, begun, strict=True))
    assert passed_drill(kept) is None


def test_owner_that_lost_commits_fails_the_drill(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    started.start("LOSE_COMMITS=1")
    capsys.readouterr()

    assert main(["drill", *started.at, "--answer", "--json"]) == 3

    kept = json.loads(capsys.readouterr().out)
    assert kept["outcome"] == "failed"
    assert "commits were lost" in kept["reason"]
