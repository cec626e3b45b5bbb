from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from airflow_provider.demo.airflow_client import AirflowClient
from airflow_provider.demo.errors import DemoError

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
