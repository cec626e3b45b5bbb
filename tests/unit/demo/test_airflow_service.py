from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.demo import airflow_service
from airflow_provider.demo.airflow_service import AirflowClient, AirflowHome, AirflowService
from airflow_provider.demo.errors import DemoError

HOME = AirflowHome(Path("/demo/airflow"), Path("/repository/dags"), 28_080, "127.0.0.1:29092", "local[2]")


def test_no_component_serves_logs_beyond_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's log servers listen on all addresses, and a second one of a machine fills the log with refusals."""
    commands: list[Sequence[str]] = []

    def child(_name: str, command: Sequence[str], *_: Any, **__: Any) -> object:
        commands.append(command)
        return object()

    monkeypatch.setattr(airflow_service, "Child", child)

    AirflowService(HOME, tmp_path).start()

    serving = [command for command in commands if {"scheduler", "triggerer"} & set(command)]
    assert len(serving) == 2
    assert all("--skip-serve-logs" in command for command in serving)
    assert not {"standalone", "celery"} & {word for command in commands for word in command}


def test_connections_are_named_in_the_environment() -> None:
    environment = HOME.to_environment({})

    assert json.loads(environment["AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT"]) == {
        "conn_type": "kafkastreams",
        "host": "127.0.0.1",
        "port": 29092,
    }
    assert json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"]) == {"conn_type": "spark", "host": "local[2]"}


def test_everything_listens_on_loopback() -> None:
    environment = HOME.to_environment({})

    assert environment["AIRFLOW__API__HOST"] == environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert environment["AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK"] == "False"


def test_another_airflow_does_not_reach_it() -> None:
    foreign = {
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD": "steal",
        "AIRFLOW_CONN_OTHER": "x",
        "AIRFLOW_HOME": "/home/user/airflow",
        "PATH": "/bin",
    }

    environment = HOME.to_environment(foreign)

    assert environment["PATH"] == "/bin"
    assert environment["AIRFLOW_HOME"] == "/demo/airflow"
    assert environment["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert "AIRFLOW_CONN_OTHER" not in environment
    assert "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD" not in environment


def test_secrets_are_new_each_time() -> None:
    first, second = HOME.to_environment({}), HOME.to_environment({})

    for name in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API__SECRET_KEY"):
        assert first[name] != second[name]


RUN = "/api/v2/dags/d/dagRuns/r"


class Airflow(ThreadingHTTPServer):
    """Answers each path with the next of its scripted answers, the last one again and again; None hangs up."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[tuple[int, Any] | None]] = {"/auth/token": [(201, {"access_token": "secret"})]}
        self.asked: list[tuple[str, str, str | None, Any]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Airflow

    def do_GET(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        path = self.path.partition("?")[0]
        self.server.asked.append((self.command, path, self.headers.get("Authorization"), body))
        answers = self.server.answers[path]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            self.close_connection = True
            return
        status, value = answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def airflow() -> Iterator[Airflow]:
    server = Airflow()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_token_is_fetched_once(airflow: Airflow) -> None:
    airflow.answers[RUN] = [(200, {"state": "running"}), (200, {"state": "success"})]
    client = AirflowClient(airflow.address)

    assert [client.run_state("d", "r") for _ in range(2)] == ["running", "success"]
    assert [(path, token) for _, path, token, _ in airflow.asked] == [
        ("/auth/token", None),
        (RUN, "Bearer secret"),
        (RUN, "Bearer secret"),
    ]


def test_unanswered_request_is_asked_again(airflow: Airflow) -> None:
    airflow.answers[RUN] = [None, (503, {}), (200, {"state": "success"})]

    assert AirflowClient(airflow.address).run_state("d", "r") == "success"


def test_run_that_an_unanswered_request_started_is_not_started_again(airflow: Airflow) -> None:
    path = "/api/v2/dags/d/dagRuns"
    airflow.answers[path] = [None, (409, {"detail": "exists"})]

    AirflowClient(airflow.address).trigger("d", "r", {"a": 1})

    assert [body["dag_run_id"] for _, asked, _, body in airflow.asked if asked == path] == ["r", "r"]


def test_refusal_is_reported_at_once(airflow: Airflow) -> None:
    airflow.answers[RUN] = [(404, {"detail": "no such run"})]

    with pytest.raises(DemoError, match=r"answered 404 to GET .*no such run"):
        AirflowClient(airflow.address).run_state("d", "r")


def test_patience_ends(airflow: Airflow) -> None:
    airflow.answers[RUN] = [None]

    with pytest.raises(DemoError, match="did not answer GET"):
        AirflowClient(airflow.address, patience_s=0.1).run_state("d", "r")


def test_components_without_a_heartbeat_are_named(airflow: Airflow) -> None:
    healthy, unhealthy = {"status": "healthy"}, {"status": "unhealthy"}
    airflow.answers["/api/v2/monitor/health"] = [
        (200, {"metadatabase": healthy, "scheduler": healthy, "triggerer": unhealthy, "dag_processor": None})
    ]

    assert AirflowClient(airflow.address).unhealthy() == ["triggerer", "dag_processor"]


def test_airflow_that_does_not_answer_is_unhealthy() -> None:
    assert AirflowClient("http://127.0.0.1:9").unhealthy() == ["api-server"]


def test_api_of_the_tasks_is_asked_by_itself(airflow: Airflow) -> None:
    airflow.answers["/execution/health"] = [(503, {}), (200, {"status": "healthy"})]
    client = AirflowClient(airflow.address)

    assert [client.serves_tasks() for _ in range(2)] == [False, True]
